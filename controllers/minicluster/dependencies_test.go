// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// indexed gives a fake client the indexes of the cache.
type indexed struct{ *fake.ClientBuilder }

func (i indexed) IndexField(_ context.Context, object client.Object, field string, of client.IndexerFunc) error {
	if _, is := object.(*v1alpha2.MiniCluster); is {
		i.WithIndex(object, field, of)
	}
	return nil
}

func observerOf(t *testing.T, began time.Time, objects ...client.Object) *observer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), indexed{builder}); err != nil {
		t.Fatal(err)
	}
	return &observer{cache: builder.Build(), began: func() time.Time { return began }}
}

func after(name string) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("solve").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.After = []v1alpha2.Dependency{{Name: name, Condition: v1alpha2.DependencySucceeded}}
	})
}

// A MiniCluster that has finished stays until those that wait for it have recorded that, or had a minute for that under this
// manager.
func TestAwaitOthers(t *testing.T) {
	prepare := fixture.MiniCluster("prepare").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj()
	recorded := after("prepare").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.MetDependencies = []v1alpha2.Dependency{{Name: "prepare", Condition: v1alpha2.DependencySucceeded}}
	}).Obj()
	waits := after("prepare").Obj()
	const hour = time.Hour
	for name, tc := range map[string]struct {
		other           *v1alpha2.MiniCluster
		ttl, began, now time.Duration // since its end
		want            time.Duration
	}{
		"it is awaited":                        {waits, 0, -hour, 0, time.Second},
		"it is awaited still":                  {waits, 0, -hour, 59500 * time.Millisecond, state.KnownWithin},
		"for a minute":                         {waits, 0, -hour, state.KnownWithin, 0},
		"it stays anyway":                      {waits, hour, -hour, 0, hour},
		"others know":                          {recorded, 0, -hour, 0, 0},
		"the manager was away":                 {waits, 0, hour, hour, hour + time.Second},
		"the manager was away longer than TTL": {waits, 5 * time.Minute, hour, hour + time.Second, hour + 2*time.Second},
		"the manager has been back":            {waits, 0, hour, hour + state.KnownWithin, 0},
	} {
		ob := observerOf(t, fixture.Noon.Add(tc.began), prepare.DeepCopy(), tc.other.DeepCopy())
		seen := &observed{now: fixture.Noon.Add(tc.now), view: state.View{MiniCluster: prepare}, observation: &life.Observation{}}
		seen.observation.Outcome, seen.observation.Ended, seen.observation.Policy.TTL = life.OutcomeSucceeded, fixture.Noon, &tc.ttl
		if ob.awaitOthers(t.Context(), seen); *seen.observation.Policy.TTL != tc.want {
			t.Errorf("%s: it stays for %s, want %s", name, *seen.observation.Policy.TTL, tc.want)
		}
	}
}

// Who waits for others, or under Kueue for a key, is not in its queue. What is met is to be recorded.
func TestHold(t *testing.T) {
	prepare := fixture.MiniCluster("prepare").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj()
	keyed := func(name string) *fixture.MiniClusterWrapper {
		return fixture.MiniCluster(name).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Singleton = "k" })
	}
	holder := keyed("holder").Admitted(1, 1, "n1").Obj()
	blocked := func(s *v1alpha2.MiniClusterStatus) { s.BlockedSince = new(metav1.NewTime(fixture.Noon)) }
	for name, tc := range map[string]struct {
		mc      *v1alpha2.MiniCluster
		other   *v1alpha2.MiniCluster
		verdict elastic.Verdict
		meets   bool
	}{
		"for one that is not there":      {after("missing").Obj(), prepare, elastic.Dependency, false},
		"for one that has succeeded":     {after("prepare").Obj(), prepare, elastic.Dependency, true},
		"for nothing":                    {fixture.MiniCluster("solve").Obj(), prepare, "", false},
		"for a key, as the queue says":   {keyed("solve").Obj(), holder, "", false},
		"for a key, under Kueue":         {keyed("solve").Label(v1alpha2.KueueQueueLabel, "q").Obj(), holder, elastic.Singleton, false},
		"for another key, under Kueue":   {keyed("solve").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Singleton = "l" }).Label(v1alpha2.KueueQueueLabel, "q").Obj(), holder, "", false},
		"for a key that nobody has more": {keyed("solve").Label(v1alpha2.KueueQueueLabel, "q").Obj(), keyed("other").Obj(), "", false},
	} {
		ob := observerOf(t, fixture.Noon, tc.mc.DeepCopy(), tc.other.DeepCopy())
		blocked(&tc.mc.Status)
		seen := &observed{now: fixture.Noon, view: state.View{MiniCluster: tc.mc}}
		ob.hold(t.Context(), seen)
		if seen.held.Verdict != tc.verdict || seen.meets != tc.meets || (tc.mc.Status.BlockedSince == nil) != (tc.verdict != "") {
			t.Errorf("%s: %+v, %t, blocked since %s", name, seen.held, seen.meets, tc.mc.Status.BlockedSince)
		}
	}
}
