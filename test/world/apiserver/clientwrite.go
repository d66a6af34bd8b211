// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write begins a write of an object and locks the server; the caller unlocks it.
func (d *direct) write(object client.Object, verb, subresource, manager string, dryRun []string) (*write, error) {
	t, err := d.table(object)
	if err != nil {
		return nil, err
	}
	dry, err := dryRuns(dryRun)
	if err != nil {
		return nil, err
	}
	return &write{
		server: d.server, user: d.user, verb: verb, table: t, subresource: subresource, key: client.ObjectKeyFromObject(object), dryRun: dry, manager: manager,
	}, nil
}

// Create implements client.Writer.
func (d *direct) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	var o client.CreateOptions
	o.ApplyOptions(options)
	w, err := d.write(object, "create", "", o.FieldManager, o.DryRun)
	if err != nil {
		return err
	}
	owned, err := d.own(w.table, object)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	v, err := w.create(owned)
	if err != nil {
		return err
	}
	return d.fill(object, v, false)
}

// Update implements client.Writer.
func (d *direct) Update(_ context.Context, object client.Object, options ...client.UpdateOption) error {
	var o client.UpdateOptions
	o.ApplyOptions(options)
	return d.update(object, object, "", &o)
}

func (d *direct) update(object, body client.Object, subresource string, o *client.UpdateOptions) error {
	w, err := d.write(object, "update", subresource, o.FieldManager, o.DryRun)
	if err != nil {
		return err
	}
	owned, err := d.own(w.table, body)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	v, _, err := w.update(owned)
	if err != nil {
		return err
	}
	return d.fill(body, v, false)
}

// Patch implements client.Writer.
func (d *direct) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(options)
	return d.patch(object, object, patch, "", &o)
}

func (d *direct) patch(object, body client.Object, patch client.Patch, subresource string, o *client.PatchOptions) error {
	w, err := d.write(object, "patch", subresource, o.FieldManager, o.DryRun)
	if err != nil {
		return err
	}
	data, err := patch.Data(body)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	v, err := w.patch(patch.Type(), data)
	if err != nil {
		return err
	}
	return d.fill(body, v, false)
}

// Delete implements client.Writer.
func (d *direct) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(options)
	w, err := d.write(object, "delete", "", "", o.DryRun)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	_, _, err = w.delete(o.AsDeleteOptions().DeepCopy())
	return err
}

// DeleteAllOf implements client.Writer.
func (d *direct) DeleteAllOf(_ context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	var o client.DeleteAllOfOptions
	o.ApplyOptions(options)
	w, err := d.write(object, "delete", "", "", o.DryRun)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	sel, err := d.selector(w.table, &o.ListOptions)
	if err != nil {
		return err
	}
	for _, v := range d.server.selected(w.table, sel) {
		w.key = v.key
		if _, _, err := w.delete(o.AsDeleteOptions().DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// Apply implements client.Writer.
func (d *direct) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errApply
}

// Status implements client.StatusClient.
func (d *direct) Status() client.SubResourceWriter { return d.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (d *direct) SubResource(name string) client.SubResourceClient {
	return &directSubresource{direct: d, name: name}
}

// directSubresource is a subresource without HTTP.
type directSubresource struct {
	*direct
	name string
}

// Get implements client.SubResourceReader.
func (d *directSubresource) Get(ctx context.Context, object, sub client.Object, _ ...client.SubResourceGetOption) error {
	return d.direct.Get(ctx, client.ObjectKeyFromObject(object), sub)
}

// Create implements client.SubResourceWriter, for bindings and evictions.
func (d *directSubresource) Create(_ context.Context, object, sub client.Object, options ...client.SubResourceCreateOption) error {
	var o client.SubResourceCreateOptions
	o.ApplyOptions(options)
	w, err := d.write(object, "create", d.name, o.FieldManager, o.DryRun)
	if err != nil {
		return err
	}
	d.server.mutex.Lock()
	defer d.server.mutex.Unlock()
	var status *metav1.Status
	switch request := sub.(type) {
	case *corev1.Binding:
		status, err = w.bind(request)
	case *policyv1.Eviction:
		if request.Name == "" {
			request.Name = w.key.Name
		}
		status, err = w.evict(request)
	default:
		return fmt.Errorf("%T is no subresource that the server creates", sub)
	}
	if err == nil && status.Status != metav1.StatusSuccess {
		err = apierrors.FromObject(status)
	}
	return err
}

// Update implements client.SubResourceWriter.
func (d *directSubresource) Update(_ context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	var o client.SubResourceUpdateOptions
	o.ApplyOptions(options)
	body := object
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
	}
	return d.update(object, body, d.name, &o.UpdateOptions)
}

// Patch implements client.SubResourceWriter.
func (d *directSubresource) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	var o client.SubResourcePatchOptions
	o.ApplyOptions(options)
	body := object
	if o.SubResourceBody != nil {
		body = o.SubResourceBody
	}
	return d.patch(object, body, patch, d.name, &o.PatchOptions)
}

// Apply implements client.SubResourceWriter.
func (d *directSubresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errApply
}
