// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write is a request that may change an object. The server's mutex is held.
type write struct {
	server      *Server
	user        string
	verb        string
	table       *table
	subresource string
	key         key
	dryRun      bool
	manager     string // who is noted in the managed fields
	deletion    *metav1.DeleteOptions
}

// nameRetries is how often the API server draws another name for an object.
const nameRetries = 8

// create makes an object. It owns what it gets. The order of the steps is that of the API server: defaults, mutating
// admission, the strategy of the kind with its validation, validating admission, and at last the name.
func (w *write) create(object client.Object) (*version, error) {
	if err := w.settleMetadata(object); err != nil {
		return nil, err
	}
	if err := w.complete(object); err != nil {
		return nil, err
	}
	object, err := w.mutate(object)
	if err != nil {
		return nil, err
	}
	w.prepareCreate(object)
	if errs := w.validateCreate(object); len(errs) > 0 {
		return nil, apierrors.NewInvalid(w.table.kind().GroupKind(), object.GetName(), errs)
	}
	w.noteManager(object, nil)
	if err := w.admit(object, nil); err != nil {
		return nil, err
	}
	if there := w.table.objects[w.key]; there != nil {
		return nil, w.alreadyExists(there, object.GetGenerateName() != "")
	}
	if w.dryRun {
		object.SetResourceVersion("")
		return &version{table: w.table, key: w.key, object: object, labels: object.GetLabels()}, nil
	}
	v := w.server.store(w.table, w.key, object)
	w.server.record(w, nil, v)
	return v, nil
}

// settleMetadata gives a new object its name and what the server alone says about it.
func (w *write) settleMetadata(object client.Object) error {
	resource := w.table.GroupResource()
	switch namespace := object.GetNamespace(); {
	case !w.table.Namespaced && namespace != "":
		return apierrors.NewBadRequest("namespace may not be set on a cluster-scoped object") // rest.EnsureObjectNamespaceMatchesRequestNamespace
	case namespace != "" && namespace != w.key.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if object.GetResourceVersion() != "" {
		return errors.New("resourceVersion should not be set on objects to be created")
	}
	object.SetNamespace(w.key.Namespace)
	object.SetUID(w.server.uid())
	object.SetCreationTimestamp(now())
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	object.SetSelfLink("")
	if object.GetName() == "" && object.GetGenerateName() != "" {
		for range nameRetries {
			object.SetName(w.server.generate(object.GetGenerateName()))
			if w.table.objects[key{Namespace: w.key.Namespace, Name: object.GetName()}] == nil {
				break
			}
		}
	}
	w.key.Name = object.GetName()
	if w.table.Namespaced && w.key.Namespace == "" {
		return apierrors.NewBadRequest("an empty namespace may not be set during creation of " + resource.String())
	}
	return nil
}

func (w *write) alreadyExists(there *version, isGenerated bool) error {
	resource := w.table.GroupResource()
	err := apierrors.NewAlreadyExists(resource, w.key.Name)
	if isGenerated {
		err = apierrors.NewGenerateNameConflict(resource, w.key.Name, 1)
	}
	if there.object.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// update replaces an object, or what the subresource has of it. It owns what it gets.
func (w *write) update(object client.Object) (*version, bool, error) {
	if object.GetName() == "" {
		object.SetName(w.key.Name)
	}
	if object.GetName() != w.key.Name {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), w.key.Name))
	}
	if n := object.GetNamespace(); n != "" && n != w.key.Namespace {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", n, w.key.Namespace))
	}
	object.SetNamespace(w.key.Namespace)
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		if !w.table.traits.createOnUpdate || w.subresource != "" {
			return nil, false, err
		}
		object.SetResourceVersion("")
		v, err := w.create(object)
		return v, true, err
	}
	v, err := w.replace(old, object)
	return v, false, err
}

// replace writes an object over an old version of it.
func (w *write) replace(old *version, object client.Object) (*version, error) {
	if err := w.checkVersion(old, object); err != nil {
		return nil, err
	}
	if err := w.complete(object); err != nil {
		return nil, err
	}
	w.prepareUpdate(object, old.object)
	if errs := w.validateUpdate(object, old.object); len(errs) > 0 {
		return nil, apierrors.NewInvalid(w.table.kind().GroupKind(), object.GetName(), errs)
	}
	if isSame(object, old.object) {
		return old, nil // such a write has no effect in the API server: no event, no new version
	}
	w.noteManager(object, old.object)
	if err := w.admit(object, old.object); err != nil {
		return nil, err
	}
	if w.dryRun {
		object.SetResourceVersion(old.object.GetResourceVersion())
		return &version{table: w.table, key: w.key, object: object, labels: object.GetLabels()}, nil
	}
	return w.keep(old, object), nil
}

// keep stores the next version of an object, or deletes the object if its last finalizer is gone now.
func (w *write) keep(old *version, object client.Object) *version {
	namespace, isNamespace := object.(*corev1.Namespace)
	if isNamespace && len(namespace.Spec.Finalizers) == 0 && namespace.DeletionTimestamp != nil || !isNamespace && isGone(object, old.object) {
		w.server.remove(old, object)
		w.server.record(w, old, nil)
		return &version{table: old.table, key: old.key, number: old.number, object: object, labels: object.GetLabels()}
	}
	v := w.server.store(w.table, w.key, object)
	w.server.record(w, old, v)
	return v
}

// isGone reports whether an object of which the deletion was asked for has no finalizer and no grace left:
// ShouldDeleteDuringUpdate in the registry.
func isGone(object, old client.Object) bool {
	if len(object.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// checkVersion is the optimistic lock.
func (w *write) checkVersion(old *version, object client.Object) error {
	resource := w.table.GroupResource()
	if uid := object.GetUID(); uid != "" && uid != old.object.GetUID() {
		if w.verb == "patch" {
			path := field.NewPath("metadata", "uid")
			return apierrors.NewInvalid(w.table.kind().GroupKind(), w.key.Name, field.ErrorList{field.Invalid(path, uid, validation.FieldImmutableErrorMsg)})
		}
		return w.precondition("UID", uid, old.object.GetUID())
	}
	switch number := object.GetResourceVersion(); {
	case number == "" && !w.table.traits.needsVersion:
		object.SetResourceVersion(old.object.GetResourceVersion())
	case number == "" || number == "0":
		err := field.Invalid(field.NewPath("metadata", "resourceVersion"), field.OmitValueType{}, "must be specified for an update")
		err.BadValue = uint64(0)
		return apierrors.NewInvalid(w.table.GroupVersion().WithKind(w.table.Resource.Resource).GroupKind(), w.key.Name, field.ErrorList{err})
	case number != old.object.GetResourceVersion():
		return apierrors.NewConflict(resource, w.key.Name, errModified)
	}
	return nil
}

// complete gives an object the defaults of its kind.
func (w *write) complete(object client.Object) error {
	if u, ok := object.(*unstructured.Unstructured); ok {
		complete := w.table.definition.complete
		if w.subresource == "status" {
			complete = w.table.definition.completeStatus
		}
		if err := complete(u); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return nil
	}
	setDefaults(object)
	return nil
}

// noteManager notes who wrote an object, without the fields that he wrote.
func (w *write) noteManager(object, old client.Object) {
	if !w.table.traits.managed {
		object.SetManagedFields(nil)
		return
	}
	var entries []metav1.ManagedFieldsEntry
	if old != nil {
		entries = slices.Clone(old.GetManagedFields())
	}
	at, name := now(), w.manager
	if name == "" {
		name = w.user
	}
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == name && e.Subresource == w.subresource })
	if i < 0 {
		i = len(entries)
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: w.table.GroupVersion().String(), Subresource: w.subresource,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		})
	}
	entries[i].Time = &at
	object.SetManagedFields(entries)
}

// precondition refuses a write of another object, in the words of the storage of the API server.
func (w *write) precondition(what string, want, have any) error {
	at := w.table.GroupVersionResource.Resource
	if w.table.definition != nil {
		at = w.table.Group + "/" + at
	}
	return apierrors.NewConflict(w.table.GroupResource(), w.key.Name, fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: /registry/%s/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s in precondition: %v, %s in object meta: %v",
		at, w.key.Namespace, w.key.Name, what, want, what, have))
}

// errModified has the words of the API server.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// uidOf is for preconditions.
func uidOf(object client.Object) *types.UID { uid := object.GetUID(); return &uid }
