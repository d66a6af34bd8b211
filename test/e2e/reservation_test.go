// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// reserve creates a reservation of nodes of the site. It is removed when the test ends.
func (s *site) reserve(w *fixture.ReservationWrapper) *v1alpha2.MiniClusterReservation {
	s.t.Helper()
	return s.reserveNodes(w.Select(siteLabel, s.namespace))
}

// reserveNodes creates a reservation. It is removed when the test ends.
func (s *site) reserveNodes(w *fixture.ReservationWrapper) *v1alpha2.MiniClusterReservation {
	s.t.Helper()
	made := w.New()
	if err := env.client.Create(s.ctx, made); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := env.client.Delete(s.ctx, made); err != nil {
			s.t.Error(err)
		}
	})
	return made
}

// awaitReservation waits until the status of a reservation is as it is expected to be.
func (s *site) awaitReservation(made *v1alpha2.MiniClusterReservation, what string, holds func(*v1alpha2.MiniClusterReservationStatus) bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if !holds(&made.Status) {
			return fmt.Errorf("reservation %s is not %s: %+v", made.Name, what, made.Status)
		}
		return nil
	})
}

// awaitNoRoom waits until a MiniCluster waits for a node, and is told why.
func (s *site) awaitNoRoom(mc *v1alpha2.MiniCluster, part string) {
	s.t.Helper()
	s.await(mc, "told "+part, func(mc *v1alpha2.MiniCluster) bool {
		admitted := condition(mc, v1alpha2.ConditionAdmitted)
		return admitted.Reason == v1alpha2.ReasonNoRoom && strings.Contains(admitted.Message, part)
	})
}

// Before maintenance only what ends by then starts, meanwhile nothing, and afterwards everything. What
// runs goes on.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	stays := s.create(s.miniCluster("stays").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(stays, v1alpha2.StateRunning)

	began := stays.CreationTimestamp.Time
	from := began.Add(10 * time.Hour)
	maintenance := s.reserve(fixture.Reservation(s.namespace, from, from.Add(time.Hour)))
	s.awaitReservation(maintenance, "pending, with one that stays", func(r *v1alpha2.MiniClusterReservationStatus) bool {
		return r.Phase == v1alpha2.ReservationPending && r.Size == 2 && r.Staying == 1 && r.StayingMiniClusters[0].Name == "stays" &&
			r.StayingMiniClusters[0].Until == nil && meta.IsStatusConditionFalse(r.Conditions, v1alpha2.ConditionClear)
	})
	endless := s.create(s.miniCluster("endless"))
	s.awaitNoRoom(endless, "reserved from")
	s.patch(queueOf(s), `{"spec":{"backfill":"EASY"}}`)
	s.awaitSuccess(s.create(s.miniCluster("short").Deadline(3600)))

	s.patch(maintenance, `{"spec":{"from":%q}}`, began.Add(-time.Minute).Format(time.RFC3339))
	s.awaitReservation(maintenance, "active", func(r *v1alpha2.MiniClusterReservationStatus) bool {
		return r.Phase == v1alpha2.ReservationActive && r.Staying == 1
	})
	s.awaitNoRoom(endless, "reserved until")
	if s.get(stays); state(stays) != v1alpha2.StateRunning {
		t.Errorf("what ran before is %s", state(stays))
	}

	s.patch(maintenance, `{"spec":{"until":%q}}`, began.Add(30*time.Second).Format(time.RFC3339))
	s.awaitReservation(maintenance, "over", func(r *v1alpha2.MiniClusterReservationStatus) bool { return r.Phase == v1alpha2.ReservationOver })
	s.awaitSuccess(endless)
	if endless.Status.Admission.Time.Before(&maintenance.Spec.Until) {
		t.Errorf("it got nodes at %s, and they were reserved until %s", endless.Status.Admission.Time, maintenance.Spec.Until)
	}
	s.endCommand(stays)
	s.awaitSuccess(stays)
}

// The scheduler chooses nodes that are free, and only the queue of the reservation gets them.
func TestReservationOfAQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	busy := s.create(s.miniCluster("busy").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(busy, v1alpha2.StateRunning)
	from := busy.CreationTimestamp.Add(-time.Hour)
	course := s.reserve(fixture.Reservation(s.namespace, from, from.Add(24*time.Hour)).Queue(v1alpha2.DefaultQueue).Count(2))
	s.awaitReservation(course, "having two nodes", func(r *v1alpha2.MiniClusterReservationStatus) bool {
		return r.Phase == v1alpha2.ReservationActive && r.Size == 2 && r.Staying == 0
	})
	nodes, err := hostlist.Decode(course.Status.Nodes, 2)
	if err != nil || slices.Contains(nodes, busy.Status.Admission.Nodes) {
		t.Errorf("%v (%v) are reserved, and %s is in use", nodes, err, busy.Status.Admission.Nodes)
	}
	others := s.create(s.miniCluster("others").Deadline(3600))
	s.awaitNoRoom(others, "2 reserved until")
	ours := s.create(s.miniCluster("ours").Size(2).Queue(v1alpha2.DefaultQueue))
	s.awaitSuccess(ours)
	s.endCommand(busy)
	s.awaitSuccess(busy)
	s.awaitSuccess(others) // on the node that is not reserved
}
