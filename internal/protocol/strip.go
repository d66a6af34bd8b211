// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Strip removes from a pod of a MiniCluster what nobody here reads, because there are many pods.
func Strip(pod *corev1.Pod) *corev1.Pod {
	pod.ManagedFields = nil
	pod.Annotations = keep(pod.Annotations, v1alpha2.QuorumAnnotation, v1alpha2.DrainAnnotation, v1alpha2.RestartAnnotation, v1alpha2.StopAnnotation, placedAnnotation, v1alpha2.KueueTopologyAnnotation,
		batchv1.JobIndexFailureCountAnnotation, batchv1.JobIndexIgnoredFailureCountAnnotation)
	pod.Spec.Volumes = claims(pod.Spec.Volumes)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			id, last := s.ContainerID, s.LastTerminationState.Terminated
			*s = corev1.ContainerStatus{
				Name: s.Name, State: s.State, Ready: s.Ready, RestartCount: s.RestartCount, Started: s.Started,
				AllocatedResources: s.AllocatedResources, Resources: s.Resources,
			}
			if endIsUnknown(s.State.Terminated) { // neverStarted
				s.ContainerID = id
				if last != nil {
					s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: last.Reason}
				}
			}
		}
	}
	pod.Status.EphemeralContainerStatuses, pod.Spec.EphemeralContainers = nil, nil
	pod.Spec.SecurityContext, pod.Spec.DNSConfig, pod.Spec.HostAliases, pod.Spec.ImagePullSecrets = nil, nil, nil, nil
	return pod
}

// claims returns the volumes that restrict the nodes of a pod, or need a scheduler: the claims, the classes of ephemeral
// volumes, and the drivers of others.
func claims(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		from, to := &volumes[i], corev1.Volume{Name: volumes[i].Name}
		switch {
		case from.PersistentVolumeClaim != nil:
			to.PersistentVolumeClaim = from.PersistentVolumeClaim
		case from.Ephemeral != nil && from.Ephemeral.VolumeClaimTemplate != nil:
			to.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: from.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName},
			}}
		case from.CSI != nil:
			to.CSI = &corev1.CSIVolumeSource{Driver: from.CSI.Driver}
		default:
			continue
		}
		kept = append(kept, to)
	}
	return kept
}

// keep returns the map with only some of its keys.
func keep(values map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := values[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}
