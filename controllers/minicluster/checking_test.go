// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Namespaces in which checks are slow get few workers, all of them half, and others any number.
func TestSlowChecks(t *testing.T) {
	const workers = 16
	var c checking
	now := fixture.Noon
	begin := func(namespace string, want int) {
		t.Helper()
		for got := 0; ; got++ {
			if may, _ := c.begin(namespace, workers, now); got == 2*workers || !may {
				if got != want {
					t.Errorf("%s has %d checks at once, want %d", namespace, got, want)
				}
				return
			}
		}
	}
	end := func(namespace string, took time.Duration) {
		t.Helper()
		for c.running[namespace] > 0 {
			c.end(namespace, took, now)
		}
	}
	begin("fast", 2*workers)
	end("fast", slowCheck-1)
	begin("fast", 2*workers)
	end("fast", 0)
	slow := []string{"a", "b", "c", "d", "e"}
	for _, namespace := range slow {
		begin(namespace, 2*workers) // nobody knows that yet
		end(namespace, slowCheck)
	}
	for i, namespace := range slow {
		begin(namespace, []int{2, 2, 2, 2, 0}[i])
	}
	begin("fast", 2*workers)
	now = now.Add(slowFor)
	begin("a", 2*workers)
	for _, namespace := range append(slow, "fast") {
		end(namespace, 0)
	}
	begin("a", 2*workers)
	end("a", 0)
	if len(c.running)+len(c.slow) > 0 {
		t.Errorf("%v are under way, %v are slow", c.running, c.slow)
	}
}

// A worker does not wait for a check in a namespace that has enough of slow ones under way, and is free for other namespaces.
func TestWorkersAreFree(t *testing.T) {
	now := testingclock.NewFakePassiveClock(fixture.Noon)
	hangs, hung := make(chan struct{}), make(chan struct{}, 1)
	api := interceptor.NewClient((&written{}).newClient(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if object.GetNamespace() == "slow" && len(hung) == 0 {
				hung <- struct{}{}
				<-hangs
			}
			return nil
		},
	})
	c := &checker{client: api, live: live{api}, clock: now, scheduler: &waitingRoom{}, memories: &memories{}, relaxed: make(relaxed, 1), workers: 8}
	c.checking.slow = map[string]time.Time{"slow": now.Now().Add(slowFor)}
	check := func(namespace, name string, admission *life.Admission) (string, error) {
		mc := fixture.MiniCluster(name).Size(2).Obj()
		mc.Namespace = namespace
		seen := &observed{now: now.Now(), memory: &memory{}, stored: mc, observation: &life.Observation{Workload: life.Absent, Record: life.Record{Admission: admission}}}
		seen.view.MiniCluster = mc.DeepCopy()
		seen.view.MiniCluster.Default()
		err := c.check(t.Context(), seen)
		return seen.memory.check.unchecked, err
	}
	ended := make(chan error)
	go func() {
		_, err := check("slow", "one", nil)
		ended <- err
	}()
	<-hung
	hung <- struct{}{}
	for _, tc := range []struct {
		namespace, name string
		admission       *life.Admission
		unchecked       bool
	}{
		{namespace: "slow", name: "second", unchecked: true},
		{namespace: "slow", name: "with-nodes", admission: &life.Admission{}},
		{namespace: "lab", name: "lmp"},
	} {
		if why, err := check(tc.namespace, tc.name, tc.admission); (why != "") != tc.unchecked || err != nil {
			t.Errorf("%s of namespace %s: %q, %v", tc.name, tc.namespace, why, err)
		}
	}
	close(hangs)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if why, err := check("slow", "second", nil); why != "" || err != nil {
		t.Errorf("the second, after the first: %q, %v", why, err)
	}
}

// No worker is long in a namespace whose checks were not slow so far, and a check of a slow namespace may take its time.
func TestLongChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c checking
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				result, err := c.do(t.Context(), "slow", 16, clock.RealClock{}, func(ctx context.Context) (*check, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
				if err != nil || result.unchecked == "" {
					t.Errorf("got %+v, %v", result, err)
				}
			})
		}
		time.Sleep(longestCheck)
		group.Wait()
		result, err := c.do(t.Context(), "slow", 16, clock.RealClock{}, func(ctx context.Context) (*check, error) {
			time.Sleep(2 * longestCheck)
			return &check{}, ctx.Err()
		})
		if err != nil || result.unchecked != "" {
			t.Errorf("later: got %+v, %v", result, err)
		}
	})
}
