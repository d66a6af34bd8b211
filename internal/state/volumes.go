// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// Storage looks up the objects that say which nodes can reach volumes. Each function returns nil for an
// object that does not exist.
type Storage struct {
	// Claim is in the namespace of the pod.
	Claim  func(name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
	Class  func(name string) *storagev1.StorageClass
	// DefaultClass is the class of claims that name none.
	DefaultClass func() *storagev1.StorageClass
}

// Reach says which nodes can reach all volumes of a pod. The zero Reach is that of a pod whose volumes
// every node can reach.
type Reach struct {
	// Volumes are those that some nodes cannot reach, each once.
	Volumes []Volume
	// Waits says what has to happen to a volume before any pod can start; "" if nothing has to.
	Waits string
	// Key is a digest, the same for equal Volumes, and "" for none.
	Key string
}

// Volume is where one volume can be reached.
type Volume struct {
	// Nodes are those that can reach the volume.
	Nodes *corev1.NodeSelector
	// Reason is what the other nodes are, as in "5 cannot reach volume data".
	Reason string
}

// ReachOf says which nodes can reach the volumes of a pod, by the rules of kube-scheduler's plugin
// VolumeBinding. A bound claim follows its volume. A claim that is bound with its first pod follows the
// topologies of its class, and so does an ephemeral volume. least is the smallest number of such pods.
func ReachOf(pod *corev1.Pod, least int, storage Storage) Reach {
	var r Reach
	add := func(v *Volume, waits string) {
		if waits != "" {
			v = &Volume{Nodes: &corev1.NodeSelector{}, Reason: waits} // no node matches
			if r.Waits == "" {
				r.Waits = waits
			}
		}
		if v != nil && !slices.ContainsFunc(r.Volumes, func(known Volume) bool { return known.Reason == v.Reason }) {
			r.Volumes = append(r.Volumes, *v)
		}
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			add(ofClaim(v.PersistentVolumeClaim.ClaimName, least, storage))
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			add(ofEphemeral(v.Name, v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, storage))
		}
	}
	if len(r.Volumes) > 0 {
		r.Key = digest(r.Volumes)
	}
	return r
}

// ofClaim is where the volume of a claim can be reached; nil if everywhere. waits says why no pod with the
// claim can start yet; "" if one can.
func ofClaim(name string, least int, storage Storage) (v *Volume, waits string) {
	claim, text := storage.Claim(name), "PersistentVolumeClaim "+name
	switch {
	case claim == nil:
		return nil, "there is no " + text
	case claim.DeletionTimestamp != nil:
		return nil, text + " is being deleted"
	case least > 1 && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod):
		return nil, fmt.Sprintf("%s has the access mode ReadWriteOncePod: one pod can use it, and %d brokers need it", text, least)
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, text + " has lost its volume"
	case claim.Spec.VolumeName != "" && claim.Status.Phase == corev1.ClaimBound:
		return ofVolume(claim.Spec.VolumeName, name, storage)
	}
	named := volumehelpers.GetPersistentVolumeClaimClass(claim)
	if claim.Spec.VolumeName != "" || named == "" { // only its controller binds it, before any pod
		return nil, text + " is not bound to a volume yet"
	}
	switch class := storage.Class(named); {
	case class == nil:
		return nil, fmt.Sprintf("%s is not bound to a volume yet, and there is no StorageClass %s", text, named)
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, text + " is not bound to a volume yet"
	default:
		return inTopologies(class), ""
	}
}

// ofVolume is where the volume of a bound claim can be reached.
func ofVolume(name, claim string, storage Storage) (v *Volume, waits string) {
	volume := storage.Volume(name)
	switch {
	case volume == nil:
		return nil, fmt.Sprintf("there is no PersistentVolume %s, to which PersistentVolumeClaim %s is bound", name, claim)
	case volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil:
		return nil, ""
	}
	return &Volume{Nodes: volume.Spec.NodeAffinity.Required, Reason: fmt.Sprintf("cannot reach volume %s of claim %s", name, claim)}, ""
}

// ofEphemeral is where an ephemeral volume can be made. Each pod has one of its own.
func ofEphemeral(name string, named *string, storage Storage) (v *Volume, waits string) {
	var class *storagev1.StorageClass
	switch {
	case named == nil:
		class = storage.DefaultClass()
	case *named != "":
		if class = storage.Class(*named); class == nil {
			return nil, fmt.Sprintf("there is no StorageClass %s, which the ephemeral volume %s needs", *named, name)
		}
	}
	if class == nil {
		return nil, ""
	}
	return inTopologies(class), ""
}

// inTopologies is where volumes of a class can be made; nil if everywhere.
func inTopologies(class *storagev1.StorageClass) *Volume {
	if len(class.AllowedTopologies) == 0 {
		return nil
	}
	nodes := &corev1.NodeSelector{}
	for _, term := range class.AllowedTopologies {
		var and corev1.NodeSelectorTerm
		for _, label := range term.MatchLabelExpressions {
			and.MatchExpressions = append(and.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: label.Key, Operator: corev1.NodeSelectorOpIn, Values: label.Values,
			})
		}
		nodes.NodeSelectorTerms = append(nodes.NodeSelectorTerms, and)
	}
	return &Volume{Nodes: nodes, Reason: "outside of the topologies of StorageClass " + class.Name}
}

// defaultClasses are the annotations of the default class.
var defaultClasses = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// DefaultClass is the default one of all classes, as the API server chooses it: the newest, and of the same
// age the first by name. It is nil if there is none.
func DefaultClass(classes []storagev1.StorageClass) *storagev1.StorageClass {
	var out *storagev1.StorageClass
	for i := range classes {
		class := &classes[i]
		if !slices.ContainsFunc(defaultClasses, func(key string) bool { return class.Annotations[key] == "true" }) {
			continue
		}
		age := 1
		if out != nil {
			age = class.CreationTimestamp.Compare(out.CreationTimestamp.Time)
		}
		if age > 0 || (age == 0 && class.Name < out.Name) {
			out = class
		}
	}
	return out
}

// StripStorage is a transform of the cache for PersistentVolumeClaims and PersistentVolumes. It keeps what
// ReachOf reads, because there may be many of both. Of a claim, the API server bounds neither names nor access modes.
func StripStorage(object any) (any, error) {
	switch from := object.(type) {
	case *corev1.PersistentVolumeClaim:
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: identity(&from.ObjectMeta)}
		if class, found := from.Annotations[corev1.BetaStorageClassAnnotation]; found {
			claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: objectName(class)}
		}
		if class := from.Spec.StorageClassName; class != nil {
			claim.Spec.StorageClassName = new(objectName(*class))
		}
		if slices.Contains(from.Spec.AccessModes, corev1.ReadWriteOncePod) {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		claim.Spec.VolumeName, claim.Status.Phase = objectName(from.Spec.VolumeName), from.Status.Phase
		return claim, nil
	case *corev1.PersistentVolume:
		volume := &corev1.PersistentVolume{ObjectMeta: identity(&from.ObjectMeta)}
		volume.Spec.NodeAffinity = from.Spec.NodeAffinity
		return volume, nil
	}
	return object, nil
}

// objectName is the name of an object in a field of another object. Instead of a text that no object can have as its name,
// objectName is a short one.
func objectName(text string) string {
	if len(text) > validation.DNS1123SubdomainMaxLength {
		return "(a name that is too long)"
	}
	return text
}

// identity is what a cache needs of the metadata of an object, and whether the object is being deleted.
func identity(from *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion,
		DeletionTimestamp: from.DeletionTimestamp,
	}
}
