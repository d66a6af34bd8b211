// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// eventStore is an API server for events, whose writes can fail.
type eventStore struct {
	client.Client
	creates int
	fail    error
}

func newEventStore() *eventStore {
	s := &eventStore{}
	s.Client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			s.creates++
			if s.fail != nil {
				return s.fail
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
	return s
}

// events are the notes of the events, in the order of their decisions.
func (s *eventStore) events(t *testing.T) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := s.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var notes []string
	for _, e := range list.Items {
		if e.Regarding.Name != "lmp" || e.Reason == "" || e.Action == "" || e.ReportingInstance == "" {
			t.Errorf("an event says %+v", e)
		}
		notes = append(notes, e.Note)
	}
	return notes
}

// manager is what a manager has of events.
type manager struct {
	*announcer
	memories memories
}

// manager is one that has just started.
func (s *eventStore) manager(at time.Time) *manager {
	return &manager{announcer: newAnnouncer(s, testingclock.NewFakePassiveClock(at))}
}

// ignoreTold receives what the announcer tells the controller, until the returned function is called.
func (r *manager) ignoreTold() (stop func()) {
	go func() {
		for range r.told {
		}
	}()
	return func() { close(r.told) }
}

func decision(number int64, at time.Time, message string) v1alpha2.Decision {
	return v1alpha2.Decision{Number: number, Time: metav1.NewMicroTime(at), Type: "Normal", Reason: "Decided", Message: message}
}

func decided(decisions ...v1alpha2.Decision) *v1alpha2.MiniCluster {
	mc := fixture.MiniCluster("lmp").Obj()
	last := len(decisions) - 1
	mc.Status.PendingEvents, mc.Status.LastDecision = decisions[:last], &decisions[last]
	return mc
}

// tell is a pass that sees a status, and what the announcer does after it.
func tell(t *testing.T, r *manager, mc *v1alpha2.MiniCluster) {
	t.Helper()
	r.announce(mc, r.memories.of(mc))
	for r.queue.Len() > 0 {
		r.sendNext(t.Context())
	}
}

// Every decision gets one event, whoever sends it and how often it is tried, and no pass waits.
func TestAnnounceOnce(t *testing.T) {
	store := newEventStore()
	started, ended := decision(1, fixture.Noon, "started"), decision(2, fixture.Noon.Add(time.Second), "ended")
	want := func(creates int, notes ...string) {
		t.Helper()
		if got := store.events(t); !slices.Equal(got, notes) || store.creates != creates {
			t.Errorf("events %q after %d writes, want %q after %d", got, store.creates, notes, creates)
		}
	}
	r := store.manager(fixture.Noon)
	store.fail = errors.New("away")
	tell(t, r, decided(started))
	want(1)
	if untold := r.untold(decided(started).UID); len(untold) != 1 {
		t.Errorf("untold is %v", untold)
	}
	store.fail = nil
	for range 3 {
		tell(t, r, decided(started)) // nothing new: the announcer tries again by itself
	}
	for len(r.untold(decided(started).UID)) > 0 { // on a slow machine its pause is over already
		r.sendNext(t.Context())
	}
	want(2, "started")
	if untold := r.untold(decided(started).UID); len(untold) != 0 || len(r.byUID) != 0 {
		t.Errorf("untold is %v", untold)
	}
	r = store.manager(fixture.Noon.Add(time.Minute)) // another manager
	tell(t, r, decided(started))
	want(3, "started")
	tell(t, r, decided(ended))
	want(4, "started", "ended")
	r = store.manager(fixture.Noon.Add(time.Hour)) // when the events may be gone
	tell(t, r, decided(ended))
	want(4, "started", "ended")
}

// The decisions of a manager whose clock is behind that of the manager before, or was set back, are told, each once and
// after those before.
func TestAnnounceWhenClocksDiffer(t *testing.T) {
	store := newEventStore()
	at := []time.Time{fixture.Noon, fixture.Noon.Add(-5 * time.Minute), fixture.Noon.Add(-5 * time.Minute), fixture.Noon.Add(-10 * time.Minute)}
	var decisions []v1alpha2.Decision
	for i, at := range at {
		decisions = append(decisions, decision(int64(i+1), at, fmt.Sprint(i)))
	}
	r := store.manager(fixture.Noon)
	tell(t, r, decided(decisions[0]))
	r = store.manager(fixture.Noon.Add(-5 * time.Minute)) // another manager
	defer r.ignoreTold()()
	tell(t, r, decided(decisions[0], decisions[1]))
	tell(t, r, decided(decisions[2]))
	tell(t, r, decided(decisions[3]))
	var list eventsv1.EventList
	if err := store.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, e := range list.Items {
		told[e.Note]++
	}
	if want := map[string]int{"0": 1, "1": 1, "2": 1, "3": 1}; !maps.Equal(told, want) {
		t.Errorf("events %v", told)
	}
}

// A decision of an older version has no number, and its event the name that the older version gave it.
func TestAnnounceUnnumbered(t *testing.T) {
	store := newEventStore()
	pending, last, next := decision(0, fixture.Noon, "pending"), decision(0, fixture.Noon.Add(time.Second), "last"), decision(1, fixture.Noon.Add(2*time.Second), "next")
	old := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("lmp.%x", last.Time.UnixNano())}, EventTime: last.Time, Note: "last"}
	old.Regarding.Name, old.Reason, old.Action, old.ReportingInstance = "lmp", "Decided", "Decide", "old"
	if err := store.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	r := store.manager(fixture.Noon.Add(time.Minute))
	defer r.ignoreTold()()
	tell(t, r, decided(pending, last))
	tell(t, r, decided(next))
	if got := store.events(t); !slices.Equal(got, []string{"pending", "last", "next"}) {
		t.Errorf("events %q", got)
	}
}

// Decisions that were made while events could not be written are told in their order, also by the
// next manager, and the MiniCluster is looked at again because its status lists them.
func TestAnnouncePending(t *testing.T) {
	store := newEventStore()
	store.fail = errors.New("away")
	var decisions []v1alpha2.Decision
	r := store.manager(fixture.Noon.Add(time.Minute))
	for i := range 3 {
		decisions = append(decisions, decision(int64(i), fixture.Noon.Add(time.Duration(i)*time.Second), fmt.Sprint(i)))
		tell(t, r, decided(decisions...))
	}
	if untold := r.untold(decided(decisions...).UID); len(untold) != 3 {
		t.Errorf("untold is %v", untold)
	}
	store.fail = nil
	r = store.manager(fixture.Noon.Add(time.Minute))
	sent := make(chan struct{})
	go func() {
		tell(t, r, decided(decisions...))
		close(sent)
	}()
	if told := <-r.told; told.Object.GetName() != "lmp" {
		t.Errorf("told of %v", told)
	}
	<-sent
	if got := store.events(t); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("events %q", got)
	}
}

// What is kept in memory while events cannot be written is bounded, and an event that is refused,
// or that cannot be written for long, is given up.
func TestAnnounceGivesUp(t *testing.T) {
	store := newEventStore()
	store.fail = errors.New("away")
	r := store.manager(fixture.Noon.Add(time.Hour / 2))
	for i := range 100 {
		tell(t, r, decided(decision(int64(i), fixture.Noon.Add(time.Duration(i)*time.Second), fmt.Sprint(i))))
	}
	uid := fixture.MiniCluster("lmp").Obj().UID
	untold := r.untold(uid)
	if len(untold) != v1alpha2.MostPendingEvents+1 || untold[v1alpha2.MostPendingEvents].Message != "99" {
		t.Errorf("untold is %v", untold)
	}
	r.clock = testingclock.NewFakePassiveClock(fixture.Noon.Add(time.Hour))
	r.sendNext(t.Context())
	if untold := r.untold(uid); len(untold) != 0 {
		t.Errorf("untold is %v", untold)
	}
	store.fail = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("quota"))
	tell(t, r, decided(decision(100, fixture.Noon.Add(time.Hour/2), "refused")))
	if untold := r.untold(uid); len(untold) != 0 {
		t.Errorf("untold is %v", untold)
	}
}
