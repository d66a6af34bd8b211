// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// filesName returns how the name of the ConfigMap begins.
func filesName(mc *v1alpha2.MiniCluster) string { return mc.Name + "-entrypoint" }

// OperatorFiles returns the ConfigMap that the Flux Operator makes for a MiniCluster.
func OperatorFiles(mc *v1alpha2.MiniCluster) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: filesName(mc)},
	}
}

// certificateName returns how the name of the Secret begins.
func certificateName(mc *v1alpha2.MiniCluster) string { return mc.Name + "-curve" }

// NameFiles appends a suffix to the names of the Secret and the ConfigMap that the pods of a JobSet
// mount. With a suffix of its own, each JobSet has files of its own. A Secret of the user keeps its name, and so do the
// scripts.
func NameFiles(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, suffix string) {
	for _, source := range fileSources(set) {
		if source.ConfigMap != nil && source.ConfigMap.Name == filesName(mc) {
			source.ConfigMap.Name += "-" + suffix
		}
		if source.Secret != nil && mc.Spec.Flux.CurveCertSecretRef == nil {
			source.Secret.Name += "-" + suffix
		}
	}
}

// configMaps returns the names of the ConfigMaps that the pods of a JobSet mount: with the JobSet's own files, and with the
// scripts; "" for a JobSet of an older version, whose own files have them.
func configMaps(set *jobsetapi.JobSet) (own, scripts string) {
	for _, source := range fileSources(set) {
		if source.ConfigMap != nil && source.ConfigMap.Name != own {
			own, scripts = source.ConfigMap.Name, own
		}
		if own != "" && scripts != "" {
			break
		}
	}
	return own, scripts
}

// FilesName is the name of the ConfigMap with the files that are a JobSet's own.
func FilesName(set *jobsetapi.JobSet) string {
	own, _ := configMaps(set)
	return own
}

// FileNames are the names of what the manager makes for the pods of a JobSet: the Secret, the ConfigMap, and the scripts, unless
// they are of another version.
func FileNames(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) []string {
	own, scripts := configMaps(set)
	names := []string{certificateName(mc) + strings.TrimPrefix(own, filesName(mc)), own}
	if scripts == scriptsName() {
		names = append(names, scripts)
	}
	return names
}

// Files returns the files that are a JobSet's own: the Secret, unless the pods mount one of the user, and the ConfigMap. The
// JobSet decides, since the spec may have been edited after it was made. The JobSet owns the files, so that they go with
// it. They are immutable, so that kubelets do not watch them. Files calls certificate for the text of a new
// certificate, unless the user gives one.
func Files(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, certificate func() (string, error)) ([]client.Object, error) {
	texts, err := broker.Files(mc, Attempt(set))
	if err != nil {
		return nil, err
	}
	own, shared := configMaps(set)
	if shared == "" {
		maps.Copy(texts, broker.Scripts())
	}
	files := &corev1.ConfigMap{
		TypeMeta:  metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Immutable: ptr.To(true),
		Data:      texts,
	}
	meta := objectMeta(mc, "", Attempt(set))
	meta.OwnerReferences = nil
	if set.UID != "" { // otherwise it does not exist yet
		meta.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: jobsetapi.GroupVersion.String(), Kind: "JobSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true),
		}}
	}
	meta.DeepCopyInto(&files.ObjectMeta)
	files.Name = own
	secretName := ""
	for _, source := range fileSources(set) {
		if source.Secret != nil {
			secretName = source.Secret.Name
		}
	}
	if secretName != FileNames(mc, set)[0] {
		return []client.Object{files}, nil // the Secret is the user's
	}
	text := mc.Spec.Flux.CurveCert
	if text == "" {
		if text, err = certificate(); err != nil {
			return nil, err
		}
	}
	secret := &corev1.Secret{
		TypeMeta:  metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		Type:      corev1.SecretTypeOpaque,
		Immutable: ptr.To(true),
		Data:      map[string][]byte{broker.CertificateFile: []byte(text)},
	}
	meta.DeepCopyInto(&secret.ObjectMeta)
	secret.Name = secretName
	return []client.Object{secret, files}, nil
}

// AllObjects returns the objects of the first attempt, to look at: the files, and what uses them.
func AllObjects(mc *v1alpha2.MiniCluster, suffix, certificate string) ([]client.Object, error) {
	objects, err := Objects(mc, 1)
	if err != nil {
		return nil, err
	}
	set := objects[len(objects)-1].(*jobsetapi.JobSet)
	NameFiles(mc, set, suffix)
	files, err := Files(mc, set, func() (string, error) { return certificate, nil })
	return slices.Concat([]client.Object{Scripts(set)}, files, objects), err
}

// fileSources returns the sources of the volumes with the files of package broker, of all Jobs.
func fileSources(set *jobsetapi.JobSet) (sources []corev1.VolumeProjection) {
	for i := range set.Spec.ReplicatedJobs {
		for _, volume := range set.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Volumes {
			if (volume.Name == filesVolume || volume.Name == besideVolume) && volume.Projected != nil {
				sources = append(sources, volume.Projected.Sources...)
			}
		}
	}
	return sources
}
