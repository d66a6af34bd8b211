// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// QueueReconciler tells people what waits in a queue, and why.
type QueueReconciler struct {
	Client    client.Client
	Scheduler *Scheduler
	Clock     clock.PassiveClock

	paces paces
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterqueues/status,verbs=patch

// Reconcile writes the status of one queue, if it changed, and not too often.
func (r *QueueReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var queue v1alpha2.MiniClusterQueue
	if err := r.Client.Get(ctx, req.NamespacedName, &queue); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	report, ok := r.Scheduler.report(queue.Name)
	if !ok {
		return ctrl.Result{}, nil // no cycle has been since it came
	}
	desired := status.Queue(&queue, report)
	if equality.Semantic.DeepEqual(&queue.Status, &desired) {
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	if wait := r.paces.wait(req.NamespacedName, countsInterval, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	updated := queue.DeepCopy()
	updated.Status = desired
	if err := r.Client.Status().Patch(ctx, updated, client.MergeFrom(&queue)); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of queue %q: %w", queue.Name, err)
	}
	r.paces.wrote(req.NamespacedName, now)
	return ctrl.Result{}, nil
}

// SetupWithManager registers the reconciler and what wakes it.
func (r *QueueReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("queue").
		For(&v1alpha2.MiniClusterQueue{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Scheduler.reported, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// queueReports are what the last cycle found, by queue.
type queueReports map[string]status.QueueReport

// report is what the last cycle found of a queue.
func (s *Scheduler) report(queue string) (status.QueueReport, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	report, ok := s.reports[queue]
	return report, ok
}

// update keeps what a cycle found, and returns the queues of which that is news.
func (r queueReports) update(decided elastic.Cycle, snapshot elastic.Snapshot, byID map[string]*entry) []types.NamespacedName {
	reports := map[string]*status.QueueReport{}
	for _, use := range decided.Uses {
		reports[use.Queue] = &status.QueueReport{Use: use}
	}
	for i := range snapshot.Running {
		if report := reports[snapshot.Running[i].Queue]; report != nil {
			report.Admitted++
		}
	}
	for _, decision := range decided.Decisions {
		e := byID[decision.Gang]
		report := reports[e.queue]
		switch {
		case report == nil: // there is no such queue
		case decision.Verdict == elastic.Admitted:
			report.Admitted++
		default:
			report.Waiting = append(report.Waiting, status.Waiting{
				Namespace: e.miniCluster.Namespace, Name: e.miniCluster.Name, Decision: decision,
			})
		}
	}
	var news []types.NamespacedName
	for name, report := range reports {
		if !reflect.DeepEqual(r[name], *report) {
			r[name] = *report
			news = append(news, types.NamespacedName{Name: name})
		}
	}
	return news
}
