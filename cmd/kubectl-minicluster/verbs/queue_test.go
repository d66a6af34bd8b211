// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// cluster returns a client of a cluster with the queue research, and with MiniClusters in the queue default, which nobody
// has made: two that wait, one that runs, and one that has finished.
func cluster() client.WithWatch {
	research := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "research", UID: "q"}}
	closed := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "closed", UID: "c"}, Spec: v1alpha2.MiniClusterQueueSpec{Suspended: true}}
	objects := []client.Object{research, closed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}}}
	runs := life("JobMiniClusterReady=Running")
	runs.Status.Admission, runs.Status.Nodes = &v1alpha2.Admission{}, 2
	for i, mc := range []*v1alpha2.MiniCluster{waitsFor("NoRoom", "Needs 4"), waitsFor("WaitingForTurn", "Waits"), runs, life("JobMiniClusterReady=Succeeded", "Finished=Succeeded")} {
		mc.Namespace, mc.Name = "here", string(rune('d'-i))
		mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{}}
		mc.UID, mc.CreationTimestamp = types.UID(mc.Name), metav1.NewTime(time.Date(2026, 3, 1, 11, 30, i, 0, time.UTC))
		objects = append(objects, mc)
	}
	return fake.NewClientBuilder().WithScheme(access.Scheme).WithObjects(objects...).Build()
}

// The queue default exists although nobody has made it.
func TestQueueDefault(t *testing.T) {
	s, out := session("")
	if err := listQueues(t.Context(), s, cluster(), "table"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.HasSuffix(got, "STATE closed 0 0 - - 0 suspended default 2 1 - - 0 open research 0 0 - - 0 open") {
		t.Errorf("got %s", got)
	}
	out.Reset()
	if err := showQueue(t.Context(), s, cluster(), "default", "table"); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"Nobody has made this queue", "- here/d NoRoom Because - here/c WaitingForTurn Because", "here/b Running 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if err := showQueue(t.Context(), s, cluster(), "nosuch", "table"); err == nil || err.Error() != "there is no queue nosuch; queues: closed, default, research" {
		t.Errorf("got %v", err)
	}
}

// What helps one that is not allowed to start depends on why.
func TestAllowed(t *testing.T) {
	long := life()
	long.Spec.DeadlineSeconds, long.Spec.Elastic.Checkpoint = new(int64(7200)), &v1alpha2.Checkpoint{Wait: &metav1.Duration{Duration: time.Hour}}
	brief := func(of elastic.Deadlines) string { return state.TooLong(long, "short", of) }
	for message, want := range map[string]string{
		brief(elastic.Deadlines{Max: time.Hour}):                                                              "submit with -t 1h or less (deadlineSeconds)",
		brief(elastic.Deadlines{Grace: 2 * time.Minute}):                                                      "an elastic.checkpoint.wait of at most 2m",
		"There is no queue nosuch":                                                                            "a queue that exists, by submit -q (queues here: default, research)",
		"Queue small has 16 cpu of 16 cpu in use, needs 8 cpu more":                                           "time: it starts when enough MiniClusters of queue small have ended",
		"Queue small runs at most 1 of user ada's MiniClusters at once, and as many run or go first":          "time: it starts when enough MiniClusters of its user in queue small have ended",
		"Needs 4 brokers, queue small allows user ada 4 at once, with what runs or goes first of this user":   "time: it starts when enough MiniClusters of its user in queue small have ended",
		"Needs 4 brokers, queue small allows user ada 2 at once":                                              "fewer or smaller brokers",
		"Needs 64 cpu, queue small may have 16 cpu":                                                           "fewer or smaller brokers",
		"Quota team lets no more than 1 pod be made, 2 are needed; it is 1 in all":                            "fewer or smaller brokers, or a larger ResourceQuota team",
		"Quota team lets 1 more pod be made by cpu, 2 are needed; 3 of 4 are used":                            "time, until others in the namespace have ended, or a larger ResourceQuota team",
		"The pods would be refused: exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1":   "time, until others in the namespace have ended, or a larger ResourceQuota team",
		"Quota team wants every container to say its memory, and container app does not":                      "memory in the resources of every container, for ResourceQuota team",
		"The pods would be refused: failed quota: team: must specify limits.cpu for: a; limits.memory for: a": "limits.cpu in the resources of every container, for ResourceQuota team",
		"Queue small is suspended":                                                                            "the administrator of queue small",
		"Queue small is not for namespace here: team=a":                                                       "a queue for the namespace, by submit -q (queues here: default, research)",
		"The namespaceSelector of queue small is wrong: no such operator":                                     "the administrator of queue small",
		"Needs 64 cpu, of 100 cpu in all 50 cpu are guaranteed to other queues":                               "fewer or smaller brokers, or smaller guarantees of other queues",
		"Something new": "the administrator of queue default",
	} {
		if got, _ := refusalOf(notAllowed(message), []string{"default", "research"}); got != want {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
	mc := notAllowed("There is no queue nosuch")
	mc.Namespace = "here"
	others, err := otherQueues(t.Context(), cluster(), mc, nil)
	if got := strings.Join(others.open, " "); err != nil || got != "default research" {
		t.Errorf("queues here: %s, %v", got, err)
	}
	if got, _ := refusalOf(mc, nil); got != "a queue that exists, by submit -q; an administrator knows which" {
		t.Errorf("without the right to list queues: %q", got)
	}
}

// notAllowed returns a MiniCluster that is not allowed to start.
func notAllowed(message string) *v1alpha2.MiniCluster {
	mc := waitsFor("NotAllowed", "")
	mc.Status.Conditions[1].Message = message
	return mc
}

// What helps one whose volume is missing is the volume, and no queue.
func TestVolumeHelps(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase, class, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	leaves, single := claim("", "", ""), claim("", "", "")
	leaves.DeletionTimestamp, single.Spec.AccessModes = &metav1.Time{}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	class := "fast"
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}}}
	for want, tc := range map[string]struct {
		source corev1.VolumeSource
		claim  *corev1.PersistentVolumeClaim
	}{
		"a PersistentVolumeClaim data in the namespace":                                  {},
		"a new PersistentVolumeClaim data":                                               {claim: leaves},
		"a new PersistentVolumeClaim data ":                                              {claim: claim(corev1.ClaimLost, "", "v")},
		"a new PersistentVolumeClaim data  ":                                             {claim: claim(corev1.ClaimBound, "", "v")},
		"a claim with the access mode ReadWriteMany in place of data, or a minSize of 1": {claim: single},
		"a volume for claim data: kubectl describe pvc data":                             {claim: claim(corev1.ClaimPending, "", "")},
		"a StorageClass fast, or a PersistentVolumeClaim data with another class":        {claim: claim(corev1.ClaimPending, "fast", "")},
		"a StorageClass fast, or another class in volume scratch":                        {source: ephemeral},
	} {
		source := tc.source
		if source.Ephemeral == nil {
			source.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: source}}}}
		waits := state.ReachOf(pod, 2, state.Storage{
			Claim:  func(string) *corev1.PersistentVolumeClaim { return tc.claim },
			Volume: func(string) *corev1.PersistentVolume { return nil },
			Class:  func(string) *storagev1.StorageClass { return nil },
		}).Waits
		if got, elsewhere := refusalOf(notAllowed(waits), nil); got != strings.TrimSpace(want) || elsewhere {
			t.Errorf("%s: got %q, %t, want %q", waits, got, elsewhere, want)
		}
	}
}

// Who lacks a right sees the rest, and no numbers that nobody has counted.
func TestQueueWithoutRights(t *testing.T) {
	without := func(list client.ObjectList) client.Client {
		return interceptor.NewClient(cluster(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, to client.ObjectList, o ...client.ListOption) error {
				if fmt.Sprintf("%T", to) == fmt.Sprintf("%T", list) {
					return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
				}
				return c.List(ctx, to, o...)
			},
		})
	}
	s, out := session("")
	c := without(&v1alpha2.MiniClusterList{})
	if err := listQueues(t.Context(), s, c, "table"); err != nil || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), "default - - - - 0 open") {
		t.Errorf("%v, %s", err, out)
	}
	out.Reset()
	if err := showQueue(t.Context(), s, c, "default", "table"); err != nil || strings.Contains(out.String(), "Nobody waits") || !strings.Contains(out.String(), "you need the right") {
		t.Errorf("%v, %s", err, out)
	}
	out.Reset()
	if err := why(t.Context(), s, c, client.ObjectKey{Namespace: "here", Name: "d"}); err != nil || strings.Contains(out.String(), "default") || !strings.Contains(out.String(), "Reason: NoRoom") {
		t.Errorf("%v, %s", err, out)
	}
	if err := showQueue(t.Context(), s, without(&v1alpha2.MiniClusterQueueList{}), "nosuch", "table"); err == nil || err.Error() != "there is no queue nosuch" {
		t.Errorf("got %v", err)
	}
}

// The queue is read only for a MiniCluster that waits. MiniClusters are listed once for all queues that nobody has made.
func TestQueueReads(t *testing.T) {
	reads := map[string]int{}
	c := interceptor.NewClient(cluster(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, to client.Object, o ...client.GetOption) error {
			reads[fmt.Sprintf("%T", to)]++
			return c.Get(ctx, key, to, o...)
		},
		List: func(ctx context.Context, c client.WithWatch, to client.ObjectList, o ...client.ListOption) error {
			reads[fmt.Sprintf("%T", to)]++
			return c.List(ctx, to, o...)
		},
	})
	s, _ := session("")
	if err := why(t.Context(), s, c, client.ObjectKey{Namespace: "here", Name: "b"}); err != nil || len(reads) != 1 {
		t.Errorf("%v, %v", err, reads)
	}
	if err := listQueues(t.Context(), s, c, "table"); err != nil || reads["*v1alpha2.MiniClusterList"] != 1 {
		t.Errorf("%v, %v", err, reads)
	}
}

// A policy or a webhook that rejects a MiniCluster is named: others may change it.
func TestAccepted(t *testing.T) {
	const edit = "What helps: a change of the spec, by kubectl edit minicluster "
	for message, want := range map[string]string{
		"spec.tasks is 32, more than the 16 for which Flux has cores":                                                 "",
		"the Job would be refused: ValidatingAdmissionPolicy 'labels' with binding 'labels' denied request: no label": "; or a change of the policy or webhook labels, by an administrator: then it starts by itself",
		`the pods would be refused: admission webhook "pods.example.com" denied the request: no`:                      "; or a change of the policy or webhook pods.example.com, by an administrator: then it starts by itself",
	} {
		mc := life()
		mc.Status.Conditions = []metav1.Condition{{Type: v1alpha2.ConditionAccepted, Status: metav1.ConditionFalse, Message: message}}
		if got := accepted(mc); got != edit+mc.Name+want {
			t.Errorf("%s: got %q", message, got)
		}
	}
}

// A new size counts, also if its meaning cannot be read. Ctrl-C ends the program.
func TestResizeUnread(t *testing.T) {
	s, out := session("")
	key := client.ObjectKey{Namespace: "here", Name: "gone"}
	if err := tellSize(t.Context(), s, cluster(), key); err != nil || !strings.Contains(out.String(), "What the new size does to gone is not known: ") {
		t.Errorf("%v, %s", err, out)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := tellSize(ctx, s, cluster(), key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A new size that a MiniCluster cannot take is told.
func TestResizeTells(t *testing.T) {
	rigid := life("JobMiniClusterReady=Running")
	rigid.Spec.Containers, rigid.Spec.Size = []v1alpha2.MiniClusterContainer{{Command: "lmp"}}, 2
	rigid.Status.StartTime, rigid.Status.Admission = &metav1.Time{}, &v1alpha2.Admission{Size: 4, Wanted: 4, Quorum: 4}
	launcher := rigid.DeepCopy()
	launcher.Spec.Containers[0].Launcher, launcher.Status.MaximumSize = true, 4
	larger := launcher.DeepCopy()
	larger.Spec.Size = 9
	for name, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string
	}{
		"rigid":    {rigid, "SizeIgnored: The size of 2 counts from the next start: the command runs with 4 brokers, and cannot gain or lose any."},
		"launcher": {launcher, ""},
		"too many": {larger, "SizeIgnored: It grows up to 4 brokers, not 9: no more pods were made when it was admitted."},
		"waits":    {waitsFor("NoRoom", "Needs 4"), ""},
		"finished": {life("JobMiniClusterReady=Succeeded", "Finished=Succeeded"), "lmp has finished: of the changed spec, only ttlSecondsAfterFinished counts; to run it again, delete it and create it again."},
	} {
		tc.mc.Spec.MinSize = 0
		if len(tc.mc.Spec.Containers) == 0 {
			tc.mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{}}
		}
		tc.mc.Default()
		if got := strings.Join(meaningOf(tc.mc), "\n"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A kubelet gives an ID to each container that it has started. One that it has lost may have none.
func TestSimulated(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason}}
	}
	for name, tc := range map[string]struct {
		id    string
		state corev1.ContainerState
		want  bool
	}{
		"simulated, running": {"", running, true}, "simulated, failed": {"", ended("Error"), true}, "real, running": {"containerd://1", running, false},
		"lost": {"", ended("ContainerStatusUnknown"), false}, "not begun": {"", corev1.ContainerState{}, false},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "lmp", ContainerID: tc.id, State: tc.state}}}}
		if got := errors.Is(brokerOf(pod, "lmp").checkSimulated(), access.ErrSimulated); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
