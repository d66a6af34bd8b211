// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// createWithPriority creates a MiniCluster in a LocalQueue, with a WorkloadPriorityClass.
func (s *site) createWithPriority(name string, size int32, queue, class string) *v1alpha2.MiniCluster {
	s.T.Helper()
	mc := s.miniCluster(name).Size(size).New()
	mc.Namespace = s.Namespace
	mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: queue, v1alpha2.KueuePriorityLabel: class}
	s.Create(mc)
	return mc
}

// awaitAgain waits until a MiniCluster runs again that has ended once.
func (s *site) awaitAgain(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	s.Await(mc, "running again", func(mc *v1alpha2.MiniCluster) bool {
		return harness.State(mc) == v1alpha2.StateRunning && len(mc.Status.Attempts) == 1
	})
}

// Kueue preempts for a WorkloadPriorityClass. The command ends, pods go, and only then the other gets
// the quota. The preempted MiniCluster runs again after it.
func TestPreemptedByPriority(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]bool{"with the check": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			options := []option{preempting}
			if check {
				options = append(options, s.withPlacement())
			}
			s.newQueue("team", 24, options...)
			low := s.create(s.miniCluster("low").Size(3), "team")
			s.AwaitState(low, v1alpha2.StateRunning)
			workload := s.workloadOf(low)
			urgent := s.createWithPriority("urgent", 2, "team", s.newPriority("high", 100))
			s.AwaitState(urgent, v1alpha2.StateRunning)
			if c := s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue); c.Reason != kueueapi.WorkloadEvictedByPreemption {
				t.Errorf("it is evicted because of %s", c.Reason)
			}
			s.awaitWaiting(low, "couldn't assign flavors to pod set")
			later := s.create(s.miniCluster("later").Size(3), "team") // the preempted one keeps its place
			s.awaitWaiting(later, "queue \"team\"")
			s.succeed(urgent)
			s.awaitAgain(low)
			s.succeed(low)
			s.AwaitState(later, v1alpha2.StateRunning)
		})
	}
}

// A ClusterQueue borrows in its cohort, and the other takes its quota back.
func TestReclaimWithinCohort(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	s.newCohort("all")
	placement := s.withPlacement()
	s.newQueue("lender", 16, inCohort("all"), reclaiming, placement)
	s.newQueue("borrower", 16, inCohort("all"), reclaiming, placement)
	small := s.create(s.miniCluster("small").Size(1), "borrower")
	s.AwaitState(small, v1alpha2.StateRunning)
	borrows := s.create(s.miniCluster("borrows").Size(3), "borrower")
	s.AwaitState(borrows, v1alpha2.StateRunning)
	owner := s.create(s.miniCluster("owner").Size(2), "lender")
	s.AwaitState(owner, v1alpha2.StateRunning)
	s.awaitWaiting(borrows, "")
	s.AwaitState(small, v1alpha2.StateRunning)
	if len(small.Status.Attempts) > 0 {
		t.Error("Kueue took more than it needs")
	}
	s.succeed(owner)
	s.awaitAgain(borrows)
	s.succeed(borrows)
}

// Two LocalQueues of a cohort share fairly: the one that has more gives back what is above its share.
func TestFairSharing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n")
	s := c.newSite(t, 4)
	s.newCohort("fair")
	s.newQueue("shared", 32, inCohort("fair"))
	s.newQueue("first", 0, inCohort("fair"), reclaiming)
	s.newQueue("second", 0, inCohort("fair"), reclaiming)
	create := func(name string, n int, queue string) (made []*v1alpha2.MiniCluster) {
		for i := range n {
			made = append(made, s.create(s.miniCluster(name+strconv.Itoa(i)), queue))
		}
		return made
	}
	greedy := create("greedy", 4, "first")
	s.awaitRunning(greedy, 4)
	modest := create("modest", 3, "second")
	s.awaitRunning(modest, 2)
	s.awaitRunning(greedy, 2)
	all := slices.Concat(greedy, modest)
	for len(all) > 0 {
		running := s.awaitRunning(all, min(len(all), 4))[0]
		s.succeed(running)
		all = slices.DeleteFunc(all, func(mc *v1alpha2.MiniCluster) bool { return mc == running })
	}
}

// awaitRunning waits until so many of some MiniClusters run, and returns these.
func (s *site) awaitRunning(mcs []*v1alpha2.MiniCluster, want int) []*v1alpha2.MiniCluster {
	s.T.Helper()
	var running []*v1alpha2.MiniCluster
	harness.Eventually(s.T, func() error {
		running = nil
		for _, mc := range mcs {
			if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
				return harness.Final(err)
			}
			if harness.State(mc) == v1alpha2.StateRunning {
				running = append(running, mc)
			}
		}
		if len(running) != want {
			return fmt.Errorf("%d of %d run, want %d", len(running), len(mcs), want)
		}
		return nil
	})
	return running
}
