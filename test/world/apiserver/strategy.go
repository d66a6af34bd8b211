// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// prepareCreate does what the strategy of a kind does to a new object: it forgets the status, and starts the generation.
func (w *write) prepareCreate(object client.Object) {
	if w.table.has("status") && !w.table.traits.keepsStatus {
		clearPart(object, "Status", "status")
	}
	object.SetGeneration(0)
	if w.table.traits.counts {
		object.SetGeneration(1)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		preparePod(o)
	case *batchv1.Job:
		prepareJob(o)
	case *corev1.Namespace:
		o.Status.Phase = corev1.NamespaceActive
		o.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
	case *corev1.Service:
		w.server.allocate(o, w.dryRun)
	case *apiextensionsv1.CustomResourceDefinition:
		setEstablished(o)
	}
}

// prepareUpdate gives a changed object what the request may not change: the other of spec and status, and what the server
// alone says in the metadata.
func (w *write) prepareUpdate(object, old client.Object) {
	object.SetGeneration(old.GetGeneration())
	object.SetUID(old.GetUID())
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	object.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	object.SetSelfLink("")
	object.SetManagedFields(old.GetManagedFields())
	switch {
	case w.subresource == "status":
		w.keepAllButStatus(object, old)
	case w.subresource == "finalize":
		setPart(object, old, "Status", "status")
	case w.table.has("status"):
		setPart(object, old, "Status", "status")
		if namespace, ok := object.(*corev1.Namespace); ok {
			namespace.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
		}
	}
	if w.subresource == "" && w.table.traits.counts && hasNewSpec(object, old) {
		object.SetGeneration(old.GetGeneration() + 1)
	}
}

// keepAllButStatus is what a write of the status may not change. Custom resources keep their metadata, too.
func (w *write) keepAllButStatus(object, old client.Object) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		status, there := u.Object["status"]
		u.Object = shallow(old).(*unstructured.Unstructured).Object
		delete(u.Object, "status")
		if there {
			u.Object["status"] = status
		}
		return
	}
	setPart(object, old, "Spec", "spec")
	if pod, ok := object.(*corev1.Pod); ok {
		pod.OwnerReferences = old.GetOwnerReferences()
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = old.(*corev1.Pod).Status.QOSClass
		}
	}
}

// hasNewSpec reports whether an object differs except in its metadata and status.
func hasNewSpec(object, old client.Object) bool {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		for _, name := range []string{"Spec", "Template", "Endpoints", "Ports"} { // EndpointSlices and PodTemplates have no spec
			if !equality.Semantic.DeepEqual(part(object, name, ""), part(old, name, "")) {
				return true
			}
		}
		return false
	}
	before := old.(*unstructured.Unstructured).Object
	for _, pair := range [][2]map[string]any{{u.Object, before}, {before, u.Object}} {
		for name, value := range pair[0] {
			if name != "metadata" && !sameJSON(value, pair[1][name]) {
				return true
			}
		}
	}
	return false
}

func (w *write) validateCreate(object client.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(object, w.table.Namespaced, w.nameCheck(), field.NewPath("metadata"))
	switch o := object.(type) {
	case *unstructured.Unstructured:
		errs = append(errs, w.table.definition.validate(o)...)
	case *corev1.Pod:
		errs = append(errs, validatePod(o)...)
	case *batchv1.Job:
		errs = append(errs, validateJob(o)...)
	}
	return errs
}

func (w *write) validateUpdate(object, old client.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessorUpdate(object, old, field.NewPath("metadata"))
	switch o := object.(type) {
	case *unstructured.Unstructured:
		errs = append(errs, w.table.definition.validateUpdate(o, old.(*unstructured.Unstructured), w.subresource)...)
	case *corev1.Pod:
		if w.subresource == "" {
			errs = append(errs, validatePodUpdate(o, old.(*corev1.Pod))...)
		}
	case *batchv1.Job:
		if w.subresource == "" {
			errs = append(errs, validateJobUpdate(o, old.(*batchv1.Job))...)
		}
	case *corev1.Secret:
		if before := old.(*corev1.Secret); before.Immutable != nil && *before.Immutable {
			errs = append(errs, validateImmutable(o.Data, before.Data, o.Immutable)...)
		}
	case *corev1.ConfigMap:
		if before := old.(*corev1.ConfigMap); before.Immutable != nil && *before.Immutable {
			errs = append(errs, validateImmutable(o.Data, before.Data, o.Immutable)...)
		}
	}
	return errs
}

func validateImmutable(data, before any, immutable *bool) (errs field.ErrorList) {
	if immutable == nil || !*immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	if !equality.Semantic.DeepEqual(data, before) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
	}
	return errs
}

func (w *write) nameCheck() validation.ValidateNameFunc {
	switch w.table.Kind {
	case "Service":
		return validation.NameIsDNSLabel
	case "Namespace":
		return validation.ValidateNamespaceName
	}
	return validation.NameIsDNSSubdomain
}

// setEstablished says that the server has the API of a definition.
func setEstablished(crd *apiextensionsv1.CustomResourceDefinition) {
	names := &crd.Spec.Names
	crd.Status.AcceptedNames, crd.Status.StoredVersions = *names, nil
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
	}
	at := now()
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at, Reason: "NoConflicts", Message: "no conflicts found"},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
	}
}

// afterChange keeps what the server knows beside the objects: its resources, and what admission reads.
func (s *Server) afterChange(t *table, c change) {
	if crd, ok := c.after.object.(*apiextensionsv1.CustomResourceDefinition); ok {
		if c.before != nil && c.what == "DELETED" {
			s.abolish(crd)
		} else if err := s.establish(crd); err != nil {
			panic(err) // a definition that the API server would not accept either
		}
	}
	s.owners.note(c)
	if s.collector != nil {
		s.collector.see(c)
	}
	s.emptying = s.emptying || t.Kind == "Namespace"
	if t.Group == "admissionregistration.k8s.io" {
		s.policies = policies{}
	}
}
