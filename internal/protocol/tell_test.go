// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// inZone is an affinity to nodes of a zone.
func inZone(zone string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		}}},
	}}}
}

// patched is a pod after the API server has applied a strategic merge patch.
func patched(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Tolerations are added once, and those that a pod has stay: the API server allows no other change.
func TestQuotaPatch(t *testing.T) {
	gpu, spot, own := corev1.Toleration{Key: "gpu"}, corev1.Toleration{Key: "spot"}, corev1.Toleration{Key: "own", TolerationSeconds: new(int64(5))}
	pod := fixture.BrokerPod("lmp", 2).Spec(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{own, spot} }).Obj()
	patch, err := QuotaPatch(pod, &v1alpha2.Quota{Tolerations: []corev1.Toleration{gpu, spot, *own.DeepCopy()}})
	if err != nil {
		t.Fatal(err)
	}
	got := patched(t, pod, patch)
	if diff := cmp.Diff([]corev1.Toleration{own, spot, gpu}, got.Spec.Tolerations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, none := range [][]corev1.Toleration{nil, {gpu}, {own, gpu, spot}} {
		if patch, err := QuotaPatch(got, &v1alpha2.Quota{Tolerations: none}); patch != nil || err != nil {
			t.Errorf("for %v: patch %s, %v", none, patch, err)
		}
	}
	quota := &v1alpha2.Quota{Topology: &v1alpha2.QuotaTopology{}}
	if patch, err = QuotaPatch(got, quota); err != nil {
		t.Fatal(err)
	}
	got = patched(t, got, patch)
	if got.Annotations[v1alpha2.KueueTopologyAnnotation] != "true" || len(got.Spec.Tolerations) != 3 {
		t.Errorf("a pod that a topology assignment counts has annotations %v and %d tolerations", got.Annotations, len(got.Spec.Tolerations))
	}
	if patch, err := QuotaPatch(got, quota); patch != nil || err != nil {
		t.Errorf("patch %s, %v", patch, err)
	}
}

func TestPlacePatch(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 2).Annotation("mine", "1").Spec(func(s *corev1.PodSpec) {
		s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/mine"})
		s.Affinity = inZone("a")
	}).Obj()
	patch, err := PlacePatch(pod, "node-7", 2, Orders{}, fixture.Noon)
	if err != nil {
		t.Fatal(err)
	}
	got := patched(t, pod, patch)
	if IsGated(got) || len(got.Spec.SchedulingGates) != 1 {
		t.Errorf("its gates are %v: others' have to stay", got.Spec.SchedulingGates)
	}
	if node := PinnedNode(got); node != "node-7" {
		t.Errorf("it is pinned to %q", node)
	}
	terms := got.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 {
		t.Errorf("its own affinity is %v", terms)
	}
	if got.Labels[v1alpha2.RankLabel] != "2" || got.Labels[v1alpha2.SelectorLabel] != "lmp" || got.Annotations["mine"] != "1" || got.Annotations[v1alpha2.QuorumAnnotation] != "" {
		t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
	}
	if at := Read(got).Broker.Placed; !at.Equal(fixture.Noon) || !Read(pod).Broker.Placed.IsZero() {
		t.Errorf("it was placed at %s", at)
	}
}

func TestPlacePatchOfTheLead(t *testing.T) {
	lead := fixture.BrokerPod("lmp", 0).Obj()
	patch, err := PlacePatch(lead, "node-7", 0, Orders{Quorum: 4, Again: life.Again{Number: 1, Ranks: []int{0, 1, 2, 5}}}, fixture.Noon)
	if err != nil {
		t.Fatal(err)
	}
	got := patched(t, lead, patch)
	if told := Read(got); told.Quorum != 4 || told.Restarts != 1 || told.Ranks != "0-2,5" || PinnedNode(got) != "node-7" {
		t.Errorf("quorum %d, restart %d with %q, pinned to %q", told.Quorum, told.Restarts, told.Ranks, PinnedNode(got))
	}
	for _, step := range []struct {
		leave string
		order Orders
	}{
		{"", Orders{Quorum: 3}},
		{"2-3", Orders{Quorum: 3, Drain: []int{2, 3}, Again: life.Again{Number: 2, Ranks: []int{0, 1, 4}}}},
		{"3", Orders{Quorum: 3, Drain: []int{3}, Again: life.Again{Number: 2, Ranks: []int{0, 1, 4}}}},
		{"", Orders{Quorum: 3, Again: life.Again{Number: 2, Ranks: []int{0, 1, 4}}}},
	} {
		patch, err = PublishPatch(got, step.order)
		if err != nil {
			t.Fatal(err)
		}
		got = patched(t, got, patch)
		if told := Read(got); told.Quorum != 3 || told.Drain != step.leave || told.Restarts != max(step.order.Again.Number, 1) {
			t.Errorf("quorum %d, restart %d, told that %q leave, want 3, %d and %q", told.Quorum, told.Restarts, told.Drain, step.order.Again.Number, step.leave)
		}
	}
}

func TestStopPatch(t *testing.T) {
	lead := fixture.BrokerPod("lmp", 0).Obj()
	patch, err := StopPatch(lead, "Preempted", 29500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if stop := Read(patched(t, lead, patch)).Stop; stop != "Preempted 29" {
		t.Errorf("the lead is told %q", stop)
	}
}

func TestBinding(t *testing.T) {
	for name, tc := range map[string]struct {
		rank, quorum int
		labels       map[string]string
		annotations  map[string]string
	}{
		"the lead":   {0, 4, map[string]string{v1alpha2.RankLabel: "0", v1alpha2.SelectorLabel: "lmp"}, map[string]string{v1alpha2.QuorumAnnotation: "4"}},
		"a follower": {2, 0, map[string]string{v1alpha2.RankLabel: "2", v1alpha2.SelectorLabel: "lmp"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", tc.rank).Spec(ours).Obj()
			want := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.Name, UID: pod.UID, Labels: tc.labels, Annotations: tc.annotations},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "node-7"},
			}
			if diff := cmp.Diff(want, Binding(pod, "node-7", tc.rank, Orders{Quorum: tc.quorum})); diff != "" {
				t.Errorf("it is another (-want +got):\n%s", diff)
			}
		})
	}
}

// The gate goes, whoever else has one, and the pod is left to a scheduler.
func TestUngatePatch(t *testing.T) {
	pod := fixture.ServicesPod("lmp").Spec(func(s *corev1.PodSpec) {
		s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/mine"})
	}).Obj()
	pod.Spec.NodeSelector = map[string]string{"arch": "arm64"}
	patch, err := UngatePatch(pod, &v1alpha2.Quota{NodeSelector: map[string]string{"pool": "spot"}})
	if err != nil {
		t.Fatal(err)
	}
	got := patched(t, patched(t, pod, patch), patch)
	if HasGate(got) || len(got.Spec.SchedulingGates) != 1 || PinnedNode(got) != "" {
		t.Errorf("its gates are %v, it is pinned to %q", got.Spec.SchedulingGates, PinnedNode(got))
	}
	if want := map[string]string{"arch": "arm64", "pool": "spot"}; !maps.Equal(got.Spec.NodeSelector, want) {
		t.Errorf("its nodes are %v", got.Spec.NodeSelector)
	}
}

// A pod can be read as it was before it was pinned: with its own affinity alone.
func TestUnpinned(t *testing.T) {
	for name, own := range map[string]*corev1.Affinity{"no affinity": nil, "its own affinity": inZone("a")} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", 2).Spec(func(s *corev1.PodSpec) { s.Affinity = own }).Obj()
			if diff := cmp.Diff(pod, Unpinned(pod)); diff != "" {
				t.Errorf("a gated pod changes: %s", diff)
			}
			patch, err := PlacePatch(pod, "node-7", 2, Orders{}, fixture.Noon)
			if err != nil {
				t.Fatal(err)
			}
			placed := patched(t, pod, patch)
			got := Unpinned(placed)
			if node := PinnedNode(got); node != "" {
				t.Errorf("it is still pinned to %q", node)
			}
			var want, kept *corev1.NodeSelector
			if own != nil {
				want = own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}
			if got.Spec.Affinity != nil && got.Spec.Affinity.NodeAffinity != nil {
				kept = got.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}
			if diff := cmp.Diff(want, kept, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("its own affinity: %s", diff)
			}
			if PinnedNode(placed) != "node-7" {
				t.Error("the placed pod has changed")
			}
		})
	}
}
