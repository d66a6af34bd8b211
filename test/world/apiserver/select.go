// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selector says which objects of a kind a request is about.
type selector struct {
	namespace string // "" is all
	labels    labels.Selector
	fields    fields.Selector
}

func newSelector(t *table, namespace, label, field string) (selector, error) {
	sel := selector{namespace: namespace}
	var err error
	if sel.labels, err = labels.Parse(label); err != nil {
		return sel, apierrors.NewBadRequest(err.Error())
	}
	if sel.fields, err = fields.ParseSelector(field); err != nil {
		return sel, apierrors.NewBadRequest(err.Error())
	}
	return sel, sel.check(t)
}

// check refuses fields by which the API server does not select.
func (sel selector) check(t *table) error {
	known := fieldsOf(newObject(t.Resource))
	for _, r := range sel.fields.Requirements() {
		switch {
		case known.Has(r.Field):
		case len(known) == 2:
			return apierrors.NewBadRequest(fmt.Sprintf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, r.Field))
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("Unable to find %q that match label selector %q, field selector %q: field label not supported: %s",
				fmt.Sprintf("%s/%s, Resource=%s", t.Group, t.Version, t.Resource.Resource), sel.labels, sel.fields, r.Field))
		}
	}
	return nil
}

func (sel selector) matches(v *version) bool {
	return v != nil && (sel.namespace == "" || sel.namespace == v.key.Namespace) &&
		(sel.labels.Empty() || sel.labels.Matches(v.labels)) && (sel.fields.Empty() || sel.fields.Matches(fieldsOf(v.object)))
}

// seen is how a watch with the selector sees a change: an object that begins to match is added, and one that does so no
// more is deleted, as it was.
func (sel selector) seen(c change) (change, bool) {
	was := sel.matches(c.before)
	switch is := c.what != watch.Deleted && sel.matches(c.after); {
	case !was && !is:
		return c, false
	case !was:
		c.what = watch.Added
	case !is && c.what != watch.Deleted:
		gone := &version{table: c.before.table, key: c.before.key, number: c.number, object: shallow(c.before.object), labels: c.before.labels}
		gone.object.SetResourceVersion(strconv.FormatUint(c.number, 10))
		c.what, c.after = watch.Deleted, gone
	}
	return c, true
}

// selected are the objects that match, in the order of their keys.
func (s *Server) selected(t *table, sel selector) []*version {
	if name, one := sel.fields.RequiresExactMatch("metadata.name"); one && sel.namespace != "" {
		if v := t.objects[key{Namespace: sel.namespace, Name: name}]; sel.matches(v) {
			return []*version{v}
		}
		return nil
	}
	var found []*version
	for _, k := range t.sorted {
		if v := t.objects[k]; sel.matches(v) {
			found = append(found, v)
		}
	}
	return found
}

// fieldsOf are the fields of an object by which the API server selects: function ToSelectableFields of each kind.
func fieldsOf(object client.Object) fields.Set {
	set := fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	switch o := object.(type) {
	case *corev1.Pod:
		set["spec.nodeName"] = o.Spec.NodeName
		set["spec.restartPolicy"] = string(o.Spec.RestartPolicy)
		set["spec.schedulerName"] = o.Spec.SchedulerName
		set["spec.serviceAccountName"] = o.Spec.ServiceAccountName
		set["spec.hostNetwork"] = strconv.FormatBool(o.Spec.HostNetwork)
		set["status.phase"] = string(o.Status.Phase)
		set["status.podIP"] = o.Status.PodIP
		set["status.nominatedNodeName"] = o.Status.NominatedNodeName
	case *corev1.Node:
		set["spec.unschedulable"] = strconv.FormatBool(o.Spec.Unschedulable)
	case *corev1.Namespace:
		set["status.phase"] = string(o.Status.Phase)
		set["name"] = o.Name
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Service:
		set["spec.clusterIP"], set["spec.type"] = o.Spec.ClusterIP, string(o.Spec.Type)
	case *batchv1.Job:
		set["status.successful"] = strconv.Itoa(int(o.Status.Succeeded))
	}
	return set
}

func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q: %v", text, err))
	}
	return number, nil
}

// tooLarge refuses a version that is not there yet.
func tooLarge(asked, newest uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, newest), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
