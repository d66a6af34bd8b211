// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Scheduler decides, over the whole queue, which MiniCluster gets which nodes. It
// runs a cycle when something happened that may change a decision: one came or
// went, nodes came or were freed.
//
// A decision is assumed until the cache shows it: its nodes count as taken from
// the moment it is made, and are free again if the MiniCluster does not take it
// up (Skip). So no two decisions use the same resource.
type Scheduler struct {
	// Cache is read only.
	Cache client.Reader
	Clock clock.PassiveClock
	// Engine chooses nodes; nil: the graph itself does.
	Engine Engine

	mutex sync.Mutex
	// entries are the MiniClusters that wait, and those that were given nodes and
	// have not written it down yet.
	entries map[types.NamespacedName]*entry
	// checked are the MiniClusters, by UID, that were offered or skipped since the
	// start: of the others it is not known whether they wait.
	checked map[types.NamespacedName]types.UID
	// kick asks for a cycle, decided tells of a new decision.
	kick, decided chan event.GenericEvent
}

// GangMatcher chooses the nodes that gangs get on a graph, and changes nothing there.
// A *fluxion.Graph is the one of itself. Others answer with the same size, or the same
// refusal, and may choose other nodes.
type GangMatcher interface {
	MatchGang(gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal)
}

// Engine makes the GangMatcher of a cycle's graph.
type Engine func(*fluxion.Graph) GangMatcher

// entry is one MiniCluster in the queue.
type entry struct {
	miniCluster *v1alpha2.MiniCluster // with defaults
	pod         *corev1.Pod           // as the cluster makes it
	decision    elastic.Decision
}

// NewScheduler makes a scheduler that reads from the cache.
func NewScheduler(cache client.Reader, clock clock.PassiveClock) *Scheduler {
	return &Scheduler{
		Cache: cache, Clock: clock,
		entries: map[types.NamespacedName]*entry{}, checked: map[types.NamespacedName]types.UID{},
		kick:    make(chan event.GenericEvent, 1),
		decided: make(chan event.GenericEvent, 1024),
	}
}

// Offer enters a MiniCluster, with its defaults, in the queue, if it is not there,
// and returns the last decision about it: the zero Decision before there is one.
func (s *Scheduler) Offer(mc *v1alpha2.MiniCluster, pod *corev1.Pod) elastic.Decision {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	s.checked[name] = mc.UID
	known := s.entries[name]
	if known == nil || known.miniCluster.UID != mc.UID || known.miniCluster.Generation != mc.Generation {
		known = &entry{miniCluster: mc, pod: pod}
		s.entries[name] = known
		s.wake()
	}
	return known.decision
}

// Skip says that a MiniCluster does not wait for nodes now. Nodes that it was offered
// and did not take are free again.
func (s *Scheduler) Skip(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	if s.checked[name] != mc.UID || s.entries[name] != nil {
		s.wake() // others may have waited for it
	}
	s.checked[name] = mc.UID
	delete(s.entries, name)
}

// Forget is Skip for a MiniCluster that is no more.
func (s *Scheduler) Forget(name types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.entries[name] != nil {
		s.wake()
	}
	delete(s.checked, name)
	delete(s.entries, name)
}

// wake asks for a cycle, unless one is asked for already.
func (s *Scheduler) wake() {
	select {
	case s.kick <- event.GenericEvent{Object: &v1alpha2.MiniCluster{}}:
	default:
	}
}

// SetupWithManager registers the scheduler and what wakes it.
func (s *Scheduler) SetupWithManager(mgr ctrl.Manager) error {
	cycle := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("scheduler").
		Watches(&corev1.Node{}, cycle, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Watches(&corev1.Pod{}, cycle, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: podEnded,
			DeleteFunc: podFreed,
		})).
		Watches(&v1alpha2.MiniCluster{}, cycle, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: promiseEnded,
		})).
		WatchesRawSource(source.Channel(s.kick, cycle)).
		Complete(s)
}

func nodeChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return state.Ready(before) != state.Ready(after) ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) ||
		!maps.Equal(before.Labels, after.Labels)
}

func podEnded(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return state.Ended(after) && !state.Ended(before)
}

// podFreed reports whether a pod that is gone held a node to the end.
func podFreed(e event.DeleteEvent) bool {
	pod := e.Object.(*corev1.Pod)
	return jobset.PinnedNode(pod) != "" && !state.Ended(pod)
}

// promiseEnded reports whether a MiniCluster gave back what it was promised, or leaves.
func promiseEnded(e event.UpdateEvent) bool {
	if e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil {
		return true
	}
	before, _ := state.PromiseOf(e.ObjectOld.(*v1alpha2.MiniCluster))
	after, _ := state.PromiseOf(e.ObjectNew.(*v1alpha2.MiniCluster))
	return before != nil && after == nil
}

// Reconcile is one cycle.
func (s *Scheduler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := s.Clock.Now()
	changed, lookAgain, err := s.decide(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	cycleSeconds.Observe(s.Clock.Since(now).Seconds())
	for _, name := range changed {
		mc := &v1alpha2.MiniCluster{}
		mc.Namespace, mc.Name = name.Namespace, name.Name
		select {
		case s.decided <- event.GenericEvent{Object: mc}:
		case <-ctx.Done():
			return ctrl.Result{}, ctx.Err()
		}
	}
	if lookAgain.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(lookAgain.Sub(now), time.Millisecond)}, nil
}

// decide observes and decides at one moment: nobody takes a decision up, and so ends
// its being assumed, after the cache was read.
func (s *Scheduler) decide(ctx context.Context, now time.Time) (changed []types.NamespacedName, lookAgain time.Time, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	seen, err := s.observe(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	return s.cycle(seen, now)
}

// clusterState is what a cycle decides on.
type clusterState struct {
	nodes        []*corev1.Node
	pods         []*corev1.Pod
	miniClusters []*v1alpha2.MiniCluster
}

func (s *Scheduler) observe(ctx context.Context) (*clusterState, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var miniClusters v1alpha2.MiniClusterList
	for _, list := range []client.ObjectList{&nodes, &pods, &miniClusters} {
		if err := s.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing what a cycle decides on: %w", err)
		}
	}
	return &clusterState{pointers(nodes.Items), pointers(pods.Items), pointers(miniClusters.Items)}, nil
}

// cycle decides, and returns the MiniClusters whose decision is new and when time
// alone may change one.
func (s *Scheduler) cycle(seen *clusterState, now time.Time) (changed []types.NamespacedName, lookAgain time.Time, err error) {
	promises, err := s.promises(seen)
	if err != nil {
		return nil, time.Time{}, err
	}
	gangs, byID := s.gangs(seen)
	decisions, err := s.allocate(gangs, byID, seen, promises, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	verdicts := map[elastic.Verdict]int{}
	for _, decision := range decisions {
		e := byID[decision.Gang]
		if e.decision.Verdict != decision.Verdict || e.decision.Message != decision.Message || len(decision.Nodes) > 0 {
			changed = append(changed, client.ObjectKeyFromObject(e.miniCluster))
		}
		e.decision = decision
		verdicts[decision.Verdict]++
		if !decision.LookAgain.IsZero() && (lookAgain.IsZero() || decision.LookAgain.Before(lookAgain)) {
			lookAgain = decision.LookAgain
		}
	}
	for _, verdict := range []elastic.Verdict{elastic.NeverFits, elastic.NoRoom, elastic.WaitingForSize, elastic.WaitingForTurn} {
		waiting.WithLabelValues(string(verdict)).Set(float64(verdicts[verdict]))
	}
	return changed, lookAgain, nil
}

func (s *Scheduler) allocate(gangs []elastic.Gang, byID map[string]*entry, seen *clusterState, promises []state.Promise, now time.Time) ([]elastic.Decision, error) {
	if len(gangs) == 0 {
		return nil, nil // without looking at the nodes
	}
	graph, err := state.Graph(seen.nodes, seen.pods, promises)
	if err != nil {
		return nil, err
	}
	m := &matcher{graph: graph, engine: graph, nodes: seen.nodes, byID: byID}
	if s.Engine != nil {
		m.engine = s.Engine(graph)
	}
	return elastic.Allocate(gangs, m, now), nil
}

// promises are what admissions hold: those that are written down, and those that
// are assumed.
func (s *Scheduler) promises(seen *clusterState) ([]state.Promise, error) {
	var out []state.Promise
	written := map[types.UID]bool{}
	for _, mc := range seen.miniClusters {
		promise, err := state.PromiseOf(mc)
		if err != nil {
			return nil, fmt.Errorf("MiniCluster %s/%s: %w", mc.Namespace, mc.Name, err)
		}
		if promise != nil {
			out = append(out, *promise)
			written[mc.UID] = true
		}
	}
	for name, e := range s.entries {
		switch {
		case written[e.miniCluster.UID]:
			delete(s.entries, name) // taken up
		case len(e.decision.Nodes) > 0:
			out = append(out, state.Promise{UID: e.miniCluster.UID, Nodes: e.decision.Nodes, Requests: state.Requests(e.pod)})
		}
	}
	return out, nil
}

// gangs are those to decide about. A MiniCluster that has not been checked yet, as
// after a restart, is not passed by younger ones of its queue.
func (s *Scheduler) gangs(seen *clusterState) ([]elastic.Gang, map[string]*entry) {
	unchecked := map[string]*v1alpha2.MiniCluster{} // the oldest, by queue
	for _, mc := range seen.miniClusters {
		if s.checked[client.ObjectKeyFromObject(mc)] == mc.UID || !mayCome(mc) {
			continue
		}
		if oldest := unchecked[mc.Spec.Queue]; oldest == nil || older(mc, oldest) {
			unchecked[mc.Spec.Queue] = mc
		}
	}
	var gangs []elastic.Gang
	byID := map[string]*entry{}
	for _, e := range s.entries {
		if len(e.decision.Nodes) > 0 {
			continue // decided, and assumed
		}
		gang := state.Gang(e.miniCluster, e.pod)
		if oldest := unchecked[gang.Queue]; oldest != nil && older(oldest, e.miniCluster) {
			continue
		}
		gangs = append(gangs, gang)
		byID[gang.ID] = e
	}
	return gangs, byID
}

// older is the order of a queue among those of one priority.
func older(a, b *v1alpha2.MiniCluster) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)) < 0
}

// mayCome reports whether a MiniCluster may enter the queue once it is checked.
func mayCome(mc *v1alpha2.MiniCluster) bool {
	return mc.DeletionTimestamp == nil && !mc.Spec.Suspend && mc.Status.Admission == nil &&
		!meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// matcher asks the resource graph for gangs of the queue. The graph keeps the books and
// gives the reasons, whoever chooses the nodes on it.
type matcher struct {
	graph  *fluxion.Graph
	engine GangMatcher
	nodes  []*corev1.Node
	byID   map[string]*entry
	// asked is the gang that was asked about last, as the graph knows it.
	asked fluxion.Gang
}

func (m *matcher) request(gang string, sizes []int) fluxion.Gang {
	if m.asked.Job != gang {
		e := m.byID[gang]
		m.asked = state.Request(m.graph, e.miniCluster, e.pod, m.nodes, sizes)
	}
	m.asked.Sizes = sizes
	return m.asked
}

// Place finds nodes for a gang and takes them.
func (m *matcher) Place(gang string, sizes []int) ([]string, string) {
	request := m.request(gang, sizes)
	placement, refusal := m.engine.MatchGang(request)
	if refusal != nil {
		if explained := m.graph.Explain(request); explained != nil {
			refusal = explained
		}
		return nil, refusal.String()
	}
	if err := m.graph.Take(request, placement); err != nil {
		return nil, err.Error() // it holds some already
	}
	return placement.Nodes, ""
}

// Never says why a gang would not even fit the empty cluster.
func (m *matcher) Never(gang string, sizes []int) string {
	request := m.request(gang, sizes)
	if m.graph.CouldHold(request) == nil {
		return ""
	}
	return m.graph.Explain(request).String()
}
