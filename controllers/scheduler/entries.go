// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/quota"
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
	refusal
	queue    string
	ask      state.Ask
	reached  uint64 // changes of volumes that ask.Reach contains
	gang     queue.Gang
	decision queue.Decision
	// asked is what an autoscaler was asked before the last cycle; nil if nothing. askProblem says why asking fails.
	asked      *queue.Asked
	askProblem string
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

// refusal is what the quotas of the namespace refuse.
type refusal struct {
	// refused is the API server's refusal of its pods or objects by a quota; "" if they were
	// accepted. freed is when the quotas were last seen to have room, and before is how the last
	// cycle saw them.
	refused string
	freed   time.Time
	before  *quotaView
	// overQuota says why the quotas allow no pods now; "" if they do.
	overQuota string
}

// moveTo enters it in another queue. What the earlier queue decided does not count any more.
func (e *entry) moveTo(name string) {
	e.queue, e.ask.Queue, e.gang.Queue, e.gang.Blocked, e.decision = name, name, name, time.Time{}, queue.Decision{}
}

// line is who waits.
type line struct {
	ledger   *ledger.Ledger
	due      *due
	topology []state.TopologyLevel
	// entries are the waiting MiniClusters, and the admitted ones whose status does not show it
	// yet.
	entries map[types.NamespacedName]*entry
	// checked are the MiniClusters that were offered, skipped or postponed since the start and have not
	// finished. Whether the others wait is not known yet.
	checked map[types.NamespacedName]check
	// unchecked are those that hold up younger ones until they are checked, and since when.
	unchecked map[types.UID]time.Time
}

// of is the entry of a MiniCluster; nil if it has none.
func (l *line) of(mc *v1alpha2.MiniCluster) *entry {
	if e := l.entries[client.ObjectKeyFromObject(mc)]; e != nil && e.miniCluster.UID == mc.UID {
		return e
	}
	return nil
}

// checkedWithin is for how long a MiniCluster that is not checked holds up younger ones at most: as long as the API server
// waits for a webhook. A tenant may have a webhook look at images in a registry that does not answer.
const checkedWithin = 30 * time.Second

// step finds the entries to decide on, each with what the cache shows and what its queue and quotas say now. After a
// restart, or when many come at once, MiniClusters are not checked yet. Younger ones of the same queue wait for them.
func (l *line) step(c *cycle) {
	for _, e := range l.entries {
		if e.known == nil || e.known.outdated {
			e.known = c.catalog.known[e.miniCluster.UID]
		}
		if e.known != nil {
			e.known.entry = e
		}
	}
	unchecked, filling := l.oldestUnchecked(c), c.reserveQuotas()
	for _, e := range l.entries {
		oldest := unchecked[e.queue]
		switch {
		case !l.waits(e):
		case oldest == nil || e.miniCluster.CreationTimestamp.Before(&oldest.miniCluster.CreationTimestamp):
			c.waiting = append(c.waiting, e)
		default:
			c.lookAgain = elastic.Earliest(c.lookAgain, l.unchecked[oldest.miniCluster.UID].Add(checkedWithin))
		}
	}
	c.waiting = inLine(c.waiting)
	for _, e := range c.waiting {
		c.ask(e)
		if e.overQuota != "" && filling[e.Namespace] {
			c.lookAgain = elastic.Earliest(c.lookAgain, c.now.Add(quotaInterval))
		}
	}
}

// ask notes what the queue of an entry, which may not exist, the autoscaler and the quotas say now.
func (c *cycle) ask(e *entry) {
	q := c.seen.byName[e.queue]
	if deadlines := state.Deadlines(q); !e.limited || e.deadlines != deadlines {
		e.limited, e.deadlines = true, deadlines
		e.gang.Limit = state.Limit(e.miniCluster, deadlines)
		e.ask.Lasts = state.Lasts(e.miniCluster, e.gang.Limit, deadlines)
	}
	e.ask.Arch = state.Arch(q)
	if e.asked, e.askProblem = nil, ""; c.Autoscaler != nil && q != nil && q.Spec.ScaleUp != nil {
		e.asked, e.askProblem = c.Autoscaler.Asked(e.NamespacedName, e.miniCluster.UID)
	}
	c.askQuotas(e)
}

// took removes the entries of MiniClusters that took their nodes.
func (l *line) took(promised iter.Seq2[types.UID, *known]) {
	for _, k := range promised {
		if e := l.of(k.miniCluster); e != nil && k.promise != nil {
			delete(l.entries, e.NamespacedName)
		}
	}
}

// enter enters a MiniCluster in its queue, and returns its entry. An entry that is there stays,
// unless something has changed that matters.
func (l *line) enter(e *entry) *entry {
	name, mc := client.ObjectKeyFromObject(e.miniCluster), e.miniCluster
	e.NamespacedName = name
	l.checked[name] = check{uid: mc.UID, waits: true}
	if e.queue = l.queueOf(mc); e.quota != nil {
		e.queue = v1alpha2.KueueQueue
	}
	if before := l.entries[name]; before != nil {
		if e.stands(before, l.ledger.Assumed(mc.UID)) {
			return before
		}
		l.ledger.Forget(before.miniCluster.UID)
		if before.miniCluster.UID == mc.UID && before.queue == e.queue {
			last := &before.decision.Memory
			e.decision.Delay, e.decision.Taken = last.Delay, last.Taken
			e.decision.Held.Spent = last.Held.Spent // it does not hold out anew
		}
	}
	pod := kueue.Confine(e.pod, e.quota)
	e.ask, e.gang = state.Request(mc, pod, e.quota, l.topology), state.Gang(mc, pod, e.quota)
	e.ask.Queue = e.queue
	if e.gang.Queue = e.queue; mc.Status.BlockedSince != nil && mc.Status.Queue == e.queue {
		e.gang.Blocked = mc.Status.BlockedSince.Time
	}
	l.entries[name] = e
	l.due.wake()
	return e
}

// withoutQuota says that a MiniCluster names the queue of MiniClusters with quota and has no quota; "" if not. Its nodes
// would be those that the queue keeps for quota.
func (e *entry) withoutQuota() string {
	if e.queue != v1alpha2.KueueQueue || e.quota != nil || e.refused != "" { // one with quota may be refused by another quota
		return ""
	}
	return "queue " + v1alpha2.KueueQueue + " is for MiniClusters with quota of Kueue, whose label " + v1alpha2.KueueQueueLabel + " names a LocalQueue"
}

// stands reports whether an entry from before still says the same. One that was given nodes keeps
// its queue.
func (e *entry) stands(before *entry, assumed bool) bool {
	return before.miniCluster.UID == e.miniCluster.UID && before.miniCluster.Generation == e.miniCluster.Generation &&
		equality.Semantic.DeepEqual(before.quota, e.quota) &&
		(assumed || before.queue == e.queue) && (before.refused == "") == (e.refused == "")
}

func (l *line) queueOf(mc *v1alpha2.MiniCluster) string {
	return cmp.Or(mc.Spec.Queue, l.ledger.NamespaceLabels(mc.Namespace)[v1alpha2.QueueLabel], v1alpha2.DefaultQueue)
}

// remove removes a MiniCluster from its queue. Others may have waited for it.
func (l *line) remove(mc *v1alpha2.MiniCluster, now check) {
	name := client.ObjectKeyFromObject(mc)
	if l.entries[name] != nil || l.checked[name].uid != now.uid {
		l.due.wake()
	}
	if l.checked[name] = now; now.uid == "" {
		delete(l.checked, name)
	}
	delete(l.entries, name)
	if !l.ledger.Assumed(mc.UID) {
		return
	}
	if promise, err := state.PromiseOf(mc); err == nil && promise != nil {
		l.ledger.Confirm(mc.UID, promise) // it took the nodes
	} else {
		l.ledger.Forget(mc.UID)
	}
}

// forget forgets a MiniCluster that does not exist any more.
func (l *line) forget(name types.NamespacedName, now time.Time) {
	if e := l.entries[name]; e != nil {
		l.endWait(name, metrics.WaitDeleted, now)
		l.ledger.Forget(e.miniCluster.UID)
		l.due.wake()
	}
	delete(l.checked, name)
	delete(l.entries, name)
}

// endWait counts the wait of a MiniCluster that leaves its queue without nodes.
func (l *line) endWait(name types.NamespacedName, outcome string, now time.Time) {
	if e := l.entries[name]; e != nil && !l.ledger.Assumed(e.miniCluster.UID) {
		metrics.CountWait(e.queue, outcome, now.Sub(e.gang.Since))
	}
}

// oldestUnchecked is the oldest MiniCluster that is not checked yet, by queue, of those that may use it.
func (l *line) oldestUnchecked(c *cycle) map[string]*known {
	oldest, unchecked, barred := map[string]*known{}, map[types.UID]time.Time{}, c.barred()
	for _, k := range c.seen.known {
		mc, name := k.miniCluster, l.queueOf(k.miniCluster)
		if !k.mayCome || k.entry != nil || l.checked[client.ObjectKeyFromObject(mc)].uid == mc.UID || barred(mc.Namespace, name) != "" {
			continue
		}
		since, known := l.unchecked[mc.UID]
		if !known {
			since = c.now
		}
		unchecked[mc.UID] = since
		if before := oldest[name]; c.now.Before(since.Add(checkedWithin)) && (before == nil || mc.CreationTimestamp.Before(&before.miniCluster.CreationTimestamp)) {
			oldest[name] = k
		}
	}
	l.unchecked = unchecked
	return oldest
}

// waits reports whether an entry waits for nodes: it was not deleted, and has none. Only a decision gives it some.
func (l *line) waits(e *entry) bool {
	has := e.decision.Verdict == elastic.Admitted && l.ledger.Assumed(e.miniCluster.UID)
	return e.known != nil && !e.known.leaves && !has
}

// inLine puts entries in the order in which the last cycle decided on them, and new ones behind. Where
// time alone does not change the order, the queue sorts such a line in linear time.
func inLine(waits []*entry) []*entry {
	places := 1
	for _, e := range waits {
		places = max(places, e.place+1)
	}
	line, others := make([]*entry, places), make([]*entry, 0, len(waits))
	for _, e := range waits {
		if e.place > 0 && line[e.place] == nil {
			line[e.place] = e
		} else {
			others = append(others, e)
		}
	}
	slices.SortFunc(others, func(a, b *entry) int { return cmp.Compare(a.miniCluster.UID, b.miniCluster.UID) })
	return append(slices.DeleteFunc(line, func(e *entry) bool { return e == nil }), others...)
}

// quotaInterval is how often the quotas of a namespace are looked at in which pods are being made. The API server counts a
// pod before a cache shows the pod, so the pod counts twice for a moment.
const quotaInterval = time.Second

// reserveQuotas reserves what the unmade pods of admitted MiniClusters will use of quotas. It returns the namespaces in
// which such pods are being made.
func (c *cycle) reserveQuotas() map[string]bool {
	filling := map[string]bool{}
	for _, k := range c.catalog.promised() {
		if namespace := k.miniCluster.Namespace; c.seen.quotas.Limit(namespace) {
			demand := c.demand(k.miniCluster, k.pod)
			c.seen.quotas.Reserve(namespace, demand)
			began := k.miniCluster.Status.StartTime
			if (demand.Pods > 0 || demand.Services != nil) && (began == nil || c.now.Sub(began.Time) < startsWithin) {
				filling[namespace] = true
			}
		}
	}
	return filling
}

// demand is what a MiniCluster has not made yet: pods like one, the services pod, and Jobs, if there is no pod.
func (c *cycle) demand(mc *v1alpha2.MiniCluster, pod *corev1.Pod) quota.Demand {
	made := c.seen.made[mc.UID]
	d := quota.Demand{Pod: pod, Pods: max(int(state.MaxSize(mc))-made, 0)}
	if made == 0 {
		d.Jobs = jobset.CountJobs(mc)
	}
	if !c.seen.served[mc.UID] {
		d.Services = c.catalog.services[mc.UID]
		if a := mc.Status.Admission; d.Services == nil && a != nil && a.Generation == mc.Generation { // after a restart
			d.Services, _ = jobset.ServicesPod(mc)
		}
	}
	return d
}

// quotaView is how a cycle sees the quotas of a MiniCluster that they refused.
type quotaView struct {
	refuses bool
	limits  string
}

// askQuotas notes why the quotas of a namespace allow no pods of a MiniCluster. If the API server refused the
// MiniCluster, and the quotas may have got room since, the MiniCluster has to be checked again.
func (c *cycle) askQuotas(e *entry) {
	why, namespace := "", e.Namespace
	if c.seen.quotas.Limit(namespace) {
		why = c.seen.quotas.Refusal(namespace, c.demand(e.miniCluster, e.pod))
	}
	if e.overQuota = cmp.Or(why, e.refused); e.refused == "" {
		return
	}
	now := &quotaView{refuses: why != "", limits: c.seen.quotas.Limits(namespace)}
	if e.before != nil && !now.refuses && (e.before.refuses || e.before.limits != now.limits) {
		e.freed, c.freed = c.Clock.Now(), append(c.freed, e.NamespacedName)
	}
	e.before = now
}
