// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Nothing is made for a MiniCluster that is gone, as long as the cache shows it.
func TestReconcileOneThatIsGone(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Obj()
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha2.AddToScheme(scheme))
	r := &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc).Build(), Clock: testingclock.NewFakePassiveClock(fixture.Noon.Add(10 * time.Second)),
		parts: parts{memories: &memories{}}, // without the parts that a pass needs
	}
	r.memories.of(mc).status.gone = fixture.Noon
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
	if want := behindFor - 10*time.Second; err != nil || result.RequeueAfter != want {
		t.Errorf("it is looked at again after %s (%v), want %s", result.RequeueAfter, err, want)
	}
}

// A MiniCluster is forgotten once it has finished and nothing is left to do or to tell.
func TestIsOver(t *testing.T) {
	ended := life.Record{Outcome: life.OutcomeSucceeded}
	for name, tc := range map[string]struct {
		o       life.Observation
		step    life.Step
		pending []v1alpha2.Decision
		want    bool
	}{
		"it runs":                     {o: life.Observation{}, step: life.Wait{}},
		"it finishes now":             {o: life.Observation{}, step: life.Finish{}},
		"its followers still end":     {o: life.Observation{Record: ended, Occupied: 1}, step: life.Wait{}},
		"followers' pods still exist": {o: life.Observation{Record: ended, Done: 1}, step: life.Wait{}},
		"they are deleted now":        {o: life.Observation{Record: ended}, step: life.Tidy{}},
		"an event is pending":         {o: life.Observation{Record: ended}, step: life.Wait{}, pending: []v1alpha2.Decision{{}}},
		"it only waits":               {o: life.Observation{Record: ended}, step: life.Wait{}, want: true},
	} {
		stored := &v1alpha2.MiniCluster{}
		stored.Status.PendingEvents = tc.pending
		if got := isOver(&observed{observation: &tc.o, stored: stored}, life.Plan{Step: tc.step}); got != tc.want {
			t.Errorf("%s: over is %v", name, got)
		}
	}
}

// The lead tells by its readiness what its command does. What other containers of its pod do to the readiness of the pod
// tells nothing.
func TestNoteLead(t *testing.T) {
	at := func(minutes int) time.Time { return fixture.Noon.Add(time.Duration(minutes) * time.Minute) }
	ready := func(since int) protocol.Pod {
		return protocol.Pod{Broker: life.Broker{Ready: true, ReadySince: at(since)}}
	}
	down := func(since int) protocol.Pod { return protocol.Pod{DownSince: at(since)} }
	beside := func(p protocol.Pod) protocol.Pod { // another container has been started again
		p.Shared = true
		return p
	}
	torn := protocol.Pod{Broker: life.Broker{Ready: true}, DownSince: at(5), Shared: true} // another container is not ready
	for name, tc := range map[string]struct {
		looks    []protocol.Pod // one each minute, from the tenth on
		recorded time.Time
		since    time.Time
		down     time.Time
	}{
		"ready":                              {looks: []protocol.Pod{ready(3)}, since: at(3)},
		"not ready, and again":               {looks: []protocol.Pod{ready(3), down(11), ready(12)}, since: at(12), down: at(11)},
		"not ready for a moment, unseen":     {looks: []protocol.Pod{ready(3), ready(11)}, since: at(11)},
		"another container is down":          {looks: []protocol.Pod{ready(3), torn}, since: at(3)},
		"another container came back":        {looks: []protocol.Pod{ready(3), torn, beside(ready(12))}, since: at(3)},
		"another container came back unseen": {looks: []protocol.Pod{ready(3), beside(ready(11))}, since: at(3)},
		"another container, without a trace": {looks: []protocol.Pod{ready(3), torn, ready(12)}, since: at(3)},
		"the lead, beside another container": {looks: []protocol.Pod{ready(3), torn, beside(down(5)), torn}, since: at(13), down: at(12)},
		"it stays not ready":                 {looks: []protocol.Pod{torn, beside(down(5)), beside(down(5))}, since: time.Time{}, down: at(11)},
		"a new manager sees nothing new":     {looks: []protocol.Pod{beside(ready(9))}, recorded: at(3), since: at(3)},
		"a new manager sees it first":        {looks: []protocol.Pod{torn}, since: at(10)},
		"a new manager, and no other":        {looks: []protocol.Pod{ready(9)}, recorded: at(3), since: at(9)},
	} {
		var m memory
		var got time.Time
		for i, lead := range tc.looks {
			lead.Pod = fixture.BrokerPod("lmp", 0).Obj()
			m.noteLead(&lead, tc.recorded, at(10+i).Add(time.Millisecond))
			got = lead.Broker.ReadySince
		}
		if !got.Equal(tc.since) || !m.lead.down.Equal(tc.down) {
			t.Errorf("%s: ready since %s, down at %s; want %s, %s", name, got, m.lead.down, tc.since, tc.down)
		}
	}
}
