// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	kjson "sigs.k8s.io/json"
)

// direct is a client without HTTP.
type direct struct {
	server *Server
	user   string
}

// Client reads and writes without HTTP, with the same semantics and the same admission: for models and checks. Lists and
// gets with client.UnsafeDisableDeepCopy share the stored objects, which may only be read. A client has no
// server-side apply.
func (s *Server) Client(user string) client.Client { return &direct{server: s, user: user} }

func (d *direct) Scheme() *runtime.Scheme { return d.server.options.Scheme }

func (d *direct) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, d.server.options.Scheme)
}

func (d *direct) IsObjectNamespaced(object runtime.Object) (bool, error) {
	t, err := d.table(object)
	if err != nil {
		return false, err
	}
	return t.Namespaced, nil
}

// RESTMapper is made of what the server has now.
func (d *direct) RESTMapper() meta.RESTMapper {
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, t := range d.server.tables {
		scope := meta.RESTScopeRoot
		if t.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.AddSpecific(t.kind(), t.GroupVersionResource, t.GroupVersion().WithResource(t.singularName()), scope)
	}
	return mapper
}

// table finds the resource of an object or a list.
func (d *direct) table(object runtime.Object) (*table, error) {
	kind, err := d.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	for _, t := range d.server.tables {
		if t.GroupVersion() == kind.GroupVersion() && (t.Kind == kind.Kind || t.listKind == kind.Kind) {
			return t, nil
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

// Get implements client.Reader.
func (d *direct) Get(_ context.Context, k client.ObjectKey, object client.Object, options ...client.GetOption) error {
	t, err := d.table(object)
	if err != nil {
		return err
	}
	var o client.GetOptions
	o.ApplyOptions(options)
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	v, err := d.server.find(t, k)
	if err != nil {
		return err
	}
	return d.fill(object, v, o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy)
}

// fill makes an object of the caller what is stored.
func (d *direct) fill(object client.Object, v *version, shares bool) error {
	switch to := object.(type) {
	case *metav1.PartialObjectMetadata:
		*to = *partial(v).DeepCopy()
		to.SetGroupVersionKind(v.table.kind())
		return nil
	case *unstructured.Unstructured:
		content, err := contentOf(v.object)
		if err == nil {
			to.Object = content
		}
		return err
	}
	stored, err := d.stored(v)
	if err != nil {
		return err
	}
	if !shares {
		stored = stored.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(stored).Elem())
	return nil
}

// stored is an object as a Go struct, shared.
func (d *direct) stored(v *version) (client.Object, error) {
	u, ok := v.object.(*unstructured.Unstructured)
	if !ok {
		return v.object, nil
	}
	if v.typed == nil {
		object, err := d.server.options.Scheme.New(v.table.kind())
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
			return nil, err
		}
		v.typed = object.(client.Object)
	}
	return v.typed, nil
}

func contentOf(object client.Object) (map[string]any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.DeepCopy().Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}

// List implements client.Reader.
func (d *direct) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	t, err := d.table(list)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	sel, err := d.selector(t, &o)
	if err != nil {
		return err
	}
	versions, listMeta, err := d.server.list(t, sel, &metav1.ListOptions{Limit: o.Limit, Continue: o.Continue})
	if err != nil {
		return err
	}
	list.SetResourceVersion(listMeta.ResourceVersion)
	list.SetContinue(listMeta.Continue)
	list.SetRemainingItemCount(listMeta.RemainingItemCount)
	return d.fillList(list, versions, o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy)
}

func (d *direct) selector(t *table, o *client.ListOptions) (selector, error) {
	label, field := "", ""
	if o.LabelSelector != nil {
		label = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		field = o.FieldSelector.String()
	}
	return newSelector(t, o.Namespace, label, field)
}

func (d *direct) fillList(list client.ObjectList, versions []*version, shares bool) error {
	if l, ok := list.(*unstructured.UnstructuredList); ok {
		l.Items = make([]unstructured.Unstructured, len(versions))
		for i, v := range versions {
			if err := d.fill(&l.Items[i], v, shares); err != nil {
				return err
			}
		}
		return nil
	}
	field := reflect.ValueOf(list).Elem().FieldByName("Items")
	items := reflect.MakeSlice(field.Type(), len(versions), len(versions))
	for i, v := range versions {
		item := items.Index(i)
		if item.Kind() == reflect.Pointer {
			item.Set(reflect.New(item.Type().Elem()))
			item = item.Elem()
		}
		if err := d.fill(item.Addr().Interface().(client.Object), v, shares); err != nil {
			return err
		}
	}
	field.Set(items)
	return nil
}

// own makes a copy of the caller's object as the server has objects.
func (d *direct) own(t *table, object client.Object) (client.Object, error) {
	if t.definition == nil {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			owned := object.DeepCopyObject().(client.Object)
			owned.GetObjectKind().SetGroupVersionKind(t.kind())
			return owned, nil
		}
		owned := newObject(t.Resource)
		return owned, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, owned)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	owned := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &owned.Object); err != nil {
		return nil, err
	}
	owned.SetGroupVersionKind(t.kind())
	return owned, nil
}

// errApply is said to who wants what the direct client has not.
var errApply = errors.New("the direct client has no server-side apply: use the transport")

func dryRuns(asked []string) (bool, error) {
	switch {
	case len(asked) == 0:
		return false, nil
	case len(asked) == 1 && asked[0] == metav1.DryRunAll:
		return true, nil
	}
	return false, apierrors.NewBadRequest(fmt.Sprintf("dryRun: Unsupported value: %v", asked))
}
