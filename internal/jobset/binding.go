// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// BindDirectly makes the pods of a JobSet, which is still to be made, wait for a
// Binding by us in place of the gate: they have the name of a scheduler that nobody
// else is. That of the services, for which no node is chosen, keeps its gate.
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

// NeedsScheduler reports whether a pod, as the API server would make it with the
// gate, has something that a scheduler has to see to before the pod can run: volumes
// that are made for it, resource claims, the gate of somebody else, a scheduler that
// was chosen. Its VolumeClaims may besides.
func NeedsScheduler(pod *corev1.Pod) bool {
	spec := &pod.Spec
	return len(spec.ResourceClaims) > 0 ||
		(spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName) ||
		slices.ContainsFunc(spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return !isPlacementGate(gate) }) ||
		slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.Ephemeral != nil || volume.CSI != nil })
}

// VolumeClaims are the names of the PersistentVolumeClaims that a pod uses.
func VolumeClaims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}
