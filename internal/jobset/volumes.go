// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// podVolumes returns the volumes of a pod: our own ones, and the user's of all containers. It
// fails if containers describe a volume of the same name in different ways. Only path and
// readOnly may differ.
func podVolumes(own []corev1.Volume, containers []v1alpha2.MiniClusterContainer) ([]corev1.Volume, error) {
	byName := map[string]v1alpha2.ContainerVolume{}
	for _, container := range containers {
		for _, name := range slices.Sorted(maps.Keys(container.Volumes)) {
			description := container.Volumes[name]
			other, known := byName[name]
			if known && !sameVolume(other, description) {
				return nil, fmt.Errorf("volume %q differs between containers", name)
			}
			description.ReadOnly = description.ReadOnly && (!known || other.ReadOnly)
			byName[name] = description
		}
	}
	out := slices.Clone(own)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if slices.ContainsFunc(own, func(volume corev1.Volume) bool { return volume.Name == name }) {
			return nil, fmt.Errorf("volume %q has a reserved name; choose another", name)
		}
		source, err := volumeSource(byName[name])
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", name, err)
		}
		out = append(out, corev1.Volume{Name: name, VolumeSource: source})
	}
	return out, nil
}

func sameVolume(a, b v1alpha2.ContainerVolume) bool {
	a.Path, b.Path, a.ReadOnly, b.ReadOnly = "", "", false, false
	return equality.Semantic.DeepEqual(a, b)
}

// volumeSource returns the first source that is set, in the Flux Operator's order, or else an
// empty directory.
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

// volumeMounts returns the mounts of one container.
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

// ownVolumes returns the volumes for the files of package broker, a home directory, and Flux.
func ownVolumes(mc *v1alpha2.MiniCluster) []corev1.Volume {
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	told := []corev1.DownwardAPIVolumeFile{
		// By these, a broker learns its rank. JobSet and the Job controller write them, also where our label comes too late.
		file(broker.JobFile, "labels", jobsetapi.ReplicatedJobNameKey),
		file(broker.IndexFile, "annotations", batchv1.JobCompletionIndexAnnotation),
		file(broker.QuorumFile, "annotations", v1alpha2.QuorumAnnotation),
		file(broker.DrainFile, "annotations", v1alpha2.DrainAnnotation),
		file(broker.StopFile, "annotations", v1alpha2.StopAnnotation),
	}
	if mc.Spec.ResizePolicy() == v1alpha2.ResizeRestart {
		told = append(told, file(broker.RestartFile, "annotations", v1alpha2.RestartAnnotation))
	}
	return []corev1.Volume{
		{Name: filesVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To[int32](0o755),
			Sources:     append(configMapsOf(mc), certificate(mc), corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: told}}),
		}}},
		{Name: homeVolume, VolumeSource: emptyDir},
		{Name: mc.Spec.Flux.Container.Name, VolumeSource: emptyDir},
		filesBeside(mc, besideVolume),
	}
}

// filesBeside returns a volume with the files of package broker for containers in which no broker runs. It
// lacks the certificate.
func filesBeside(mc *v1alpha2.MiniCluster, name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o755), Sources: configMapsOf(mc),
	}}}
}

// configMapsOf are the ConfigMaps that the pods of a MiniCluster mount: the scripts of this version, and its own files.
func configMapsOf(mc *v1alpha2.MiniCluster) []corev1.VolumeProjection {
	return []corev1.VolumeProjection{configMap(scriptsName()), configMap(filesName(mc))}
}

// certificate returns the file of the certificate. The broker makes a copy that only its user can read.
func certificate(mc *v1alpha2.MiniCluster) corev1.VolumeProjection {
	name, key := certificateName(mc), broker.CertificateFile
	if ref := mc.Spec.Flux.CurveCertSecretRef; ref != nil {
		name, key = ref.Name, ref.Key
	}
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Items:                []corev1.KeyToPath{{Key: key, Path: broker.CertificateFile, Mode: ptr.To(certificateMode(mc))}},
	}}
}

// certificateMode is the mode of the certificate, which belongs to root, in the container of the broker. The
// user of an image without a user in the spec is not known, so that all users of this container may read
// the file.
func certificateMode(mc *v1alpha2.MiniCluster) int32 {
	pod, container := mc.Spec.Pod.SecurityContext, mc.Spec.FluxContainer().SecurityContext
	var user, group *int64
	if pod != nil {
		user, group = pod.RunAsUser, pod.FSGroup
	}
	if container != nil && container.RunAsUser != nil {
		user = container.RunAsUser
	}
	switch {
	case user != nil && *user == 0:
		return 0o400
	case group != nil: // kubelets give the file to this group, of which the user is a member
		return 0o440
	}
	return 0o444
}

// configMap returns the files of a ConfigMap.
func configMap(name string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

// file returns a file that has a value of the labels or annotations of the pod.
func file(path, of, key string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{
		Path:     path,
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata." + of + "['" + key + "']"},
	}
}
