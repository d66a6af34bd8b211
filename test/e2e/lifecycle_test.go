// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

func duration(text string) *metav1.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return &metav1.Duration{Duration: d}
}

// A MiniCluster's way from being created to being gone, seen from outside.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("lammps").Size(4).Tasks(32).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)

	if mc.Status.Admission.Size != 4 || mc.Status.Tasks != 32 || mc.Status.Nodes != 4 {
		t.Errorf("it runs with %d brokers, %d tasks on %d nodes", mc.Status.Admission.Size, mc.Status.Tasks, mc.Status.Nodes)
	}
	for _, kind := range []string{v1alpha2.ConditionAccepted, v1alpha2.ConditionAdmitted, v1alpha2.ConditionQuorumReached, v1alpha2.ConditionReady} {
		if c := condition(mc, kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != mc.Generation {
			t.Errorf("condition %s is %+v", kind, c)
		}
	}
	var selected corev1.PodList
	if err := env.client.List(s.ctx, &selected, client.InNamespace(s.namespace), &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: mc.Status.Selector}}); err != nil {
		t.Fatal(err)
	}
	if len(selected.Items) != 4 {
		t.Errorf("status.selector selects %d pods", len(selected.Items))
	}
	var hosts []string
	for _, pod := range s.pods(mc) {
		rank, _ := protocol.Rank(&pod)
		hosts = append(hosts, fmt.Sprintf("%s=%s", pod.Spec.Hostname, pod.Labels["job-index"]))
		if pod.Spec.NodeName == "" || pod.Labels["app"] != "flux-operator" || pod.Spec.Subdomain != "lammps" {
			t.Errorf("pod %s: node %q, labels %v, subdomain %q", pod.Name, pod.Spec.NodeName, pod.Labels, pod.Spec.Subdomain)
		}
		if rank == 0 && !strings.HasPrefix(pod.Name, "lammps-0") {
			t.Errorf("the lead's pod is %s", pod.Name)
		}
	}
	slices.Sort(hosts)
	if want := []string{"lammps-0-0-0=0", "lammps-w-0-0=1", "lammps-w-0-1=2", "lammps-w-0-2=3"}; !slices.Equal(hosts, want) {
		t.Errorf("the hosts, with their ranks, are %v, want %v", hosts, want)
	}

	s.endCommand(mc)
	s.awaitSuccess(mc)
	if mc.Status.ExitCode == nil || *mc.Status.ExitCode != 0 || mc.Status.StartTime == nil || mc.Status.CompletionTime == nil || mc.Status.Size != 0 {
		t.Errorf("at the end the status is %+v", mc.Status)
	}
	// The lead's pod stays for its log, alone.
	eventually(t, func() error {
		if pods := s.pods(mc); len(pods) != 1 || pods[0].Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("%d pods are left", len(pods))
		}
		return nil
	})
	eventually(t, func() error {
		for _, reason := range []string{"Admitted", "Started", "Succeeded"} {
			if n := s.events(mc)[reason]; n != 1 {
				return fmt.Errorf("event %s was said %d times", reason, n)
			}
		}
		return nil
	})
	s.delete(mc)
	eventually(t, s.shared.NothingLeft)
}

// A MiniCluster that another controller carries out is left alone, and nobody waits for it.
func TestManagedByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	elsewhere := s.create(s.miniCluster("elsewhere").Size(1).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.ManagedBy = "kueue.x-k8s.io/multikueue" }))
	here := s.create(s.miniCluster("here").Size(1).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.ManagedBy = v1alpha2.ManagedBy }))
	s.awaitSuccess(here)
	s.get(elsewhere)
	if len(elsewhere.Status.Conditions) != 0 {
		t.Errorf("its status is %+v", elsewhere.Status)
	}
	changed := elsewhere.DeepCopy()
	changed.Spec.ManagedBy = v1alpha2.ManagedBy
	if err := s.shared.Cluster.Client.Update(t.Context(), changed); err == nil || !strings.Contains(err.Error(), unchangeable) {
		t.Errorf("another controller is to carry it out: %v", err)
	}
}

// The completion index of all containers of a pod is its rank. The Job controller would set its own.
func TestCompletionIndexIsRank(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	mc := s.create(s.miniCluster("indexed").Size(3).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].RunFlux = true
		spec.Containers = append(spec.Containers, v1alpha2.MiniClusterContainer{Name: "beside", Image: "beside"})
	}))
	s.awaitState(mc, v1alpha2.StateRunning)
	for rank := range 3 {
		pod := s.awaitPod(mc, rank, "placed", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		if label := pod.Labels[v1alpha2.RankLabel]; label != strconv.Itoa(rank) {
			t.Errorf("the label of rank %d is %q", rank, label)
		}
		containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		if len(containers) != 3 {
			t.Errorf("there are %d containers", len(containers))
		}
		for i := range containers {
			var found []corev1.EnvVar
			for _, v := range containers[i].Env {
				if v.Name == "JOB_COMPLETION_INDEX" {
					found = append(found, v)
				}
			}
			if len(found) != 1 || found[0].ValueFrom == nil || found[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['"+v1alpha2.RankLabel+"']" {
				t.Errorf("container %s of rank %d has %+v", containers[i].Name, rank, found)
			}
		}
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// One that could never run says so at once, with numbers, and holds nothing.
func TestNeverFits(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	mc := s.create(s.miniCluster("huge").Size(1000))
	s.await(mc, "told that it never fits", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNeverFits
	})
	message := condition(mc, v1alpha2.ConditionAdmitted).Message
	for _, part := range []string{"1000 brokers of 8 cpu each", "has room for 3", "not selected by the pod's node labels"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message is %q, without %q", message, part)
		}
	}
	if pods := s.pods(mc); len(pods) > 0 {
		t.Errorf("it has %d pods", len(pods))
	}
	// Drivers offer devices by DeviceClasses, too. Nodes do not have these.
	device := s.create(s.miniCluster("device").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].Resources.Limits["example.com/accel"] = resource.MustParse("1")
	}))
	s.await(device, "told which resource no node has", func(mc *v1alpha2.MiniCluster) bool {
		admitted := condition(mc, v1alpha2.ConditionAdmitted)
		return admitted.Reason == v1alpha2.ReasonNeverFits && strings.Contains(admitted.Message, "3 without example.com/accel")
	})
	// They hold up nobody.
	small := s.create(s.miniCluster("small").Size(3))
	s.awaitSuccess(small)
}

// Devices that are GPUs are in R, also by the names of parts of them, and by names that the user says. Too many tasks for them
// hold nothing.
func TestGPUsByAnyName(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.provideResources(map[string]string{"nvidia.com/mig-1g.10gb": "2", "example.com/accel": "2"})
	for _, device := range []corev1.ResourceName{"nvidia.com/mig-1g.10gb", "example.com/accel"} {
		mc := s.create(s.miniCluster("gpus").Tasks(3).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Resources.Limits[device] = resource.MustParse("2")
			spec.Flux.OptionFlags, spec.Flux.GPUResources = "--gpus-per-task=1", []corev1.ResourceName{"example.com/accel"}
		}))
		s.awaitState(mc, v1alpha2.StateRejected)
		if accepted := condition(mc, v1alpha2.ConditionAccepted); !strings.Contains(accepted.Message, "spec.tasks is 3, more than the 2 for which Flux has GPUs") {
			t.Errorf("it was told %s: %s", accepted.Reason, accepted.Message)
		}
		s.patch(mc, `{"spec":{"tasks":2}}`)
		s.awaitState(mc, v1alpha2.StateRunning)
		if _, files := s.filesOf(mc); !strings.Contains(files.Data["R"], `"gpu":"0-1"`) {
			t.Errorf("with %s, R is %s", device, files.Data["R"])
		}
		s.endCommand(mc)
		s.awaitSuccess(mc)
		s.delete(mc)
		s.awaitGone(mc)
	}
}

// A MiniCluster that weighs too much holds nothing, and is told which part is so large. One that runs goes on.
func TestWeighsTooMuch(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	environment := map[string]string{}
	for i := range 20 {
		environment[fmt.Sprint("E", i)] = strings.Repeat("x", 20_000)
	}
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"flux": map[string]any{"environment": environment}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "KiB, most of them in spec.flux.environment, and may have 240 KiB"
	running := s.create(s.miniCluster("running").PodAnnotation(simulator.Runtime, "10s"))
	s.awaitState(running, v1alpha2.StateRunning)
	s.patch(running, "%s", text)
	refused := s.create(s.miniCluster("refused").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Environment = environment }))
	s.await(refused, "refused", func(mc *v1alpha2.MiniCluster) bool {
		accepted := condition(mc, v1alpha2.ConditionAccepted)
		return accepted.Reason == v1alpha2.ReasonUnsupported && strings.Contains(accepted.Message, want)
	})
	if refused.Status.Admission != nil {
		t.Errorf("it holds %v", refused.Status.Admission)
	}
	s.awaitSuccess(running)
	s.patch(refused, `{"spec":{"flux":{"environment":null}}}`)
	s.awaitSuccess(refused)

	labelled := s.miniCluster("labelled") // labels leave the generation as it is
	for i := range 2000 {
		labelled.Label(fmt.Sprintf("%s.example.com/label-%d", strings.Repeat("x", 60), i), strings.Repeat("x", 63))
	}
	mc := s.create(labelled)
	s.await(mc, "refused", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(condition(mc, v1alpha2.ConditionAccepted).Message, "KiB, most of them in metadata.labels, and may have")
	})
	if err := env.client.Patch(s.ctx, mc, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels"}]`))); err != nil {
		t.Fatal(err)
	}
	s.awaitSuccess(mc)
}

// Scripts of 198 KB and labels that charts write are as users have them.
func TestOfUsers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("batch").Size(2).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].Batch, spec.Containers[0].Command = true, strings.Repeat("flux submit -n 1 "+strings.Repeat("x", 80)+"\n", 2000)
		spec.Pod.Labels = map[string]string{v1alpha2.AppInstanceLabel: "mine", "app": "lammps"}
	}))
	s.awaitState(mc, v1alpha2.StateRunning)
	lead := s.podOfRank(mc, 0)
	if got := [3]string{lead.Labels[v1alpha2.AppInstanceLabel], lead.Labels["app"], lead.Labels[v1alpha2.RankLabel]}; got != [3]string{"mine", "lammps", "0"} {
		t.Errorf("labels %v", got)
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// One that does not fit now has no pods until it does, and takes the nodes when they
// are free.
func TestWaitsForRoom(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	first := s.create(s.miniCluster("first").Size(3).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second").Size(4))
	s.await(second, "told why it waits", func(mc *v1alpha2.MiniCluster) bool {
		message := condition(mc, v1alpha2.ConditionAdmitted).Message
		return strings.Contains(message, " nodes has room now for 1: ") && strings.Contains(message, "not selected by the pod's node labels") && strings.Contains(message, "3 in use")
	})
	if n := occupied(s.pods(second)); n > 0 || state(s.get(first)) != v1alpha2.StateRunning {
		t.Errorf("%d of its pods hold a node while the first is %s", n, state(first))
	}
	// Of two that came in the same second either may be first: the other waits for it.
	third := s.create(s.miniCluster("third").Size(3))
	eventually(t, func() error {
		reasons := []string{condition(s.get(second), v1alpha2.ConditionAdmitted).Reason, condition(s.get(third), v1alpha2.ConditionAdmitted).Reason}
		slices.Sort(reasons)
		if !slices.Equal(reasons, []string{v1alpha2.ReasonNoRoom, v1alpha2.ReasonWaitingForTurn}) {
			return fmt.Errorf("they wait for %v", reasons)
		}
		return nil
	})
	s.endCommand(first)
	s.awaitSuccess(second)
	s.awaitSuccess(third)
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("pauses").Size(2).PodAnnotation(simulator.Runtime, "1h").
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }))
	s.awaitState(mc, v1alpha2.StateSuspended)
	if pods := s.pods(mc); len(pods) > 0 {
		t.Errorf("it has %d pods", len(pods))
	}
	s.patch(mc, `{"spec":{"suspend":false}}`)
	s.awaitState(mc, v1alpha2.StateRunning)
	s.patch(mc, `{"spec":{"suspend":true}}`)
	s.await(mc, "suspended, with nothing held", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateSuspended && mc.Status.Nodes == 0 && mc.Status.Admission == nil
	})
	eventually(t, func() error {
		var sets jobsetapi.JobSetList
		if err := env.client.List(s.ctx, &sets, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		if len(sets.Items)+len(s.pods(mc)) > 0 {
			return fmt.Errorf("%d JobSets and %d pods are left", len(sets.Items), len(s.pods(mc)))
		}
		return nil
	})
	// What was changed in the meantime holds from the next start on.
	s.patch(mc, `{"spec":{"size":1,"tasks":3}}`)
	s.patch(mc, `{"spec":{"suspend":false}}`)
	s.awaitState(mc, v1alpha2.StateRunning)
	if mc.Status.Admission.Size != 1 || mc.Status.Tasks != 3 {
		t.Errorf("it runs with %d brokers, %d tasks", mc.Status.Admission.Size, mc.Status.Tasks)
	}
	if r := mc.Status.RequeueState; r == nil || r.Count > 0 || mc.Status.Admission.Time.Before(r.RequeueAt) {
		t.Errorf("it got nodes at %s, and waited since %+v", mc.Status.Admission.Time, r)
	}
	secret, files := s.filesOf(mc)
	if settings := broker.ParseSettings(files.Data); settings["SIZE"] != "1" || settings["TASKS_AT_SIZE"] != "3" {
		t.Errorf("its lead was told %v", settings)
	}
	if files.Immutable == nil || !*files.Immutable || secret.Immutable == nil || !*secret.Immutable || !strings.HasPrefix(files.Name, "pauses-entrypoint-2-") {
		t.Errorf("the files are %+v and %v", files.ObjectMeta, secret.ObjectMeta)
	}
}

// filesOf waits until the files of earlier JobSets are gone, and returns the others.
func (s *site) filesOf(mc *v1alpha2.MiniCluster) (secret corev1.Secret, files corev1.ConfigMap) {
	s.t.Helper()
	eventually(s.t, func() error {
		var secrets corev1.SecretList
		var configMaps corev1.ConfigMapList
		for _, list := range []client.ObjectList{&secrets, &configMaps} {
			if err := env.client.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: mc.Name}); err != nil {
				return err
			}
		}
		if len(secrets.Items) != 1 || len(configMaps.Items) != 1 {
			return fmt.Errorf("%d Secrets and %d ConfigMaps", len(secrets.Items), len(configMaps.Items))
		}
		secret, files = secrets.Items[0], configMaps.Items[0]
		return nil
	})
	return secret, files
}

// occupied counts the pods that hold a node.
func occupied(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if protocol.PinnedNode(&pods[i]) != "" {
			n++
		}
	}
	return n
}
