// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Strip is a transform of the cache, which has the pods of MiniClusters. It removes from a pod what
// nobody here reads, because there are many pods.
func Strip(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
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
	return pod, nil
}

// claims returns the volumes that restrict the nodes of a pod: the claims, and the classes of ephemeral
// volumes.
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
