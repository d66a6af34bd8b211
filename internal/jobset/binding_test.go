// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
)

func TestBindDirectly(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(3).Defaulted()
	for name, tc := range map[string]struct {
		direct    bool
		gated     bool
		scheduler string
	}{
		"gate":   {false, true, ""},
		"direct": {true, false, "flux-elastic"},
	} {
		t.Run(name, func(t *testing.T) {
			set := jobSetOf(t, mc)
			if tc.direct {
				BindDirectly(set)
			}
			if len(set.Spec.ReplicatedJobs) != 2 {
				t.Fatalf("%d jobs", len(set.Spec.ReplicatedJobs))
			}
			for _, job := range set.Spec.ReplicatedJobs {
				pod := &corev1.Pod{Spec: job.Template.Spec.Template.Spec}
				if HasGate(pod) != tc.gated || len(pod.Spec.SchedulingGates) > 1 || pod.Spec.SchedulerName != tc.scheduler {
					t.Errorf("job %s: gates %v, scheduler %q", job.Name, pod.Spec.SchedulingGates, pod.Spec.SchedulerName)
				}
				if !IsGated(pod) || PinnedNode(pod) != "" {
					t.Errorf("job %s: its pods do not wait, but are on %q", job.Name, PinnedNode(pod))
				}
			}
			// All else is the same.
			plain := jobSetOf(t, mc)
			for i := range set.Spec.ReplicatedJobs {
				was := &plain.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
				is := &set.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
				is.SchedulingGates, is.SchedulerName = was.SchedulingGates, was.SchedulerName
			}
			if diff := cmp.Diff(plain, set); diff != "" {
				t.Errorf("it differs (-gate +got):\n%s", diff)
			}
		})
	}
}

// ours is how a pod is that is bound directly.
func ours(s *corev1.PodSpec) { s.SchedulingGates, s.SchedulerName = nil, v1alpha2.SchedulerName }

func TestWaiting(t *testing.T) {
	scheduler := func(s *corev1.PodSpec) { s.SchedulerName = v1alpha2.SchedulerName }
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		waits bool
		node  string
	}{
		"behind the gate":                        {fixture.BrokerPod("lmp", 0).Obj(), true, ""},
		"pinned for a scheduler":                 {fixture.BrokerPod("lmp", 0).Pinned("a").Obj(), false, "a"},
		"for our Binding":                        {fixture.BrokerPod("lmp", 0).Spec(ours).Obj(), true, ""},
		"for our Binding, with another's gate":   {fixture.BrokerPod("lmp", 0).Spec(ours).Spec(func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "other"}} }).Obj(), true, ""},
		"bound by us":                            {fixture.BrokerPod("lmp", 0).Spec(ours).Spec(func(s *corev1.PodSpec) { s.NodeName = "a" }).Obj(), false, "a"},
		"behind the gate, our name by its user":  {fixture.BrokerPod("lmp", 0).Spec(scheduler).Obj(), true, ""},
		"the gate is off, our name by its user":  {fixture.BrokerPod("lmp", 0).Pinned("a").Spec(scheduler).Obj(), true, ""},
		"bound by us, our name by its user":      {fixture.BrokerPod("lmp", 0).On("a").Spec(scheduler).Obj(), false, "a"},
		"for another scheduler, without a gate":  {fixture.Pod("x").Obj(), false, ""},
		"for another scheduler, with its gate":   {fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "other"}} }).Obj(), false, ""},
		"bound by the scheduler, and has failed": {fixture.BrokerPod("lmp", 0).On("a").Ended(1).Obj(), false, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if IsGated(tc.pod) != tc.waits || PinnedNode(tc.pod) != tc.node {
				t.Errorf("waits: %v, on %q; want %v, %q", IsGated(tc.pod), PinnedNode(tc.pod), tc.waits, tc.node)
			}
		})
	}
}

func TestNeedsScheduler(t *testing.T) {
	volumes := func(sources ...corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, source := range sources {
				s.Volumes = append(s.Volumes, corev1.Volume{VolumeSource: source})
			}
		}
	}
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		needs  bool
		claims []string
	}{
		"nothing":               {func(*corev1.PodSpec) {}, false, nil},
		"the default scheduler": {func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName }, false, nil},
		"another scheduler":     {func(s *corev1.PodSpec) { s.SchedulerName = "mine" }, true, nil},
		"another's gate": {func(s *corev1.PodSpec) {
			s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: "other"})
		}, true, nil},
		"a resource claim":     {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, true, nil},
		"volumes of its own":   {volumes(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), false, nil},
		"claims":               {volumes(claim("a"), claim("b")), false, []string{"a", "b"}},
		"an ephemeral volume":  {volumes(claim("a"), corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), true, []string{"a"}},
		"an inline CSI volume": {volumes(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", 0).Spec(tc.change).Obj()
			if NeedsScheduler(pod) != tc.needs || !slices.Equal(VolumeClaims(pod), tc.claims) {
				t.Errorf("needs one: %v, claims %v; want %v, %v", NeedsScheduler(pod), VolumeClaims(pod), tc.needs, tc.claims)
			}
		})
	}
}

func TestBinding(t *testing.T) {
	for name, tc := range map[string]struct {
		rank, quorum int
		labels       map[string]string
		annotations  map[string]string
	}{
		"the lead":   {0, 4, map[string]string{v1alpha2.RankLabel: "0"}, map[string]string{v1alpha2.QuorumAnnotation: "4"}},
		"a follower": {2, 0, map[string]string{v1alpha2.RankLabel: "2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", tc.rank).Spec(ours).Obj()
			want := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.Name, UID: pod.UID, Labels: tc.labels, Annotations: tc.annotations},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "node-7"},
			}
			if diff := cmp.Diff(want, Binding(pod, "node-7", tc.rank, tc.quorum)); diff != "" {
				t.Errorf("it is another (-want +got):\n%s", diff)
			}
		})
	}
}
