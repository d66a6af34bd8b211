// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// podVolumes are the user's volumes of all containers. A volume that several
// containers name has to be the same in each.
func podVolumes(containers []v1alpha2.MiniClusterContainer) ([]corev1.Volume, error) {
	byName := map[string]corev1.Volume{}
	for _, container := range containers {
		for name, description := range container.Volumes {
			source, err := volumeSource(description)
			if err != nil {
				return nil, fmt.Errorf("volume %q of container %q: %w", name, container.Name, err)
			}
			volume := corev1.Volume{Name: name, VolumeSource: source}
			if other, ok := byName[name]; ok && !reflect.DeepEqual(other, volume) {
				return nil, fmt.Errorf("volume %q is not the same in all containers", name)
			}
			byName[name] = volume
		}
	}
	var out []corev1.Volume
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out, nil
}

// volumeSource is the first source that is set, in the Flux Operator's order; an
// empty directory without any.
func volumeSource(v v1alpha2.ContainerVolume) (corev1.VolumeSource, error) {
	switch {
	case v.CSIDriver != "":
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: v.CSIDriver, ReadOnly: ptr.To(v.ReadOnly), VolumeAttributes: v.CSIDriverAttributes,
		}}, nil
	case v.SecretName != "":
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.SecretName, Items: keysToPaths(v.Items)}}, nil
	case v.EmptyDir:
		return emptyDir(v)
	case v.HostPath != "":
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.HostPath, Type: ptr.To(corev1.HostPathDirectory)}}, nil
	case v.ConfigMapName != "":
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMapName}, Items: keysToPaths(v.Items),
		}}, nil
	case v.ClaimName != "":
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.ClaimName, ReadOnly: v.ReadOnly}}, nil
	}
	return emptyDir(v)
}

func emptyDir(v v1alpha2.ContainerVolume) (corev1.VolumeSource, error) {
	dir := &corev1.EmptyDirVolumeSource{}
	if strings.EqualFold(v.EmptyDirMedium, string(corev1.StorageMediumMemory)) {
		dir.Medium = corev1.StorageMediumMemory
	} else if v.EmptyDirMedium != "" {
		dir.Medium = corev1.StorageMedium(v.EmptyDirMedium)
	}
	if v.EmptyDirSizeLimit != "" {
		limit, err := resource.ParseQuantity(v.EmptyDirSizeLimit)
		if err != nil {
			return corev1.VolumeSource{}, fmt.Errorf("emptyDirSizeLimit %q: %w", v.EmptyDirSizeLimit, err)
		}
		dir.SizeLimit = &limit
	}
	return corev1.VolumeSource{EmptyDir: dir}, nil
}

func keysToPaths(items map[string]string) []corev1.KeyToPath {
	var out []corev1.KeyToPath
	for _, key := range slices.Sorted(maps.Keys(items)) {
		out = append(out, corev1.KeyToPath{Key: key, Path: items[key]})
	}
	return out
}

// volumeMounts are where one container has its volumes.
func volumeMounts(volumes map[string]v1alpha2.ContainerVolume) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		mount := corev1.VolumeMount{Name: name, MountPath: v.Path, ReadOnly: v.ReadOnly}
		if mount.MountPath == "" {
			mount.MountPath = "/" + name
			if v.EmptyDir {
				mount.MountPath = "/dev/shm"
			}
		}
		out = append(out, mount)
	}
	return out
}
