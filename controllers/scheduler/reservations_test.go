// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// reservation begins one, which begins in so many minutes and lasts an hour.
func (q *toy) reservation(name string, minutes int) *fixture.ReservationWrapper {
	from := q.now.Add(time.Duration(minutes) * time.Minute)
	return fixture.Reservation(name, from, from.Add(time.Hour))
}

// record writes the report on a reservation to its status, as its controller does.
func (q *toy) record(made *v1alpha2.MiniClusterReservation) v1alpha2.MiniClusterReservationStatus {
	q.t.Helper()
	report, ok := q.Scheduler.reservation(made.UID)
	if !ok {
		q.t.Fatalf("there is no report on %s", made.Name)
	}
	made.Status = status.Reservation(made, report, q.now)
	return made.Status
}

// lasting ends after so many minutes, a minute to start and a minute to end.
func lasting(name string, minutes int64) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster(name).Deadline(minutes * 60).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.StartTimeout = &metav1.Duration{Duration: time.Minute}
	})
}

// Gangs of one class that differ in their time limits or queues get different nodes.
func TestSchedulerKeepsReservedNodes(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	course := strict("course")
	course.Spec.Priority = -1 // goes last
	q.seen.queues = append(q.seen.queues, course)
	q.seen.reservations = append(q.seen.reservations, q.reservation("course", 60).Queue("course").Nodes("a", "b").Obj())
	endless, long := fixture.MiniCluster("endless").Created(fixture.Noon), lasting("long", 59).Created(fixture.Noon.Add(time.Minute))
	short, ours := lasting("short", 58).Queue("other"), fixture.MiniCluster("ours").Queue("course")
	for _, w := range []*fixture.MiniClusterWrapper{endless, long, short, ours} {
		q.offer(w)
	}
	q.cycle()
	q.expect(endless, elastic.Admitted, "c")
	q.expect(long, elastic.NoRoom)
	q.expect(short, elastic.Admitted, "a")
	q.expect(ours, elastic.Admitted, "b")
	if message := q.offer(long).Message; !strings.Contains(message, "2 reserved from 2026-11-21T14:00:00Z (course)") {
		t.Errorf("long waits because %q", message)
	}
}

// A cycle is due when a reservation begins, when the head of a queue loses nodes to it, and when it is over.
func TestSchedulerLooksAtReservationsAgain(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.ledger.SetPod(fixture.Pod("foreign").CPU("8").On("a").Obj())
	made := q.reservation("maintenance", 60).Nodes("a", "b").Obj()
	q.seen.reservations = append(q.seen.reservations, made)
	head := lasting("head", 28).Size(2)
	q.offer(head)
	for _, want := range []time.Time{
		q.now.Add(30*time.Minute + time.Millisecond), made.Spec.From.Time, made.Spec.Until.Time,
	} {
		q.cycle()
		q.expect(head, elastic.NoRoom)
		if !q.due.lookAgain.Equal(want) {
			t.Errorf("at %s the next look is at %s, want %s", q.now, q.due.lookAgain, want)
		}
		q.now = want
	}
	q.ledger.DeletePod(fixture.Pod("foreign").Obj().UID)
	q.cycle()
	q.expect(head, elastic.Admitted, "a", "b")
}

// Others of a queue may use what its head loses to a reservation.
func TestSchedulerBackfillsBeforeAReservation(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.seen.queues = []*v1alpha2.MiniClusterQueue{fixture.Queue("default").Backfill(v1alpha2.BackfillEASY).Patience(0).Obj()}
	endless := fixture.MiniCluster("endless").Admitted(1, 1, "a").Obj()
	q.seen.miniClusters = append(q.seen.miniClusters, endless)
	q.seen.reservations = append(q.seen.reservations, q.reservation("maintenance", 60).Nodes("b").Obj())
	head, small := lasting("head", 28).Size(2).Created(fixture.Noon), lasting("small", 10).Created(fixture.Noon.Add(time.Minute))
	q.offer(head)
	q.offer(small)
	q.cycle()
	q.expect(small, elastic.WaitingForTurn) // b is kept for the head
	q.now = q.due.lookAgain
	q.cycle()
	q.expect(head, elastic.NoRoom)
	q.expect(small, elastic.Admitted, "b")
}

// Nodes that were chosen count at once, and a restart chooses no others.
func TestSchedulerChoosesNodesToReserve(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	for node, w := range map[string]*fixture.MiniClusterWrapper{"a": fixture.MiniCluster("endless"), "b": lasting("soon", 30)} {
		q.seen.miniClusters = append(q.seen.miniClusters, w.Admitted(1, 1, node).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Time = metav1.NewTime(q.now)
		}).Obj())
	}
	made, other := q.reservation("one", 60).Count(2).Obj(), q.reservation("two", 90).Count(1).Obj()
	q.seen.reservations = []*v1alpha2.MiniClusterReservation{other, made}
	next := fixture.MiniCluster("next")
	q.offer(next)
	q.cycle()
	q.expect(next, elastic.NoRoom)
	if got := q.record(made); got.Nodes != "b,c" {
		t.Errorf("one has %s", got.Nodes)
	}
	if got := q.record(other); got.Nodes != "a" || got.Staying != 1 {
		t.Errorf("two has %s", got.Nodes)
	}

	// After a restart other nodes are free, but the choice stays.
	restarted := newQueue(t, "a", "b", "c", "d", "e")
	restarted.seen.reservations = []*v1alpha2.MiniClusterReservation{other, made}
	restarted.offer(next)
	restarted.cycle()
	restarted.expect(next, elastic.Admitted, "d")
	if got := restarted.record(made); got.Nodes != "b,c" {
		t.Errorf("after a restart, one has %s", got.Nodes)
	}

	// A node that is gone is replaced, by none of another reservation.
	restarted.deleteNode(fixture.Node("b").Obj())
	if !restarted.due.changed {
		t.Error("no cycle is asked for")
	}
	restarted.cycle()
	if got := restarted.record(made); got.Nodes != "c,e" {
		t.Errorf("without b, one has %s", got.Nodes)
	}
}

func TestSchedulerReportsReservations(t *testing.T) {
	q := newQueue(t, "a", "b")
	wrong := q.reservation("wrong", 60).Obj()
	wrong.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	made, missing := q.reservation("maintenance", 60).Select("kubernetes.io/hostname", "a").Obj(), q.reservation("missing", 60).Nodes("b", "x").Obj()
	q.seen.reservations = []*v1alpha2.MiniClusterReservation{made, wrong, missing}
	q.seen.miniClusters = append(q.seen.miniClusters, fixture.MiniCluster("endless").Admitted(1, 1, "a").Obj())
	check := func(what string, phase v1alpha2.ReservationPhase, staying int32) {
		t.Helper()
		q.cycle()
		if got := q.record(made); got.Phase != phase || got.Nodes != "a" || got.Staying != staying {
			t.Errorf("%s: %+v", what, got)
		}
	}
	check("before", v1alpha2.ReservationPending, 1)
	if got := q.record(wrong).Conditions[0]; got.Reason != v1alpha2.ReasonBadSelector || q.record(wrong).Size != 0 {
		t.Errorf("the wrong one says %+v", got)
	}
	if got := q.record(missing).Conditions[0]; got.Message != "1 of 2 nodes are found" {
		t.Errorf("the one of a node that is missing says %+v", got)
	}
	q.now = made.Spec.From.Time
	check("meanwhile", v1alpha2.ReservationActive, 1)
	q.now = made.Spec.Until.Time
	check("after", v1alpha2.ReservationOver, 0)
}

// Each reservation is told of once, until its report changes.
func TestSchedulerTellsReservations(t *testing.T) {
	q := newQueue(t, "a")
	made := q.reservation("maintenance", 60).Nodes("a").Obj()
	q.seen.reservations = append(q.seen.reservations, made)
	for _, tc := range []struct {
		at   time.Time
		want int
	}{{q.now, 1}, {q.now, 0}, {made.Spec.From.Time, 1}, {made.Spec.Until.Time, 1}, {made.Spec.Until.Time, 0}} {
		reports, _ := q.reservations.step(newCycle(q.parts, &q.seen, tc.at))
		told := q.reservations.news(reports, &q.seen)
		q.reservations = reports
		if len(told) != tc.want {
			t.Errorf("at %s told of %v", tc.at, told)
		}
	}
}

// A gang that runs gets no other node for a rank, and does not grow, where it could run for too long.
func TestSchedulerMovesBesideReservations(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int64
		want  []string
	}{"without a time limit": {0, nil}, "with a short one": {30, []string{"b"}}} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b")
			q.seen.reservations = append(q.seen.reservations, q.reservation("maintenance", 60).Nodes("b").Obj())
			w := lasting("lmp", tc.limit).Admitted(1, 1, "a").Status(func(s *v1alpha2.MiniClusterStatus) { s.Admission.Time = metav1.NewTime(q.now) })
			q.seen.miniClusters = append(q.seen.miniClusters, w.Obj())
			q.Order(w.Obj(), wholeNode, []int{0})
			q.cycle()
			move, _ := q.Order(w.Obj(), wholeNode, []int{0}).(elastic.Move)
			var nodes []string
			for _, pod := range move.Pods {
				nodes = append(nodes, pod.Node)
			}
			if !slices.Equal(nodes, tc.want) {
				t.Errorf("it moves to %v, want %v", nodes, tc.want)
			}
		})
	}
}

// A gang that was just admitted ends by the deadline of its queue, before its status says so.
func TestAssumedGangsEndByTheirQueue(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.setDeadlines(10*time.Minute, 0)
	q.seen.reservations = append(q.seen.reservations, q.reservation("m", 60).Nodes("a", "b").Obj())
	mc := fixture.MiniCluster("mine").Size(1)
	q.offer(mc)
	q.cycle()
	q.expect(mc, elastic.Admitted, "a")
	q.cycle()
	if report, _ := q.Scheduler.reservation(q.seen.reservations[0].UID); len(report.Staying) > 0 {
		t.Errorf("%+v stay", report.Staying)
	}
}

// A gang does not hold out for more nodes beyond the last time at which it may start before a reservation.
func TestReservationsEndHoldingOut(t *testing.T) {
	for name, tc := range map[string]struct {
		in   int // minutes until the maintenance
		want elastic.Verdict
	}{"maintenance is near": {63, elastic.Admitted}, "there is none": {0, elastic.WaitingForSize}} {
		q := newQueue(t, "a", "b", "c", "d")
		if tc.in > 0 {
			q.seen.reservations = append(q.seen.reservations, q.reservation("maintenance", tc.in).Nodes("a", "b", "c", "d").Obj())
		}
		began := metav1.NewTime(q.now.Add(-25 * time.Minute))
		q.seen.miniClusters = append(q.seen.miniClusters, lasting("r", 30).Size(2).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Time, s.StartTime = began, &began
		}).Obj())
		w := lasting("w", 60).Size(4).MinSize(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Elastic.ExpectedRuntime = &metav1.Duration{Duration: 25 * time.Minute}
		})
		q.offer(w)
		q.cycle()
		if got := q.offer(w); got.Verdict != tc.want {
			t.Errorf("%s: %s (%s)", name, got.Verdict, got.Message)
		}
	}
}

// Reservations that overlap since one of them was edited have different nodes: the later one chooses others.
func TestSchedulerChoosesNodesAgain(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	one, two := q.reservation("one", 60).Count(2).Obj(), q.reservation("two", 120).Count(2).Obj()
	q.seen.reservations = append(q.seen.reservations, one, two)
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}} {
		q.cycle()
		if got := q.record(one).Nodes; got != "a,b" {
			t.Errorf("the first has %s", got)
		}
		if got := q.record(two).Nodes; got != strings.Join(want, ",") {
			t.Errorf("the second has %s, want %v", got, want)
		}
		one.Spec.Until = metav1.NewTime(one.Spec.Until.Add(time.Hour))
	}
}
