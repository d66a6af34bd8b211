// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

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
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// QueueReconciler reports what waits in a queue, and why.
type QueueReconciler struct {
	Client    client.Client
	Scheduler *Scheduler
	Clock     clock.PassiveClock

	// written is when the status of each queue was last written (time.Time, by name). Several queues are reconciled at once.
	written sync.Map
}

// reportInterval is the shortest time between writes of a queue's status.
const reportInterval = 3 * time.Second

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterqueues/status,verbs=patch

// Reconcile writes the status of one queue if it changed, but not too often.
func (r *QueueReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var made v1alpha2.MiniClusterQueue
	if err := r.Client.Get(ctx, req.NamespacedName, &made); err != nil {
		r.written.Delete(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	report, ok := r.Scheduler.report(made.Name)
	if !ok {
		return ctrl.Result{}, nil // no cycle has run since the queue was made
	}
	desired := status.Queue(&made, report)
	if equality.Semantic.DeepEqual(&made.Status, &desired) {
		return ctrl.Result{}, nil
	}
	now := r.Clock.Now()
	if at, ok := r.written.Load(req.Name); ok {
		if wait := reportInterval - now.Sub(at.(time.Time)); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	updated := made.DeepCopy()
	updated.Status = desired
	if err := r.Client.Status().Patch(ctx, updated, client.MergeFrom(&made)); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of queue %q: %w", made.Name, err)
	}
	r.written.Store(req.Name, now)
	return ctrl.Result{}, nil
}

// SetupWithManager registers the reconciler and its watches.
func (r *QueueReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("queue").
		For(&v1alpha2.MiniClusterQueue{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Scheduler.mail.reported, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// reports are what the last cycle says about the queues.
type reports struct {
	// byQueue are those for the statuses of the queues.
	byQueue map[string]status.QueueReport
	// measured is what the metrics say; nil before the first cycle. Nobody changes it later.
	measured map[string]metrics.Queue
}

// report is the last cycle's report on a queue.
func (s *Scheduler) report(name string) (status.QueueReport, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	report, ok := s.reports.byQueue[name]
	return report, ok
}

// step keeps the reports of a cycle and returns the queues whose report changed.
func (r *reports) step(c *cycle, result *queue.Result) (news []types.NamespacedName) {
	r.measured = measured(c, result)
	reports := map[string]*status.QueueReport{}
	for _, use := range result.Uses {
		reports[use.Queue] = &status.QueueReport{Use: use}
		if b := c.accounting.books[use.Queue]; b != nil {
			reports[use.Queue].Accounting = b.shown
		}
		c.usage.report(reports[use.Queue])
	}
	for i := range c.Running {
		if report := reports[c.Running[i].Queue]; report != nil {
			report.Admitted++
		}
	}
	for i := range result.Decisions {
		decision := &result.Decisions[i]
		e := c.decidedOn[i]
		report := reports[e.queue]
		switch {
		case report == nil: // the queue does not exist
		case decision.Verdict == elastic.Admitted:
			report.Admitted++
		default:
			report.Pending++
			if len(report.Waiting) < v1alpha2.MostWaiting {
				report.Waiting = append(report.Waiting, status.Waiting{
					Namespace: e.Namespace, Name: e.Name, Decision: *decision,
				})
			}
		}
	}
	c.countAsks(result, reports)
	maps.DeleteFunc(r.byQueue, func(name string, _ status.QueueReport) bool { return reports[name] == nil })
	for name, report := range reports {
		if !reflect.DeepEqual(r.byQueue[name], *report) {
			r.byQueue[name] = *report
			news = append(news, types.NamespacedName{Name: name})
		}
	}
	return news
}

// countAsks reports for how many nodes the MiniClusters of each queue wait.
func (c *cycle) countAsks(result *queue.Result, reports map[string]*status.QueueReport) {
	for _, ask := range result.Asks {
		k := c.catalog.known[types.UID(ask.Gang)]
		if ask.Pause > 0 || k == nil || k.entry == nil || reports[k.entry.queue] == nil {
			continue
		}
		report := reports[k.entry.queue]
		if report.ScaleUp == nil {
			report.ScaleUp = &v1alpha2.QueueScaleUp{}
		}
		report.ScaleUp.MiniClusters++
		report.ScaleUp.Nodes += int32(ask.Nodes)
	}
}

// measured is what the metrics say about the queues after a cycle. Queues that do not exist count together,
// without a name.
func measured(c *cycle, result *queue.Result) map[string]metrics.Queue {
	out := make(map[string]metrics.Queue, len(c.Queues))
	names := make(map[string]bool, len(c.Queues))
	for i := range c.Queues {
		q := &c.Queues[i]
		names[q.Name] = true
		out[q.Name] = metrics.Queue{Waiting: map[elastic.Verdict]int{}, Patience: q.Patience}
	}
	metrics.SetQueues(names)
	for i := range result.Decisions {
		d, name := &result.Decisions[i], c.decidedOn[i].queue
		if !names[name] {
			name = ""
		}
		q := out[name]
		if q.Waiting == nil {
			q.Waiting = map[elastic.Verdict]int{}
		}
		q.Waiting[d.Verdict]++
		if d.Head && d.Verdict != elastic.Admitted {
			q.Blocked = elastic.Earliest(q.Blocked, d.Blocked)
		}
		out[name] = q
	}
	return out
}

// measure is what the metrics say about the cluster; nil before the first cycle, as in a manager that does not lead.
// What MiniClusters hold comes from the cache, because no cycle follows the start of a command.
func (s *Scheduler) measure() *metrics.Cluster {
	out := &metrics.Cluster{Queues: map[string]metrics.Queue{}}
	s.mutex.Lock()
	measured, nodes := s.reports.measured, s.ledger.Usable()
	s.mutex.Unlock()
	var list v1alpha2.MiniClusterList
	if measured == nil || s.Cache.List(context.Background(), &list, index.Live, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for name, q := range measured {
		out.Queues[name] = q
	}
	holds := map[string]bool{} // by node; true if a command runs there
	for i := range list.Items {
		mc := &list.Items[i]
		promise, err := state.PromiseOf(mc)
		if promise == nil || err != nil {
			continue
		}
		name := mc.Status.Queue
		if _, exists := measured[name]; !exists {
			name = ""
		}
		q, runs := out.Queues[name], mc.Status.StartTime != nil
		q.Admitted++
		if brokers := len(promise.Ranks()); runs {
			q.Running += brokers
		} else {
			q.Starting += brokers
		}
		out.Queues[name] = q
		for _, node := range promise.Nodes {
			if node != "" {
				holds[node] = holds[node] || runs
			}
		}
	}
	out.Nodes = nodesOf(nodes, holds)
	return out
}

// nodesOf counts nodes: by whether brokers can use them now, and whether a command runs on those that are held.
func nodesOf(usable, holds map[string]bool) (n metrics.Nodes) {
	for node, up := range usable {
		switch runs, held := holds[node]; {
		case runs:
			n.Running++
		case held:
			n.Starting++
		case up:
			n.Idle++
		default:
			n.Down++
		}
	}
	return n
}
