// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answersDeleted reports whether the answer to a deletion is the object: ReturnDeletedObject in the registry.
func (r *Resource) answersDeleted() bool {
	return r.definition == nil && slices.Contains([]string{
		"pods", "namespaces", "persistentvolumes", "persistentvolumeclaims", "podtemplates", "resourcequotas", "serviceaccounts", "services", "storageclasses",
	}, r.Resource)
}

// delete deletes an object, or notes that it is to go once its finalizers and its grace are over. It reports whether the
// object is gone: Delete in k8s.io/apiserver/pkg/registry/generic/registry.
func (w *write) delete(o *metav1.DeleteOptions) (*version, bool, error) {
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		return nil, false, err
	}
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if err := w.checkPreconditions(o.Preconditions, old.object); err != nil {
		return nil, false, err
	}
	w.deletion = o
	if err := w.validateByPolicy(nil, old.object); err != nil {
		return nil, false, err
	}
	return w.deleteFound(old, o)
}

// deleteFound is delete once nothing speaks against it.
func (w *write) deleteFound(old *version, o *metav1.DeleteOptions) (*version, bool, error) {
	if namespace, ok := old.object.(*corev1.Namespace); ok && len(namespace.Spec.Finalizers) > 0 {
		return w.terminate(old, namespace), false, nil
	}
	object := shallow(old.object)
	graceful, pending := beginGrace(object, o)
	if pending {
		return old, false, nil
	}
	setDeletionFinalizers(object, o, w.table.traits.orphans)
	waits := len(object.GetFinalizers()) > 0
	if waits && !graceful {
		markDeleting(object)
	}
	switch {
	case waits || graceful && *o.GracePeriodSeconds > 0:
		return w.deleteLater(old, object), false, nil
	case w.dryRun:
		return old, true, nil
	case graceful: // the API server writes the object once more before it deletes it
		old = w.server.store(w.table, w.key, object)
	}
	last := w.server.remove(old, old.object)
	w.server.record(w, old, nil)
	return last, true, nil
}

// deleteLater notes that an object is to go.
func (w *write) deleteLater(old *version, object client.Object) *version {
	switch {
	case isSame(object, old.object):
		return old
	case w.dryRun:
		return &version{table: w.table, key: w.key, object: object}
	}
	v := w.server.store(w.table, w.key, object)
	w.server.record(w, old, v)
	return v
}

func (w *write) checkPreconditions(p *metav1.Preconditions, object client.Object) error {
	resource := schema.GroupResource{Group: w.table.Group, Resource: w.table.Kind}
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != object.GetUID() {
		return apierrors.NewConflict(resource, w.key.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, object.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != object.GetResourceVersion() {
		return apierrors.NewConflict(resource, w.key.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, object.GetResourceVersion()))
	}
	return nil
}

// beginGrace gives a pod the time until which it has to end: BeforeDelete in k8s.io/apiserver/pkg/registry/rest. Other
// kinds have no grace. A deletion is pending if the pod has a deadline already that is not later.
func beginGrace(object client.Object, o *metav1.DeleteOptions) (graceful, pending bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return false, false
	}
	if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
		o.GracePeriodSeconds = new(int64(1))
	}
	if pod.DeletionTimestamp != nil {
		return shortenGrace(pod, o)
	}
	period := int64(0)
	switch {
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
	case o.GracePeriodSeconds != nil:
		period = *o.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		period = 1
	}
	o.GracePeriodSeconds = &period
	deadline := metav1.NewTime(now().Add(time.Duration(period) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deadline, &period
	if pod.Generation > 0 {
		pod.Generation++
	}
	return true, false
}

func shortenGrace(pod *corev1.Pod, o *metav1.DeleteOptions) (graceful, pending bool) {
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
		return false, false
	}
	if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds >= *pod.DeletionGracePeriodSeconds {
		return false, true
	}
	period, at := *o.GracePeriodSeconds, now()
	shift := time.Duration(period-*pod.DeletionGracePeriodSeconds) * time.Second
	deadline := metav1.NewTime(pod.DeletionTimestamp.Add(shift))
	if deadline.Before(&at) {
		deadline = at
		if period != 0 {
			period = 1
		}
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deadline, &period
	return true, false
}

// markDeleting notes that an object without grace is to go.
func markDeleting(object client.Object) {
	if object.GetDeletionTimestamp() == nil && object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	if at := now(); object.GetDeletionTimestamp() == nil || object.GetDeletionTimestamp().After(at.Time) {
		object.SetDeletionTimestamp(&at)
	}
	object.SetDeletionGracePeriodSeconds(new(int64(0)))
}

// setDeletionFinalizers sets the finalizer on which the garbage collector acts before the object goes.
func setDeletionFinalizers(object client.Object, o *metav1.DeleteOptions, orphansByDefault bool) {
	isOfCollector := func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	}
	wanted := ""
	switch i := slices.IndexFunc(object.GetFinalizers(), isOfCollector); {
	case o.OrphanDependents != nil: //nolint:staticcheck // clients may still send it
		if *o.OrphanDependents { //nolint:staticcheck // clients may still send it
			wanted = metav1.FinalizerOrphanDependents
		}
	case o.PropagationPolicy != nil:
		switch *o.PropagationPolicy {
		case metav1.DeletePropagationOrphan:
			wanted = metav1.FinalizerOrphanDependents
		case metav1.DeletePropagationForeground:
			wanted = metav1.FinalizerDeleteDependents
		case metav1.DeletePropagationBackground:
		}
	case i >= 0:
		wanted = object.GetFinalizers()[i]
	case orphansByDefault:
		wanted = metav1.FinalizerOrphanDependents
	}
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), isOfCollector)
	if wanted != "" {
		finalizers = append(finalizers, wanted)
	}
	object.SetFinalizers(finalizers)
}

// terminate begins the deletion of a namespace, which the namespace controller ends.
func (w *write) terminate(old *version, namespace *corev1.Namespace) *version {
	if namespace.DeletionTimestamp != nil {
		return old
	}
	object := shallow(namespace).(*corev1.Namespace)
	markDeleting(object)
	object.DeletionGracePeriodSeconds = nil
	object.Status.Phase = corev1.NamespaceTerminating
	return w.deleteLater(old, object)
}

// deleteCollection deletes the objects that a list would have.
func (s *Server) deleteCollection(c *call, w *write, o *metav1.DeleteOptions) (answer, error) {
	var lo metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&c.query, &lo, nil); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	sel, err := newSelector(c.table, c.path.namespace, lo.LabelSelector, lo.FieldSelector)
	if err != nil {
		return answer{}, err
	}
	versions, meta, err := s.list(c.table, sel, &lo)
	if err != nil {
		return answer{}, err
	}
	for _, v := range versions {
		w.key = v.key
		if _, _, err := w.delete(o.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return answer{}, err
		}
	}
	e := encodingOf(strings.TrimSpace(c.Header.Get("Accept")), c.table.Resource)
	return answer{code: http.StatusOK, mediaType: e.mediaType(), body: list(c.table, versions, meta, e)}, nil
}
