// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// memory is what the reconciler remembers of one MiniCluster. It is empty after a restart. Only
// one pass at a time uses it.
type memory struct {
	uid types.UID
	// check is the last check of the spec; nil before.
	check *check
	// announced is the number of the last decision that the announcer was told; negative before.
	announced int64
	// files is the JobSet whose files were made.
	files types.UID
	// repaired is when the objects that brokers need were last made.
	repaired time.Time
	// status is when the status was last written, and when the API server last said that there is no such MiniCluster.
	status struct{ written, gone time.Time }
	// named is when names were last published.
	named time.Time
	// tidied is when pods were last deleted, and tidiedSet their JobSet.
	tidied    time.Time
	tidiedSet types.UID
	// troubles says since when pods, by UID, have had trouble. Kubernetes records no time for
	// that.
	troubles map[types.UID]time.Time
	// kept says since when the evictions of pods, by UID, have been refused. Kubernetes records no time
	// for that either.
	kept map[types.UID]time.Time
	// behind says for how long the end of the attempt has waited for the cache.
	behind lookedAt
	// lead is what was last seen of the lead.
	lead leadSeen
	// placed are the pods, by UID, that were placed, with the resource version that the cache had
	// then.
	placed map[types.UID]string
	// missing is what is known of pods that are to be made. refusals is how often objects or pods were refused although the dry
	// runs of their shape passed, since a command last began.
	missing  missing
	refusals int
	// refused is why the last pass could not do what the brokers of an attempt need to start; "" if it could.
	refused struct {
		attempt int
		why     string
	}
	// ordered is the order to leave that stands.
	ordered standing
	// grown is the resource version of the MiniCluster before it last grew.
	grown string
	quota kueue.Memory
}

// refuse lets the check of a MiniCluster fail that passed as a dry run. The pause until the next check doubles.
func (m *memory) refuse(mc *v1alpha2.MiniCluster, why *check) *check {
	m.check = why.again(m.refusals)
	m.check.generation = mc.Generation
	m.refusals++
	return m.check
}

// orderedGap is the longest time between two looks at an order that stands (life looks each 10 s). Nobody knows what the lead
// would have done in a longer one.
const orderedGap = 30 * time.Second

// standing is an order to leave that is repeated: since when, when it was last seen, and whether all brokers are to leave.
type standing struct {
	since, last time.Time
	all         bool
}

// orderedSince is since when some brokers, or all, are ordered to leave that have not. An order to some begins anew once
// brokers leave, or the command is run again.
func (m *memory) orderedSince(o *life.Observation, now time.Time) time.Time {
	s, a := &m.ordered, o.Admission
	drain, _ := o.Order.(elastic.Drain)
	some := slices.ContainsFunc(drain.Ranks, func(rank int) bool { return rank > 0 && a.Has(rank) })
	_, all := o.Order.(elastic.Evict)
	if a == nil || now.Sub(s.last) > orderedGap || (some || all) && s.all != all || !s.all && (a.Draining != nil || a.Restart != nil) {
		*s = standing{}
	}
	if some || all {
		s.last, s.all = now, all
		if s.since.IsZero() {
			s.since = now
		}
	}
	return s.since
}

// noteAble notes that a plan lets the brokers leave that are ordered to, also if the plan cannot be recorded now.
func (m *memory) noteAble(plan life.Plan) {
	switch plan.Step.(type) {
	case life.Drain, life.Restart:
		if !m.ordered.all {
			m.ordered = standing{}
		}
	}
}

// memories are the memories of all MiniClusters.
type memories struct {
	mutex  sync.Mutex
	byName map[types.NamespacedName]*memory
	// changes are when the labels or policies of namespaces changed last, for as long as that may matter.
	changes map[string]time.Time
	// trials are the MiniClusters, by namespace, that find out whether their pods are refused, and since when they may.
	trials map[string]trial
}

// change records that the labels or policies of a namespace have changed, and returns its MiniClusters.
func (m *memories) change(namespace string, now time.Time) []types.NamespacedName {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	maps.DeleteFunc(m.changes, func(_ string, at time.Time) bool { return now.Sub(at) >= recheckMost })
	if m.changes == nil {
		m.changes = map[string]time.Time{}
	}
	m.changes[namespace] = now
	var names []types.NamespacedName
	for name := range m.byName {
		if name.Namespace == namespace {
			names = append(names, name)
		}
	}
	return names
}

// changed is when the labels or policies of a namespace changed last.
func (m *memories) changed(namespace string) time.Time {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.changes[namespace]
}

// of returns the memory of a MiniCluster. A new MiniCluster of the same name starts with an empty
// one.
func (m *memories) of(mc *v1alpha2.MiniCluster) *memory {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	if known := m.byName[name]; known != nil && known.uid == mc.UID {
		return known
	}
	if m.byName == nil {
		m.byName = map[types.NamespacedName]*memory{}
	}
	m.byName[name] = &memory{uid: mc.UID, announced: -1, placed: map[types.UID]string{}}
	return m.byName[name]
}

func (m *memories) forget(name types.NamespacedName) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if known := m.byName[name]; known != nil && m.trials[name.Namespace].uid == known.uid {
		delete(m.trials, name.Namespace)
	}
	delete(m.byName, name)
}

// noteGrowth records that the status of a MiniCluster was written that has grown.
func (m *memory) noteGrowth(before, after *v1alpha2.MiniCluster) {
	if before.ResourceVersion != after.ResourceVersion { // something was changed
		m.grown = before.ResourceVersion
	}
}

// hasGrown reports whether a MiniCluster has grown since this version of it, so that the cache is behind.
func (m *memory) hasGrown(mc *v1alpha2.MiniCluster) bool {
	return m.grown != "" && m.grown == mc.ResourceVersion
}

// noteTroubles records since when pods have had trouble.
func (m *memory) noteTroubles(pods []protocol.Pod, now time.Time) {
	var troubled []types.UID
	for i := range pods {
		if pods[i].Broker.Trouble != "" {
			troubled = append(troubled, pods[i].UID)
		}
	}
	m.troubles = since(m.troubles, troubled, now)
}

// leadSeen is what was seen of the readiness of a lead, by which the lead tells that its command runs, has ended, or has
// written a checkpoint.
type leadSeen struct {
	pod   types.UID
	ready bool
	// since is when the lead became ready; zero if it is not. down is when it last began not to be ready.
	since, down time.Time
	// shared is true once other containers of the pod have made it ready, or not ready.
	shared bool
}

// noteLead records when the lead became ready, or not ready. Kubernetes records that for the pod as a whole: if other
// containers of the pod come and go, what the manager sees counts. A manager that sees such a pod for the first time takes
// the time that the status has (recorded; zero if it has none).
func (m *memory) noteLead(lead *protocol.Pod, recorded, now time.Time) {
	if lead == nil {
		return
	}
	if m.lead.pod != lead.UID {
		m.lead = leadSeen{}
	}
	seen := &m.lead
	now = now.Truncate(time.Second) // as in the API
	seen.shared = seen.shared || lead.Shared
	if lead.Broker.Ready {
		seen.since = seen.becameReady(lead, recorded, now)
	} else {
		seen.since, seen.down = time.Time{}, seen.wentDown(lead, now)
	}
	seen.pod, seen.ready, lead.Broker.ReadySince = lead.UID, lead.Broker.Ready, seen.since
}

// becameReady is when a lead that is ready became so.
func (l *leadSeen) becameReady(lead *protocol.Pod, recorded, now time.Time) time.Time {
	switch {
	case !l.shared:
		return lead.Broker.ReadySince
	case l.ready:
		return l.since
	case l.pod == "" && !recorded.IsZero():
		return recorded
	}
	return now
}

// wentDown is when a lead that is not ready began not to be.
func (l *leadSeen) wentDown(lead *protocol.Pod, now time.Time) time.Time {
	switch {
	case l.shared && l.ready:
		return now
	case l.shared && l.pod != "", lead.DownSince.IsZero():
		return l.down
	}
	return lead.DownSince
}

// noteKept records since when the evictions of pods have been refused.
func (m *memory) noteKept(pods []types.UID, now time.Time) {
	m.kept = since(m.kept, pods, now)
}

// since is since when something is so of some pods: since before, or now. Other pods are forgotten.
func since(before map[types.UID]time.Time, pods []types.UID, now time.Time) map[types.UID]time.Time {
	times := make(map[types.UID]time.Time, len(pods))
	for _, pod := range pods {
		at, known := before[pod]
		if !known {
			at = now
		}
		times[pod] = at
	}
	return times
}

// hasPlaced reports whether this version of a pod was placed: the cache does not show it yet.
func (m *memory) hasPlaced(pod *protocol.Pod) bool {
	version, ok := m.placed[pod.UID]
	return ok && version == pod.ResourceVersion
}

// hasPlacedAny reports whether any of some pods was placed, and is not being deleted.
func (m *memory) hasPlacedAny(pods []protocol.Pod) bool {
	return slices.ContainsFunc(pods, func(pod protocol.Pod) bool { return pod.DeletionTimestamp == nil && m.placed[pod.UID] != "" })
}

// notePlaced records a placed pod, and forgets pods that do not exist any more.
func (m *memory) notePlaced(pod *protocol.Pod, there []protocol.Pod) {
	m.placed[pod.UID] = pod.ResourceVersion
	if len(m.placed) <= 2*len(there) {
		return
	}
	kept := map[types.UID]string{}
	for i := range there {
		if version, ok := m.placed[there[i].UID]; ok {
			kept[there[i].UID] = version
		}
	}
	m.placed = kept
}
