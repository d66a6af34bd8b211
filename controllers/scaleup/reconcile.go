// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
)

// setup registers the controller and its watches.
func (s *ScaleUp) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("scaleup").
		Watches(&v1alpha2.MiniCluster{}, handler.EnqueueRequestsFromMapFunc(s.ifAsked)).
		WatchesRawSource(source.Channel(s.scheduler.Asks(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(s.changed, &handler.EnqueueRequestForObject{})).
		Complete(s)
}

// ifAsked is a MiniCluster for which something was asked.
func (s *ScaleUp) ifAsked(ctx context.Context, mc client.Object) []reconcile.Request {
	name := client.ObjectKeyFromObject(mc)
	if objects, err := s.objects(ctx, name, mc.GetUID()); err != nil || objects.Template == nil && len(objects.Requests) == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// Reconcile does the next write for one MiniCluster. The write is seen in the cache, and leads to the one after it.
func (s *ScaleUp) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	now, reader := s.state()
	if reader == nil {
		return ctrl.Result{}, nil
	}
	var mc v1alpha2.MiniCluster
	if err := s.cluster.Get(ctx, req.NamespacedName, &mc); err != nil { // its objects go with it
		s.note(req.NamespacedName, "", nil)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	objects, err := s.objects(ctx, req.NamespacedName, mc.UID)
	if err != nil {
		return ctrl.Result{}, err
	}
	wish, placed, known := s.wish(&mc, now.versions)
	if !known {
		return ctrl.Result{}, nil
	}
	mc.Default()
	step := scaleup.Next(&mc, wish, placed, objects, s.clock.Now())
	err = s.carryOut(ctx, &step, objects)
	if apierrors.IsAlreadyExists(err) {
		err = s.clash(ctx, &mc, err)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the cache is behind
		return ctrl.Result{}, nil
	}
	s.note(req.NamespacedName, mc.UID, err)
	if err != nil || step.LookAgain.IsZero() {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(step.LookAgain.Sub(s.clock.Now()), 0) + 1}, nil
}

// wish is what is to be asked for a MiniCluster, nil for nothing, and whether it has nodes. It is not known before the
// scheduler has decided, and while the API server does not have the provider's API.
func (s *ScaleUp) wish(mc *v1alpha2.MiniCluster, versions map[v1alpha2.ScaleUpProvider]string) (wish *scaleup.Wish, placed, known bool) {
	wish, placed, known = s.scheduler.Wish(client.ObjectKeyFromObject(mc), mc.UID)
	switch over := meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished); {
	case over || !mc.Spec.IsOurs():
		return nil, false, true
	case mc.Status.Admission != nil:
		placed, known = true, true
	}
	if wish != nil {
		wish.Version = versions[wish.Provider]
		known = known && wish.Version != ""
	}
	return wish, placed, known
}

// note keeps why the last write for a MiniCluster failed, for its verdict.
func (s *ScaleUp) note(name types.NamespacedName, uid types.UID, err error) {
	now := problem{}
	if err != nil {
		now = problem{uid, err.Error()}
	}
	s.mutex.Lock()
	before := s.problems[name]
	if s.problems[name] = now; err == nil {
		delete(s.problems, name)
	}
	s.mutex.Unlock()
	if before.why != now.why {
		s.scheduler.Wake(false)
	}
}

// carryOut does one write.
func (s *ScaleUp) carryOut(ctx context.Context, step *scaleup.Step, objects *scaleup.Objects) error {
	lock := client.MergeFromWithOptimisticLock{}
	switch {
	case step.CreateTemplate != nil:
		return wrap("creating", "PodTemplate", step.CreateTemplate, s.cluster.Create(ctx, step.CreateTemplate))
	case step.PatchTemplate != nil:
		return wrap("changing", "PodTemplate", step.PatchTemplate, s.cluster.Patch(ctx, step.PatchTemplate, client.MergeFromWithOptions(objects.Template, lock)))
	case step.DeleteTemplate != nil:
		return client.IgnoreNotFound(wrap("deleting", "PodTemplate", step.DeleteTemplate, s.delete(ctx, step.DeleteTemplate)))
	case step.CreateRequest != nil:
		object, err := step.CreateRequest.Unstructured()
		if err != nil {
			return err
		}
		return wrap("creating", object.GetKind(), object, s.cluster.Create(ctx, object))
	case step.PatchRequest != nil:
		object := objectOf(step.PatchRequest.GroupVersionKind())
		object.SetNamespace(step.PatchRequest.Namespace)
		object.SetName(step.PatchRequest.Name)
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, step.PatchRequest.ResourceVersion, *step.PatchRequest.Spec.Replicas)
		return wrap("changing", object.GetKind(), object, s.cluster.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
	case step.DeleteRequest != nil:
		object, err := step.DeleteRequest.Unstructured()
		if err != nil {
			return err
		}
		return client.IgnoreNotFound(wrap("deleting", object.GetKind(), object, s.delete(ctx, object)))
	}
	return nil
}

// delete deletes the very object, and no later one of its name.
func (s *ScaleUp) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	return s.cluster.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

func wrap(what, kind string, object client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %q: %w", what, kind, object.GetName(), err)
}

// clash says that an object of the name belongs to somebody else; nil if the cache is behind.
func (s *ScaleUp) clash(ctx context.Context, mc *v1alpha2.MiniCluster, exists error) error {
	for _, kind := range s.kinds() {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(kind)
		err := s.live.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: scaleup.Name(mc.Name)}, found)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %q: %w", kind.Kind, scaleup.Name(mc.Name), err)
		}
		if owner := metav1.GetControllerOf(found); err == nil && (owner == nil || owner.Kind != v1alpha2.MiniClusterKind || owner.Name != mc.Name) {
			return fmt.Errorf("%s %q exists and is not of this MiniCluster; it is left alone: %w", kind.Kind, found.Name, exists)
		}
	}
	return nil
}
