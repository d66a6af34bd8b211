// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// scaled is a running launcher in an idle cluster, which an autoscaler scales.
type scaled struct {
	*testing.T
	mc             *v1alpha2.MiniCluster
	published      int
	publishedDrain []int
	now            time.Time
}

func newScaled(t *testing.T, size, most int32, grow bool) *scaled {
	t.Helper()
	w := fixture.MiniCluster("flow").Size(size).MaxSize(most).Launcher().Admitted(1, size, fmt.Sprintf("n[0-%d]", size-1))
	w.Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Wanted, s.MaximumSize, s.StartTime = size, most, &metav1.Time{Time: fixture.Noon}
		s.Size = size
	})
	mc := w.Defaulted()
	mc.Spec.Elastic.Grow = grow
	return &scaled{T: t, mc: mc, now: fixture.Noon.Add(time.Hour)}
}

// observe is what a pass observes if every broker with a node is up, and has no work once it is
// asked to leave. All nodes are idle: the scheduler orders as much growth as it may.
func (s *scaled) observe() *life.Observation {
	o, err := state.Observe(state.View{MiniCluster: s.mc, Node: func(string) *corev1.Node { return nil }})
	if err != nil {
		s.Fatal(err)
	}
	promise, err := state.PromiseOf(s.mc)
	if err != nil {
		s.Fatal(err)
	}
	o.Workload, o.Published, o.PublishedDrain = life.Active, s.published, s.publishedDrain
	var free []int
	for rank := range o.Brokers {
		if o.Brokers[rank] = (life.Broker{}); !promise.Holds(rank) {
			free = append(free, rank)
			continue
		}
		o.Brokers[rank] = life.Broker{State: life.Up, Bound: true, Ready: true, ReadySince: fixture.Noon, Since: fixture.Noon, Placed: fixture.Noon}
	}
	for _, rank := range promise.Draining {
		o.Brokers[rank].Ready, o.Brokers[rank].Idle = false, true
	}
	running := state.Running(s.mc, fixture.Pod("p").Obj(), promise)
	var order elastic.Grow
	for n := len(running.Ranks); n < running.Max && len(promise.Draining) == 0; n++ {
		rank := len(o.Brokers) + n - len(running.Ranks) - len(free)
		if i := n - len(running.Ranks); i < len(free) {
			rank = free[i]
		}
		order.Pods = append(order.Pods, elastic.Pod{Rank: rank, Node: fmt.Sprint("n", rank)})
	}
	if len(order.Pods) > 0 {
		o.Order = order
	}
	return o
}

// pass decides once. It reports whether something was done.
func (s *scaled) pass() bool {
	o := s.observe()
	plan := life.Decide(o, s.now)
	if step, publishes := plan.Step.(life.Publish); publishes {
		s.published, s.publishedDrain = step.Quorum, step.Leaving
	}
	s.mc.Status = Compute(Input{MiniCluster: s.mc, Observation: o, Plan: plan, Check: Check{Reason: v1alpha2.ReasonValid}, Now: s.now})
	s.now = s.now.Add(time.Second)
	_, waits := plan.Step.(life.Wait)
	return !waits
}

// autoscale sets the size as the HorizontalPodAutoscaler does for a load that all brokers share, of
// which one broker takes 1: by the pods that there are. If these suit the load, it wants the size
// that is set, or for an external metric as many brokers as there are. It reports whether it wrote
// the size.
func (s *scaled) autoscale(load float64, external bool) bool {
	pods := float64(s.mc.Status.Size)
	want := s.mc.Spec.Size
	if external {
		want = s.mc.Status.Size
	}
	if math.Abs(load/pods-1) > 0.1 {
		want = min(max(int32(math.Ceil(load/pods*pods)), 1), s.mc.Spec.MaxSize)
	}
	before := s.mc.Spec.Size
	s.mc.Spec.Size = want
	return before != want
}

// An autoscaler and the scheduler come to rest, whoever is first: without growth the size alone
// counts, and with growth it does once the autoscaler has set one.
func TestAutoscalerAndGrowthComeToRest(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 29))
		size := 1 + random.Int32N(6)
		s := newScaled(t, size, size+random.Int32N(4), seed%2 == 0)
		written := false
		for range 4 {
			load, writes, rested := float64(1+random.IntN(10)), 0, false
			for range 40 {
				before := s.mc.Spec.Size
				if rested = !s.pass(); s.mc.Spec.Size != before {
					t.Fatalf("seed %d: the controller set the size", seed)
				}
				if s.autoscale(load, seed%3 == 0) {
					writes++
					rested, written = false, true
				}
				if rested {
					break
				}
			}
			most := s.mc.Spec.Size
			if s.mc.Spec.Elastic.Grow && !written {
				most = s.mc.Spec.MaxSize
			}
			if !rested || writes > 1 || s.mc.Status.Size != most {
				t.Fatalf("seed %d, load %v: it rests: %t, after %d writes, with %d brokers, size %d, grow %t", seed, load, rested, writes, s.mc.Status.Size, s.mc.Spec.Size, s.mc.Spec.Elastic.Grow)
			}
		}
	}
}
