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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/status"
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

// What helps a MiniCluster that is refused depends on the reason, and on what the user may read.
func TestHelpFor(t *testing.T) {
	brief := &v1alpha2.MiniClusterQueue{Spec: v1alpha2.MiniClusterQueueSpec{MaxDeadline: &metav1.Duration{Duration: time.Hour}}}
	for _, tc := range []struct {
		reason   string
		deadline int64
		queue    *v1alpha2.MiniClusterQueue
		open     []string
		want     string
	}{
		{v1alpha2.ReasonDeadlineTooLong, 7200, brief, nil, "submit with -t 1h or less (deadlineSeconds)"},
		{v1alpha2.ReasonDeadlineTooLong, 60, brief, nil, "an elastic.checkpoint.wait of at most 10m"},
		{v1alpha2.ReasonDeadlineTooLong, 7200, nil, nil, "a shorter time, as the message says"},
		{v1alpha2.ReasonNoSuchQueue, 0, nil, []string{"default", "research"}, "a queue that exists, by submit -q (queues that you may use: default, research)"},
		{v1alpha2.ReasonNoSuchQueue, 0, nil, nil, "a queue that exists, by submit -q; an administrator knows which"},
		{v1alpha2.ReasonNotAllowed, 0, brief, []string{"default"}, "a queue for the namespace, by submit -q (queues that you may use: default)"},
		{v1alpha2.ReasonQueueSuspended, 0, brief, []string{"research"}, "the administrator of queue default, or another queue, by submit -q (queues that you may use: research)"},
		{v1alpha2.ReasonQueueFull, 0, brief, []string{"default"}, "time: it starts when enough MiniClusters of its queue have ended"},
		{v1alpha2.ReasonNoRoom, 0, brief, []string{"default"}, ""},
	} {
		mc := waitsFor(tc.reason, "")
		mc.Spec.DeadlineSeconds = &tc.deadline
		if got := helpFor(mc, tc.queue, tc.open); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
		}
	}
	mc := waitsFor(v1alpha2.ReasonNoSuchQueue, "")
	mc.Namespace = "here"
	open, err := openQueues(t.Context(), cluster(), mc)
	if got := strings.Join(open, " "); err != nil || got != "default research" {
		t.Errorf("queues here: %s, %v", got, err)
	}
}

// Each reason for which the scheduler refuses a MiniCluster has its help.
func TestHelpForEachReason(t *testing.T) {
	for verdict := range status.QueuedEvents {
		if waits := !verdict.Refused() || verdict == elastic.NeverFits; waits && verdict != elastic.QueueFull {
			continue
		}
		if helpFor(waitsFor(string(verdict), ""), nil, nil) == "" {
			t.Errorf("nothing helps against %s", verdict)
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

// A policy or a webhook may reject a MiniCluster: others may change it.
func TestAccepted(t *testing.T) {
	const edit = "What helps: a change of the spec, by kubectl edit minicluster "
	for reason, denied := range map[string]bool{v1alpha2.ReasonUnsupported: false, v1alpha2.ReasonNameClash: false, v1alpha2.ReasonPodRejected: true, v1alpha2.ReasonObjectRejected: true} {
		mc := life()
		mc.Status.Conditions = []metav1.Condition{{Type: v1alpha2.ConditionAccepted, Status: metav1.ConditionFalse, Reason: reason}}
		if got := accepted(mc); !strings.HasPrefix(got, edit+mc.Name) || strings.Contains(got, "a policy or a webhook") != denied {
			t.Errorf("%s: got %q", reason, got)
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
