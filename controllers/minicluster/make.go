// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// errStillThere says that an object of an earlier MiniCluster of the same name is still being
// deleted.
var errStillThere = errors.New("an object of an earlier MiniCluster of the name is still there")

// nameClashError says that an object of another owner has the name.
type nameClashError struct{ kind, name, owner, why string }

// fluxOperator is the owner of an object that the Flux Operator made for the MiniCluster.
const fluxOperator = "Flux Operator"

func (c *nameClashError) Error() string {
	if c.owner == fluxOperator {
		return fmt.Sprintf("%s %q is of a run by the Flux Operator; delete the MiniCluster, and create it again", c.kind, c.name)
	}
	why := cmp.Or(c.why, "is not of this MiniCluster")
	if c.owner != "" {
		why = "belongs to " + c.owner
	}
	return fmt.Sprintf("%s %q exists and %s; it is left alone", c.kind, c.name, why)
}

// makeObjects makes what the attempt needs, the JobSet last. It reads the API server rather than
// the cache. Foreign objects are left alone. A certificate of the attempt is kept, because
// brokers may have it. All else follows from the spec, which may have changed since.
func (r *Reconciler) makeObjects(ctx context.Context, seen *observed) error {
	mc, attempt := seen.view.MiniCluster, int32(seen.observation.Attempt())
	objects, err := jobset.Objects(mc, attempt, func() (string, error) { return broker.Certificate(mc.Name, rand.Reader) })
	if err != nil {
		return fmt.Errorf("building the objects of MiniCluster %q: %w", mc.Name, err)
	}
	last := len(objects) - 1 // the JobSet comes last: its pods need the others
	switch set, err := r.existing(ctx, mc, objects[last]); {
	case err != nil:
		return err
	case set == nil:
	case jobset.Attempt(set) == attempt && jobset.Generation(set) == jobset.Generation(objects[last]):
		return nil // made, but not in the cache yet
	default:
		return errStillThere // made for another attempt, and not in the cache yet
	}
	if err := r.chooseBinder(ctx, seen, objects[last]); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, object := range objects[:last] {
		group.Go(func() error { return r.makeObject(groupCtx, mc, object, attempt) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.makeObject(ctx, mc, objects[last], attempt)
}

func (r *Reconciler) makeObject(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object, attempt int32) error {
	if service, ok := object.(*corev1.Service); ok {
		return r.makeService(ctx, mc, service)
	}
	there, err := r.existing(ctx, mc, object)
	if err != nil {
		return err
	}
	_, isSecret := object.(*corev1.Secret)
	if isSecret && there != nil && jobset.Attempt(there) == attempt && mc.Spec.Flux.CurveCert == "" {
		return nil
	}
	return r.apply(ctx, object)
}

// existing reads the object that has the name of one to be made from the API server, not from the
// cache; nil if there is none. It returns an error if the object has another owner.
func (r *Reconciler) existing(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk := object.GetObjectKind().GroupVersionKind()
	if service, ok := object.(*corev1.Service); ok {
		there, err := r.existingService(ctx, service)
		if err != nil || there == nil {
			return nil, err
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: there.ObjectMeta}, nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %q: %w", gvk.Kind, object.GetName(), err)
	}
	owner := metav1.GetControllerOf(found)
	switch {
	case metav1.IsControlledBy(found, mc) && jobset.Attempt(found) == 0:
		// The command may run, or may have run. It must not run twice.
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: fluxOperator}
	case metav1.IsControlledBy(found, mc):
		return found, nil
	case owner == nil:
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName()}
	case owner.Kind == v1alpha2.MiniClusterKind && owner.Name == mc.Name:
		return nil, fmt.Errorf("%s %q: %w", gvk.Kind, object.GetName(), errStillThere)
	}
	return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: owner.Kind + " " + owner.Name}
}

// apply writes an object by server-side apply.
func (r *Reconciler) apply(ctx context.Context, object client.Object, options ...client.ApplyOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(content, "status")
	desired := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	options = append(options, client.FieldOwner(FieldOwner), client.ForceOwnership)
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), options...)
	if err != nil {
		return fmt.Errorf("applying %s %q: %w", desired.GetKind(), desired.GetName(), err)
	}
	return nil
}

// unforeseen handles an error that the check did not foresee: another owner took a name,
// or the API server refuses an object. Then the check is repeated, and the next pass reports it
// and gives the nodes back.
func (r *Reconciler) unforeseen(seen *observed, err error) error {
	var clash *nameClashError
	var result *check
	last := cmp.Or(seen.check, &check{generation: seen.view.MiniCluster.Generation})
	switch {
	case err == nil:
		last.failures = 0
		return nil
	case errors.As(err, &clash):
		result = rejection(seen.now, v1alpha2.ReasonNameClash, clash.Error())
	case isQuotaRefusal(err):
		result = &check{refused: err.Error(), pod: last.pod, at: seen.now}
	case refused(err):
		result = rejection(seen.now, v1alpha2.ReasonObjectRejected, err.Error())
	default:
		return err
	}
	result.generation = last.generation
	seen.memory.check = result.again(last.failures)
	return errStillThere
}
