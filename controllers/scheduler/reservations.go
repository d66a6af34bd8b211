// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// ReservationReconciler records which nodes are reserved, and which MiniClusters are in the way.
type ReservationReconciler struct {
	Client    client.Client
	Scheduler *Scheduler
	Clock     clock.PassiveClock
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterreservations,verbs=get;list;watch
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterreservations/status,verbs=patch

// Reconcile writes the status of one reservation if it changed.
func (r *ReservationReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var made v1alpha2.MiniClusterReservation
	if err := r.Client.Get(ctx, req.NamespacedName, &made); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	report, ok := r.Scheduler.reservation(made.UID)
	if !ok {
		return ctrl.Result{}, nil // no cycle has run since the reservation was made
	}
	updated := made.DeepCopy()
	updated.Status = status.Reservation(&made, report, r.Clock.Now())
	if equality.Semantic.DeepEqual(&made.Status, &updated.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Client.Status().Patch(ctx, updated, client.MergeFrom(&made)); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of reservation %q: %w", made.Name, err)
	}
	return ctrl.Result{}, nil
}

// SetupWithManager registers the reconciler and its watches.
func (r *ReservationReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("reservation").
		For(&v1alpha2.MiniClusterReservation{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Scheduler.mail.reserved, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// reservations are the last cycle's reports on reservations.
type reservations map[types.UID]status.ReservationReport

// reservation is the last cycle's report on a reservation.
func (s *Scheduler) reservation(uid types.UID) (status.ReservationReport, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	report, ok := s.reservations[uid]
	return report, ok
}

// reserves is a reservation that is not over.
type reserves struct {
	ledger.Reservation
	made     *v1alpha2.MiniClusterReservation
	selector labels.Selector
	report   status.ReservationReport
}

// step tells the ledger which nodes are reserved, and chooses nodes for reservations of a number of
// nodes. Nodes that were chosen are assumed until the status shows them. It returns the reports, and
// when a reservation begins or ends next.
func (r reservations) step(c *cycle) (reports reservations, next time.Time) {
	var live []*reserves
	reports = reservations{}
	for _, made := range c.seen.reservations {
		if c.now.Before(made.Spec.Until.Time) {
			live = append(live, r.reservesOf(c, made))
		} else {
			reports[made.UID] = status.ReservationReport{Generation: made.Generation, Phase: v1alpha2.ReservationOver}
		}
	}
	slices.SortFunc(live, func(a, b *reserves) int {
		return cmp.Or(a.made.CreationTimestamp.Compare(b.made.CreationTimestamp.Time), cmp.Compare(a.made.Name, b.made.Name))
	})
	if len(live) > 0 {
		c.lookAt(live)
	}
	all := make([]ledger.Reservation, len(live))
	for i, one := range live {
		all[i], reports[one.made.UID] = one.Reservation, one.report
	}
	return reports, c.ledger.Reserve(all, c.now)
}

// news are the reservations whose report changes.
func (r reservations) news(reports reservations, seen *clusterState) (news []types.NamespacedName) {
	for _, made := range seen.reservations {
		if before, known := r[made.UID]; !known || !reflect.DeepEqual(before, reports[made.UID]) {
			news = append(news, client.ObjectKeyFromObject(made))
		}
	}
	return news
}

// reservesOf reads a reservation. Of a number of nodes it has those that were chosen before.
func (r reservations) reservesOf(c *cycle, made *v1alpha2.MiniClusterReservation) *reserves {
	spec := &made.Spec
	one := &reserves{made: made, Reservation: ledger.Reservation{
		Name: made.Name, Queue: spec.Queue, From: spec.From.Time, Until: spec.Until.Time, Nodes: spec.NodeNames,
	}}
	one.report.Generation, one.report.Phase = made.Generation, v1alpha2.ReservationPending
	if !c.now.Before(one.From) {
		one.report.Phase = v1alpha2.ReservationActive
	}
	if spec.NodeNames != nil {
		one.report.Nodes, one.report.Wanted = c.ledger.Existing(spec.NodeNames), len(spec.NodeNames)
		return one
	}
	var err error
	if one.selector, err = selectorOf(spec.NodeSelector); err != nil {
		one.report.Problem = fmt.Sprintf("nodeSelector is wrong: %v", err)
		return one
	}
	if spec.Count == nil {
		one.Nodes = c.ledger.Selected(one.selector)
		one.report.Nodes, one.report.Wanted = one.Nodes, 1
		return one
	}
	one.report.Nodes, _ = hostlist.Decode(made.Status.Nodes, mostReserved) // nobody else writes the field
	one.report.Wanted = int(*spec.Count)
	if before, known := r[made.UID]; known && before.Phase != v1alpha2.ReservationOver { // the status may not show them yet
		one.report.Nodes = before.Nodes
	}
	return one
}

// mostReserved is the largest count of a reservation.
const mostReserved = 5000

// selectorOf selects nodes by their labels; all nodes if there is no selector.
func selectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// lookAt chooses nodes, and completes the reports with the MiniClusters that stay.
func (c *cycle) lookAt(live []*reserves) {
	asks := map[types.UID]state.Ask{}
	for uid, k := range c.catalog.promised() {
		asks[uid] = c.askOf(k)
	}
	for i, r := range live {
		if r.made.Spec.Count != nil && r.report.Problem == "" {
			before := r.report.Nodes
			if earlier := taken(r, live[:i]); len(earlier) > 0 { // since their times were edited
				before = slices.DeleteFunc(slices.Clone(before), func(name string) bool { return earlier[name] })
			}
			r.report.Nodes = c.ledger.Pick(&r.Reservation, r.report.Wanted, r.selector, before, taken(r, live), asks)
			r.Nodes = r.report.Nodes
		}
		for _, uid := range c.ledger.Staying(&r.Reservation, asks) {
			mc := c.catalog.known[uid].miniCluster
			stays := v1alpha2.StayingMiniCluster{Namespace: mc.Namespace, Name: mc.Name}
			if ends := asks[uid].Ends; !ends.IsZero() {
				stays.Until = &metav1.Time{Time: ends.Truncate(time.Second)}
			}
			r.report.Staying = append(r.report.Staying, stays)
		}
		slices.SortFunc(r.report.Staying, func(a, b v1alpha2.StayingMiniCluster) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
}

// taken are the nodes of other reservations at the same time.
func taken(r *reserves, live []*reserves) map[string]bool {
	taken := map[string]bool{}
	for _, other := range live {
		if other != r && other.Overlaps(&r.Reservation) {
			for _, name := range other.report.Nodes {
				taken[name] = true
			}
		}
	}
	return taken
}
