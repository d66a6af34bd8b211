// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
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
				if protocol.HasGate(pod) != tc.gated || len(pod.Spec.SchedulingGates) > 1 || pod.Spec.SchedulerName != tc.scheduler {
					t.Errorf("job %s: gates %v, scheduler %q", job.Name, pod.Spec.SchedulingGates, pod.Spec.SchedulerName)
				}
				if !protocol.IsGated(pod) || protocol.PinnedNode(pod) != "" {
					t.Errorf("job %s: its pods do not wait, but are on %q", job.Name, protocol.PinnedNode(pod))
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
