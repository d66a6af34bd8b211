// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// entry is a MiniCluster in its queue.
type entry struct {
	types.NamespacedName                       // of the MiniCluster
	miniCluster          *v1alpha2.MiniCluster // with defaults
	pod                  *corev1.Pod           // after admission by the API server, unless refused
	quota                *v1alpha2.Quota       // of Kueue; nil if it needs none
	// refused is the API server's refusal of its pods or objects by a quota; "" if they were
	// accepted. freed is when the quotas were last seen to have room, and before is how the last
	// cycle saw them.
	refused  string
	freed    time.Time
	before   *quotaView
	queue    string
	ask      state.Ask
	reached  uint64 // changes of volumes that ask.Reach contains
	gang     queue.Gang
	decision queue.Decision
	// asked is what an autoscaler was asked before the last cycle; nil if nothing.
	asked *queue.Asked
	// known is what the cache showed of the MiniCluster in the last cycle; nil if nothing. place is the place of the entry
	// among all on which that cycle decided, from 1; 0 if it did not.
	known *known
	place int
	// deadlines are those of the queue at the decision, for which the gang is limited.
	deadlines elastic.Deadlines
	limited   bool
	// told is the last message of which the MiniCluster was to hear, and toldAt when.
	told   string
	toldAt time.Time
	// putOffAt is since when it waits until the pods of those that start are made; zero if it does not.
	putOffAt time.Time
}

// check is what was last told of a MiniCluster.
type check struct {
	uid types.UID
	// waits is true if it waits for nodes, or will once it can be decided on.
	waits bool
}

// moveTo enters it in another queue. What the earlier queue decided does not count any more.
func (e *entry) moveTo(name string) {
	e.queue, e.ask.Queue, e.gang.Queue, e.gang.Blocked, e.decision = name, name, name, time.Time{}, queue.Decision{}
}

// Offer implements minicluster.Scheduler.
func (s *Scheduler) Offer(mc *v1alpha2.MiniCluster, pod, services *corev1.Pod, quota *v1alpha2.Quota) elastic.Offer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.enter(&entry{miniCluster: mc, pod: pod, quota: quota})
	if s.pods[mc.UID] != pod {
		s.pods[mc.UID] = pod
		s.outdate(mc.UID)
	}
	s.noteServices(mc, services)
	d := &e.decision
	return elastic.Offer{Nodes: d.Nodes, Verdict: d.Verdict, Message: d.Message, Blocked: d.Blocked, Deadlines: e.deadlines}
}

// noteServices notes the services pod of a MiniCluster; nil if it has none.
func (s *Scheduler) noteServices(mc *v1alpha2.MiniCluster, services *corev1.Pod) {
	if delete(s.services, mc.UID); services != nil {
		s.services[mc.UID] = services
	}
}

// Refused implements minicluster.Scheduler.
func (s *Scheduler) Refused(mc *v1alpha2.MiniCluster, pod, services *corev1.Pod, why string) elastic.Offer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.enter(&entry{miniCluster: mc, pod: pod, refused: why})
	s.noteServices(mc, services)
	e.refused = why
	return elastic.Offer{Verdict: e.decision.Verdict, Message: e.decision.Message, Blocked: e.decision.Blocked}
}

// enter enters a MiniCluster in its queue, and returns its entry. An entry that is there stays,
// unless something has changed that matters.
func (s *Scheduler) enter(e *entry) *entry {
	name, mc := client.ObjectKeyFromObject(e.miniCluster), e.miniCluster
	e.NamespacedName = name
	s.checked[name] = check{uid: mc.UID, waits: true}
	if e.queue = s.queueOf(mc); e.quota != nil {
		e.queue = v1alpha2.KueueQueue
	}
	if before := s.entries[name]; before != nil {
		if e.stands(before, s.ledger.Assumed(mc.UID)) {
			return before
		}
		s.ledger.Forget(before.miniCluster.UID)
		if before.miniCluster.UID == mc.UID && before.queue == e.queue {
			last := &before.decision.Memory
			e.decision.Delay, e.decision.Taken = last.Delay, last.Taken
			e.decision.Held.Spent = last.Held.Spent // it does not hold out anew
		}
	}
	pod := kueue.Confine(e.pod, e.quota)
	e.ask, e.gang = state.Request(mc, pod, e.quota, s.topology), state.Gang(mc, pod, e.quota)
	e.ask.Queue = e.queue
	if e.gang.Queue = e.queue; mc.Status.BlockedSince != nil && mc.Status.Queue == e.queue {
		e.gang.Blocked = mc.Status.BlockedSince.Time
	}
	s.entries[name] = e
	s.wake()
	return e
}

// stands reports whether an entry from before still says the same. One that was given nodes keeps
// its queue.
func (e *entry) stands(before *entry, assumed bool) bool {
	return before.miniCluster.UID == e.miniCluster.UID && before.miniCluster.Generation == e.miniCluster.Generation &&
		equality.Semantic.DeepEqual(before.quota, e.quota) &&
		(assumed || before.queue == e.queue) && (before.refused == "") == (e.refused == "")
}

// Freed implements minicluster.Scheduler.
func (s *Scheduler) Freed(mc *v1alpha2.MiniCluster) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.entries[client.ObjectKeyFromObject(mc)]; e != nil && e.miniCluster.UID == mc.UID {
		return e.freed
	}
	return time.Time{}
}

// quotaView is how a cycle sees the quotas of a MiniCluster that they refused.
type quotaView struct {
	refuses bool
	limits  string
}

// askQuotas says why the quotas of a namespace allow no pods of a MiniCluster; "" if they do. If
// the API server refused the MiniCluster, and the quotas may have got room since, freed is true: the
// MiniCluster has to be checked again.
func (s *Scheduler) askQuotas(e *entry, seen *clusterState) (why string, freed bool) {
	namespace := e.Namespace
	if seen.quotas.Limit(namespace) {
		why = seen.quotas.Refusal(namespace, s.demand(seen, e.miniCluster, e.pod))
	}
	if e.refused == "" {
		return why, false
	}
	now := &quotaView{refuses: why != "", limits: seen.quotas.Limits(namespace)}
	freed = e.before != nil && !now.refuses && (e.before.refuses || e.before.limits != now.limits)
	e.before = now
	if freed {
		e.freed = s.Clock.Now()
	}
	return cmp.Or(why, e.refused), freed
}

// QueueOf implements minicluster.Scheduler.
func (s *Scheduler) QueueOf(mc *v1alpha2.MiniCluster) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.entries[client.ObjectKeyFromObject(mc)]; e != nil && e.miniCluster.UID == mc.UID {
		return e.queue
	}
	return s.queueOf(mc)
}

func (s *Scheduler) queueOf(mc *v1alpha2.MiniCluster) string {
	return cmp.Or(mc.Spec.Queue, s.labelsOf(mc.Namespace)[v1alpha2.QueueLabel], v1alpha2.DefaultQueue)
}

// atOnce is a context that is over: a read of a cache that is not filled yet does not wait, as the scheduler is locked.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// labelsOf are the labels of a namespace; none if it is not known.
func (s *Scheduler) labelsOf(name string) map[string]string {
	var namespace corev1.Namespace
	if s.Cache == nil {
		return nil
	}
	if err := s.Cache.Get(atOnce, types.NamespacedName{Name: name}, &namespace, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return namespace.Labels
}

// Waits implements minicluster.Scheduler.
func (s *Scheduler) Waits(name types.NamespacedName) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.entries[name]
	return e != nil && e.decision.Verdict != "" && e.decision.Verdict != elastic.Admitted
}

// Order implements minicluster.Scheduler.
func (s *Scheduler) Order(mc *v1alpha2.MiniCluster, pod *corev1.Pod, displaced []int) elastic.Order {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if pod != nil && s.pods[mc.UID] == nil { // as after a restart
		s.pods[mc.UID] = pod
		s.outdate(mc.UID)
		s.wake()
	}
	order, _ := s.ledger.OrderOf(mc.UID)
	switch {
	case len(displaced) == 0:
		delete(s.repairs, mc.UID)
	case order == nil && !slices.Equal(s.repairs[mc.UID], displaced):
		s.repairs[mc.UID] = displaced
		s.wake()
	}
	return order
}

// Limit implements minicluster.Scheduler.
func (s *Scheduler) Limit(mc *v1alpha2.MiniCluster, most int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.limits[mc.UID] == most {
		return
	}
	if order, _ := s.ledger.OrderOf(mc.UID); most < s.limits[mc.UID] {
		if _, grows := order.(elastic.Grow); grows {
			s.ledger.Cancel(mc.UID)
		}
	}
	s.limits[mc.UID] = most
	s.outdate(mc.UID)
	s.wake()
}

// Skip implements minicluster.Scheduler.
func (s *Scheduler) Skip(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := check{uid: mc.UID}
	if meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		now = check{} // it never waits again
	}
	if mc.IsSuspended() {
		s.endWait(client.ObjectKeyFromObject(mc), metrics.WaitSuspended)
	}
	s.remove(mc, now)
}

// Postpone implements minicluster.Scheduler.
func (s *Scheduler) Postpone(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.remove(mc, check{uid: mc.UID, waits: true})
}

// remove removes a MiniCluster from its queue. Others may have waited for it.
func (s *Scheduler) remove(mc *v1alpha2.MiniCluster, now check) {
	name := client.ObjectKeyFromObject(mc)
	if s.entries[name] != nil || s.checked[name].uid != now.uid {
		s.wake()
	}
	if s.checked[name] = now; now.uid == "" {
		delete(s.checked, name)
	}
	delete(s.entries, name)
	if !s.ledger.Assumed(mc.UID) {
		return
	}
	if promise, err := state.PromiseOf(mc); err == nil && promise != nil {
		s.ledger.Confirm(mc.UID, promise) // it took the nodes
	} else {
		s.ledger.Forget(mc.UID)
	}
}

// Forget implements minicluster.Scheduler.
func (s *Scheduler) Forget(name types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.entries[name]; e != nil {
		s.endWait(name, metrics.WaitDeleted)
		s.ledger.Forget(e.miniCluster.UID)
		s.wake()
	}
	delete(s.checked, name)
	delete(s.entries, name)
}

// endWait counts the wait of a MiniCluster that leaves its queue without nodes.
func (s *Scheduler) endWait(name types.NamespacedName, outcome string) {
	if e := s.entries[name]; e != nil && !s.ledger.Assumed(e.miniCluster.UID) {
		metrics.CountWait(e.queue, outcome, s.Clock.Since(e.gang.Since))
	}
}

// Decided implements minicluster.Scheduler.
func (s *Scheduler) Decided() <-chan event.GenericEvent { return s.decided }
