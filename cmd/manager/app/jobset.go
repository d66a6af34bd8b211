// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
	jobsetmetrics "sigs.k8s.io/jobset/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/jobset/crd"
)

// installTimeout is how long the API server may take to serve a new API.
const installTimeout = 30 * time.Second

// setupJobSet runs JobSet's own controller in this manager, for the JobSets of MiniClusters alone: the
// cache has no others. JobSet's webhooks are not needed, since our JobSets have all fields that the
// webhooks would set.
func setupJobSet(ctx context.Context, mgr ctrl.Manager) error {
	if err := jobsetcontrollers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(forgetCounts(time.Hour)); err != nil {
		return err
	}
	reconciler := jobsetcontrollers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("jobset"))
	// This is how the reconciler registers itself, except that it sees changes of Jobs in
	// batches, and watches no Services, since our JobSets need none of JobSet's. The counts of Jobs
	// change often, and each pass may write a status. When the lead ends, its followers end too.
	// Those that have ended by the next batch need not be killed.
	return ctrl.NewControllerManagedBy(mgr).
		For(&jobsetapi.JobSet{}, builder.WithPredicates(moreThanCounts)).
		Watches(&batchv1.Job{}, minicluster.Batched(jobBatch, jobSetOf), builder.WithPredicates(ended)).
		Watches(&batchv1.Job{}, minicluster.Batched(countBatch, jobSetOf), builder.WithPredicates(predicate.Not(ended))).
		Watches(&v1alpha2.MiniCluster{}, handler.EnqueueRequestsFromMapFunc(jobSetOfMiniCluster), builder.WithPredicates(created)).
		Complete(ownJobSets{reconciler, mgr.GetClient()})
}

// ownJobSets reconciles the JobSets that MiniClusters have. Whoever may make JobSets may give them our labels and owners,
// and the Jobs are made with the rights of this manager.
type ownJobSets struct {
	reconcile.Reconciler
	cache client.Reader
}

// Reconcile implements reconcile.Reconciler.
func (o ownJobSets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set jobsetapi.JobSet
	if err := o.cache.Get(ctx, req.NamespacedName, &set, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var mc v1alpha2.MiniCluster
	if owner := metav1.GetControllerOfNoCopy(&set); owner == nil || owner.Kind != v1alpha2.MiniClusterKind {
		return ctrl.Result{}, nil
	} else if err := o.cache.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: owner.Name}, &mc, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	alien := func(job jobsetapi.ReplicatedJob) bool {
		return job.Replicas != 1 || !slices.Contains(v1alpha2.Jobs, job.Name)
	}
	if !metav1.IsControlledBy(&set, &mc) || set.Name != jobset.Name(&mc) || set.Spec.SuccessPolicy == nil || slices.ContainsFunc(set.Spec.ReplicatedJobs, alien) {
		return ctrl.Result{}, nil
	}
	return o.Reconciler.Reconcile(ctx, req)
}

// created passes new objects. The cache may show a MiniCluster after its JobSet.
var created = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func jobSetOfMiniCluster(_ context.Context, mc client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: mc.GetNamespace(), Name: jobset.Name(mc.(*v1alpha2.MiniCluster))}}}
}

// forgetCounts empties JobSet's counters at each interval: the reconciler counts by the names of JobSets, and forgets
// none. Nobody reads the counters.
func forgetCounts(interval time.Duration) manager.RunnableFunc {
	return func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(context.Context) {
			jobsetmetrics.CompletedTotal.Reset()
			jobsetmetrics.FailedTotal.Reset()
		}, interval)
		return nil
	}
}

const (
	// jobBatch is how long events of a JobSet's Jobs are collected before the JobSet is reconciled.
	jobBatch = 2 * time.Second
	// countBatch is the same for Jobs whose pods have not ended: only the JobSet's counts change.
	countBatch = 10 * time.Second
)

// ended passes Jobs that end or are deleted.
var ended = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return isEnding(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool { return isEnding(e.ObjectNew) },
}

func isEnding(job client.Object) bool {
	return job.GetDeletionTimestamp() != nil || len(job.(*batchv1.Job).Status.Conditions) > 0
}

// moreThanCounts passes changes of a JobSet, except to the counts of its status: the reconciler writes
// these, and does not read them. Another pass would not see the Jobs yet that the last one made.
var moreThanCounts = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*jobsetapi.JobSet), e.ObjectNew.(*jobsetapi.JobSet)
	a, b := before.Status, after.Status
	a.ReplicatedJobsStatus, b.ReplicatedJobsStatus = nil, nil
	return before.Generation != after.Generation || !equality.Semantic.DeepEqual(a, b) ||
		!before.DeletionTimestamp.Equal(after.DeletionTimestamp)
}}

func jobSetOf(job client.Object) *reconcile.Request {
	owner := metav1.GetControllerOf(job)
	if owner == nil || owner.Kind != "JobSet" {
		return nil
	}
	return &reconcile.Request{NamespacedName: types.NamespacedName{Namespace: job.GetNamespace(), Name: owner.Name}}
}

// jobSetDefinition is the definition of the JobSet API that this version of the manager installs, with the defaults that
// the API server gives it.
var jobSetDefinition = sync.OnceValues(func() (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(crd.JobSet, definition); err != nil {
		return nil, fmt.Errorf("reading JobSet's definition: %w", err)
	}
	scheme().Default(definition)
	return definition, nil
})

// installJobSet installs the JobSet API if it is missing, upgrades one that a manager installed and nobody has changed
// since, and waits until it is served.
func installJobSet(ctx context.Context, config *rest.Config) error {
	wanted, err := jobSetDefinition()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	changed := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	if err := retry.OnError(retry.DefaultRetry, changed, func() error { return install(ctx, c, wanted) }); err != nil {
		return fmt.Errorf("installing the JobSet API: %w", err)
	}
	served := func(ctx context.Context) (bool, error) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), definition); err != nil {
			return false, err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return isFound(c)
			}
		}
		return false, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, installTimeout, true, served); err != nil {
		return fmt.Errorf("waiting for the JobSet API: %w", err)
	}
	return nil
}

// install creates a definition, or writes it over another version of its name, unless others have written that.
func install(ctx context.Context, c client.Client, wanted *apiextensionsv1.CustomResourceDefinition) error {
	there := &apiextensionsv1.CustomResourceDefinition{}
	switch err := c.Get(ctx, client.ObjectKeyFromObject(wanted), there); {
	case apierrors.IsNotFound(err):
		return c.Create(ctx, wanted.DeepCopy())
	case err != nil, isOfOthers(there), equality.Semantic.DeepEqual(there.Spec, wanted.Spec):
		return err
	}
	there.Spec = wanted.Spec
	return c.Update(ctx, there)
}

// isOfOthers reports whether others than a manager have written fields of an object.
func isOfOthers(object client.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource == "" && f.Manager != v1alpha2.FieldOwner
	})
}

// isFound reports whether discovery lists the JobSet API, which may be later than its definition is
// established. The manager's cache needs it.
func isFound(c client.Client) (bool, error) {
	_, err := c.RESTMapper().RESTMapping(jobsetapi.GroupVersion.WithKind("JobSet").GroupKind(), jobsetapi.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}
