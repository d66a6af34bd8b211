// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Twenty gangs of 1 to 16 brokers run in a cluster that begins without a node, by Karpenter's NodePool as it is, which is empty
// at the end. The queue asks for no more nodes than it may, beside those that are there. Karpenter may make all of a gang's
// nodes while some are free: it may see ended brokers for longer, or have begun to remove the nodes. Before that, a gang whose
// brokers may share nodes has got one large node for six. Those of the twenty want a node for each broker.
func TestFromZero(t *testing.T) {
	t.Parallel()
	const most = 24
	s := newCluster(t, []localcluster.NodePool{{Name: "any", Types: []string{"standard-8", "standard-48"}}}).newSite(t)
	s.queue("batch", most, nil)

	share := s.create(s.miniCluster("share", "batch").Size(6).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Network.DisableAffinity = true }))
	s.AwaitState(share, v1alpha2.StateRunning)
	if nodes := s.awaitNodes(1); nodes[0].Labels[corev1.LabelInstanceTypeStable] != "standard-48" {
		t.Errorf("six brokers run on a node of type %s", nodes[0].Labels[corev1.LabelInstanceTypeStable])
	}
	s.succeed(share)
	s.awaitNodes(0)

	random := rand.New(rand.NewPCG(24, 1))
	var all []*v1alpha2.MiniCluster
	for i := range 20 {
		w := s.miniCluster(fmt.Sprintf("gang-%02d", i), "batch").Size(1+random.Int32N(16)).PodAnnotation(simulator.Runtime, "2s")
		if i%3 == 0 {
			w = w.Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Placement.Exclusive = true })
		}
		all = append(all, s.create(w))
	}
	for _, mc := range all {
		s.AwaitSuccess(mc)
		s.checkAttempts(mc)
	}
	s.awaitNodes(0)
	harness.Eventually(t, s.nothingAsked)
	s.example()
	if got := mostNodes(s.of.history); got > 2*most {
		t.Errorf("there were %d nodes at once, and the queue may ask for %d", got, most)
	}
}

// example applies the example. Its MiniClusters run, but for the one that never fits.
func (s *site) example() {
	s.T.Helper()
	s.Kubectl("apply", "-f", filepath.Join(env.Root, "examples", "autoscaling"))
	s.made = append(s.made, fixture.Queue("on-demand").New())
	for _, name := range []string{"rigid", "elastic", "packed"} {
		s.AwaitSuccess(s.named(name))
	}
	s.awaitVerdict(s.named("too-large"), v1alpha2.ReasonNeverFits, "no more than 16 nodes")
}

func (s *site) named(name string) *v1alpha2.MiniCluster {
	return fixture.MiniCluster(name).In(s.Namespace).Obj()
}

// mostNodes is how many nodes there were at most at once, without those that were about to go.
func mostNodes(h *harness.History) int {
	there, most := map[string]bool{}, 0
	for _, e := range h.All() {
		if node, ok := e.Object.(*corev1.Node); ok {
			if there[node.Name] = true; e.Gone || state.Going(node) != "" {
				delete(there, node.Name)
			}
			most = max(most, len(there))
		}
	}
	return most
}

// A gang larger than the queue may ask for says so, and runs as soon as the queue may.
func TestLargerThanMaxNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pool(nil)
	q := s.queue("batch", 2, nil)
	mc := s.create(s.miniCluster("large", "batch").Size(3))
	s.awaitVerdict(mc, v1alpha2.ReasonNeverFits, "queue "+q.Name+" may ask for no more than 2 nodes (scaleUp.maxNodes)")
	if err := s.nothingAsked(); err != nil {
		t.Error(err)
	}
	small := s.create(s.miniCluster("small", "batch").Size(2)) // does not wait for it
	s.AwaitState(small, v1alpha2.StateRunning)
	s.succeed(small)
	s.Patch(q, `{"spec":{"scaleUp":{"maxNodes":3}}}`)
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
}

// A NodePool's limit is reached, and the queue does not know the limit. After the timeout an elastic gang starts with the nodes
// that came, a rigid one gives up for a while, and the next one goes on.
func TestLimitOfPool(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pool(func(p *localcluster.NodePool) { p.Limits = map[string]string{"cpu": "16"} })
	q := s.queue("batch", 5, func(up *v1alpha2.ScaleUp) { up.Cooldown = &metav1.Duration{Duration: time.Hour} })

	elastic := s.create(s.miniCluster("elastic", "batch").Size(4).MinSize(2))
	s.awaitNodes(2)
	s.awaitVerdict(elastic, "", "Waits for 2 more nodes (asked ")
	harness.Eventually(t, func() error {
		if got := s.Kubectl("get", "miniclusterqueue", q.Name, "-o", "jsonpath={.status.scaleUp}"); got != `{"miniClusters":1,"nodes":2}` {
			return fmt.Errorf("the status of the queue has %q", got)
		}
		return nil
	})
	s.setTimeout(q, "1s")
	s.Await(elastic, "running with 2 brokers", func(mc *v1alpha2.MiniCluster) bool {
		return harness.State(mc) == v1alpha2.StateRunning && mc.Status.Size == 2
	})

	rigid := s.create(s.miniCluster("rigid", "batch").Size(3))
	s.awaitVerdict(rigid, v1alpha2.ReasonNodesTimedOut, "")
	next := s.create(s.miniCluster("next", "batch").Size(2))
	s.succeed(elastic)
	s.AwaitState(next, v1alpha2.StateRunning)
	s.succeed(next)
}

// Two queues share a NodePool. Each asks for its own gangs, up to its own limit.
func TestTwoQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pool(func(p *localcluster.NodePool) { p.Limits = map[string]string{"cpu": "40"} }) // no node that nobody asked for any more
	s.queue("one", 2, nil)
	s.queue("two", 3, nil)
	first, third := s.create(s.miniCluster("first", "one").Size(2)), s.create(s.miniCluster("third", "two").Size(3))
	s.AwaitState(first, v1alpha2.StateRunning)
	s.AwaitState(third, v1alpha2.StateRunning)
	s.awaitNodes(5)
	second := s.create(s.miniCluster("second", "one").Size(2))
	s.awaitVerdict(second, v1alpha2.ReasonNoRoom, "")
	s.succeed(first)
	s.AwaitState(second, v1alpha2.StateRunning)
	s.succeed(second, third)
}
