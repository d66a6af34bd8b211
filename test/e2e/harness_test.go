// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// site is a part of the cluster that a test has for itself: a namespace, a queue
// and some nodes.
type site struct {
	shared    *harness.Site
	t         *testing.T
	ctx       context.Context // outlives the test, for what it cleans up
	namespace string
	nodes     []string
}

const siteLabel = harness.SiteLabel

// newSite takes nodes for a test, which must be free. They are given back, and what
// the test made is removed, when it ends.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	operate(t, false)
	s := takeSite(t, nodes)
	select {
	case <-env.manager.Done: // stopped by the test
	default:
		s.awaitNodes(nodes)
	}
	return s
}

// newOwnSite is newSite for a test with an operator of its own.
func newOwnSite(t *testing.T, nodes int) *site {
	t.Helper()
	operate(t, true)
	return takeSite(t, nodes)
}

func takeSite(t *testing.T, nodes int) *site {
	t.Helper()
	shared := env.cluster.NewSite(t, nodes)
	s := &site{shared: shared, t: t, ctx: shared.Ctx, namespace: shared.Namespace, nodes: shared.Nodes}
	// The order of its queue is strict, unless a test changes it.
	queue := fixture.Queue(s.namespace).Backfill(v1alpha2.BackfillNone).New()
	queue.Labels = map[string]string{siteLabel: s.namespace} // for the site's operator
	shared.Create(queue)
	t.Cleanup(s.close)
	return s
}

// patch changes an object by a merge patch.
func (s *site) patch(object client.Object, format string, args ...any) {
	s.t.Helper()
	s.shared.Patch(object, format, args...)
}

// delete deletes an object.
func (s *site) delete(object client.Object, options ...client.DeleteOption) {
	s.t.Helper()
	s.shared.Delete(object, options...)
}

// close checks what must be in every test, removes what this one made, checks that
// nothing is left, and gives the nodes back.
func (s *site) close() {
	if s.t.Failed() {
		s.shared.Describe("mc,mcq,jobsets,jobs,pods,events")
	}
	s.shared.Clear()
	for _, violation := range env.watch.broken(s.namespace) {
		s.t.Error(violation)
	}
	if err := env.client.Delete(s.ctx, &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		s.t.Error(err)
	}
	s.shared.Close()
}

// kubectl runs it in the site.
func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	return s.shared.Kubectl(args...)
}

// untilTold is how long a state lasts that a test ends by tell once the test has seen enough. On a
// busy machine no shorter time is certain to be long enough.
const untilTold = "1h"

// miniCluster begins one whose pods take whole nodes of the site, in its own queue,
// and whose command runs for a moment.
func (s *site) miniCluster(name string) *fixture.MiniClusterWrapper {
	return s.here(fixture.MiniCluster(name).PodAnnotation(simulator.Runtime, "1s"))
}

// here lets one be in the site, and its pods take whole nodes of the site, in its own queue.
func (s *site) here(w *fixture.MiniClusterWrapper) *fixture.MiniClusterWrapper {
	return w.In(s.namespace).CPU("8").Queue(s.namespace).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Pod.NodeSelector = map[string]string{siteLabel: s.namespace}
	})
}

// create creates a MiniCluster in the site.
func (s *site) create(w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
	s.t.Helper()
	return s.createAs(env.client, w)
}

func (s *site) get(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	s.t.Helper()
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
		s.t.Fatal(err)
	}
	return mc
}

func condition(mc *v1alpha2.MiniCluster, kind string) metav1.Condition {
	return harness.Condition(mc, kind)
}

func state(mc *v1alpha2.MiniCluster) string { return harness.State(mc) }

// await waits until a MiniCluster is as it is expected to be.
func (s *site) await(mc *v1alpha2.MiniCluster, what string, holds func(*v1alpha2.MiniCluster) bool) {
	s.t.Helper()
	s.shared.Await(mc, what, holds)
}

// awaitState waits for one of some states.
func (s *site) awaitState(mc *v1alpha2.MiniCluster, states ...string) {
	s.t.Helper()
	s.shared.AwaitState(mc, states...)
}

// awaitSuccess waits until a MiniCluster has succeeded and holds no node any more.
func (s *site) awaitSuccess(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.shared.AwaitSuccess(mc)
}

// awaitGone waits until a MiniCluster is no more.
func (s *site) awaitGone(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.shared.AwaitGone(mc)
}

// awaitNodes waits until the manager knows that n nodes of the site are free. A MiniCluster that can shrink would
// begin with fewer.
func (s *site) awaitNodes(n int) {
	s.t.Helper()
	if n == 0 {
		return
	}
	larger := s.create(s.miniCluster("larger").Size(int32(n + 1)))
	s.await(larger, "told how many nodes there are", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(condition(mc, v1alpha2.ConditionAdmitted).Message, fmt.Sprintf("for %d:", n))
	})
	s.delete(larger)
	s.awaitGone(larger)
}

// pods are those of a MiniCluster.
func (s *site) pods(mc *v1alpha2.MiniCluster) []corev1.Pod {
	s.t.Helper()
	return s.shared.Pods(mc)
}

// tell lets the pod of a rank play something else from now on.
func (s *site) tell(mc *v1alpha2.MiniCluster, rank int, annotation, value string) {
	s.t.Helper()
	s.shared.Tell(mc, rank, annotation, value)
}

// endCommand ends a command that runs until it is told.
func (s *site) endCommand(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.tell(mc, 0, simulator.Runtime, "0s")
}

// letStart starts a pod that never starts by itself.
func (s *site) letStart(mc *v1alpha2.MiniCluster, rank int) {
	s.t.Helper()
	s.tell(mc, rank, simulator.NeverStart, "")
}

// awaitSuccessOf starts the pods of some ranks, which never start by themselves, in each attempt until one succeeds: a test
// cannot know which attempt meets the last refusal.
func (s *site) awaitSuccessOf(mc *v1alpha2.MiniCluster, ranks ...int) {
	s.t.Helper()
	eventually(s.t, func() error {
		pods := s.pods(mc)
		for i := range pods {
			if rank, ok := protocol.Rank(&pods[i]); !ok || !slices.Contains(ranks, rank) || pods[i].Annotations[simulator.NeverStart] == "" {
				continue
			}
			err := simulator.Tell(s.ctx, env.client, &pods[i], simulator.NeverStart, "")
			if client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if s.get(mc); state(mc) != v1alpha2.StateSucceeded {
			return fmt.Errorf("%s is %s", mc.Name, state(mc))
		}
		return nil
	})
	s.awaitSuccess(mc)
}

// events are the reasons of a MiniCluster's events, each as often as it was said.
func (s *site) events(mc *v1alpha2.MiniCluster) map[string]int {
	s.t.Helper()
	var list corev1.EventList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == mc.UID {
			counts[e.Reason] += max(1, int(e.Count))
		}
	}
	return counts
}

// decisions are the reasons of events that tell of one, or of a size that was asked for.
var decisions = []string{
	"Admitted", "Started", "QuorumLowered", "GaveUp", "Retrying", "Released", "Draining", "Vacated", "Kept", "Grew", "Moved", "SizeIgnored", "BelowMinimum",
	"Restarting", "Restarted", "Prolonged", "Checkpointed", "Warned",
	v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonRequeued,
	v1alpha2.StateSucceeded, v1alpha2.ReasonCommandFailed, v1alpha2.ReasonLeadLost, v1alpha2.ReasonWorkersFailed, v1alpha2.ReasonBrokersLost,
	v1alpha2.ReasonDeadlineExceeded, v1alpha2.ReasonStartLimit,
}

// awaitDecisions waits until the events tell of certain decisions, each so often, and of no
// others but those that may be there, too.
func (s *site) awaitDecisions(mc *v1alpha2.MiniCluster, want map[string]int, may ...string) {
	s.t.Helper()
	eventually(s.t, func() error {
		got := s.events(mc)
		maps.DeleteFunc(got, func(reason string, _ int) bool {
			return !slices.Contains(decisions, reason) || slices.Contains(may, reason)
		})
		if !maps.Equal(got, want) {
			return fmt.Errorf("%s was told of %v, want %v", mc.Name, got, want)
		}
		return nil
	})
}

// awaitEnd waits until a MiniCluster has failed for a reason and holds no node any more.
func (s *site) awaitEnd(mc *v1alpha2.MiniCluster, reason string) {
	s.t.Helper()
	s.await(mc, "failed, with no node held", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateFailed && mc.Status.Nodes == 0 })
	if got := condition(mc, v1alpha2.ConditionFinished); got.Reason != reason {
		s.t.Errorf("%s failed with %s: %s; want %s", mc.Name, got.Reason, got.Message, reason)
	}
}

// awaitOnlyLead waits until no other pod of a MiniCluster is left than its lead's, which has ended.
func (s *site) awaitOnlyLead(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		pods := s.pods(mc)
		if len(pods) != 1 {
			return fmt.Errorf("%s has %d pods", mc.Name, len(pods))
		}
		lead := pods[0]
		if rank, _ := protocol.Rank(&lead); rank != 0 || lead.DeletionTimestamp != nil || (lead.Status.Phase != corev1.PodFailed && lead.Status.Phase != corev1.PodSucceeded) {
			return fmt.Errorf("what is left is pod %s: rank %d, %s", lead.Name, rank, lead.Status.Phase)
		}
		if container := lead.Status.ContainerStatuses[0]; container.State.Terminated == nil {
			s.t.Fatalf("the container of the lead says %+v", container.State)
		}
		return nil
	})
}

// nodesOf are the nodes of a MiniCluster, by rank.
func (s *site) nodesOf(mc *v1alpha2.MiniCluster) []string {
	s.t.Helper()
	nodes, err := hostlist.Decode(mc.Status.Admission.Nodes, int(mc.Status.Admission.Size))
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// withhold cordons nodes until the returned function is called, or the test ends.
func (s *site) withhold(nodes ...string) (give func()) {
	s.t.Helper()
	for _, node := range nodes {
		cordon(s, node, true)
	}
	give = func() {
		for _, node := range nodes {
			cordon(s, node, false)
		}
	}
	s.t.Cleanup(give)
	return give
}

// awaitPlaced waits until as many pods have nodes as the MiniCluster's size.
func (s *site) awaitPlaced(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.await(mc, "placed on all its nodes", func(mc *v1alpha2.MiniCluster) bool { return occupied(s.pods(mc)) == int(mc.Spec.Size) })
}

func isGated(pod *corev1.Pod) bool { return protocol.IsGated(pod) && pod.DeletionTimestamp == nil }

// cannotStart tells a pod that never starts that it cannot start where it is. It returns the node.
func (s *site) cannotStart(mc *v1alpha2.MiniCluster, rank int) (bad string) {
	s.t.Helper()
	bad = s.nodesOf(s.get(mc))[rank]
	s.tell(mc, rank, simulator.CannotStart, bad)
	return bad
}
