// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// BindDirectly changes a JobSet before it is created: its pods wait for a Binding by the manager
// in place of the gate. They get a scheduler name that no other scheduler has. The services pod,
// for which the manager chooses no node, keeps its gate.
func BindDirectly(set *jobsetapi.JobSet) {
	for i := range set.Spec.ReplicatedJobs {
		if set.Spec.ReplicatedJobs[i].Name == v1alpha2.ServicesJob {
			continue
		}
		spec := &set.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
		spec.SchedulingGates = slices.DeleteFunc(spec.SchedulingGates, isPlacementGate)
		spec.SchedulerName = v1alpha2.SchedulerName
	}
}

func isPlacementGate(gate corev1.PodSchedulingGate) bool { return gate.Name == v1alpha2.PlacementGate }

// NeedsScheduler reports whether only a scheduler can bind a pod. This is true for pods with
// ephemeral or CSI volumes, resource claims, gates of other programs, or a schedulerName that is
// not the default. The pod must be as the API server would create it with our gate. The caller
// checks the VolumeClaims, which may need a scheduler too.
func NeedsScheduler(pod *corev1.Pod) bool {
	spec := &pod.Spec
	return len(spec.ResourceClaims) > 0 ||
		(spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName) ||
		slices.ContainsFunc(spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return !isPlacementGate(gate) }) ||
		slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.Ephemeral != nil || volume.CSI != nil })
}

// VolumeClaims returns the names of the PersistentVolumeClaims that a pod uses.
func VolumeClaims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}
