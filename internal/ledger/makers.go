// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// A pod that the API server binds when it is created may come at any time: its Job says to which node. So the pod holds
// the node from the moment the Job, or the JobSet that makes the Job, is seen, until the pod is seen, or Job and JobSet
// have been gone for a while. It does not matter whether the MiniCluster still needs the node, or a manager before this
// one gave the node.
//
// Events of different kinds come in any order: a pod may come after its Job is gone, and an admission may end before its
// JobSet is seen. Such pods are waited for, too (lateFor).

// lateFor is how long after the end of its maker a pod may be seen first.
const lateFor = 10 * time.Second

// maker is a Job or JobSet, with the ranks that need not be expected of it any more.
type maker struct {
	*state.Maker
	// made are the ranks whose pods were seen that a Job has made, or those whose Job a JobSet has made.
	made map[int]bool
	// gone is true for one that does not exist, or was not seen yet. until is when nothing is expected of it any more;
	// zero before Lapse has set that.
	gone  bool
	until time.Time
}

// SetMaker records the state of a Job or JobSet.
func (l *Ledger) SetMaker(now *state.Maker) {
	l.forgetMaker(unseen(now.Namespace, now.MiniCluster))
	set := l.setOf(now)
	if set != nil { // before the list may be dropped
		set.note(now, true)
	}
	m := l.makers[now.UID]
	isNew := m == nil
	if isNew {
		id := jobOf(now.Namespace, now.UID)
		m = &maker{made: l.early[id]}
		if m.made == nil {
			m.made = map[int]bool{}
		}
		delete(l.early, id)
		l.makers[now.UID] = m
	}
	m.list(l, now)
	if isNew {
		for _, job := range l.makers {
			if l.setOf(job.Maker) == m {
				m.note(job.Maker, true)
			}
		}
	}
	l.expect(m)
	if set != nil {
		l.expect(set)
	}
}

// setOf is the JobSet of a Job; nil if it was not seen. A Job of another namespace may name any UID.
func (l *Ledger) setOf(job *state.Maker) *maker {
	if set := l.makers[job.Set]; set != nil && set.Namespace == job.Namespace {
		return set
	}
	return nil
}

// DeleteMaker records that a Job or JobSet is gone. A JobSet makes a Job that was deleted anew, as long as the JobSet is
// there.
func (l *Ledger) DeleteMaker(uid types.UID) {
	m := l.makers[uid]
	if m == nil {
		return
	}
	if set := l.setOf(m.Maker); set != nil && !set.Leaves && !set.gone {
		set.note(m.Maker, false)
		l.expect(set)
	}
	if m.gone = true; m.Over {
		l.forgetMaker(uid)
		return
	}
	for rank := range m.made { // a JobSet that is gone makes no Job again; pods of its Jobs are expected by the Jobs
		m.made[rank] = true
	}
	l.expect(m)
}

// forgetMaker expects nothing of a Job or JobSet any more.
func (l *Ledger) forgetMaker(uid types.UID) {
	m := l.makers[uid]
	if m == nil {
		return
	}
	delete(l.makers, uid)
	m.list(l, &state.Maker{UID: uid, Namespace: m.Namespace})
}

// mostListed is how many pods the Jobs and JobSets of a namespace may list together. A JobSet and its Jobs list the same pods.
// Other lists count for nothing: whoever may create Jobs may write some, where no policy forbids that. Those that are over
// list as many apart from that: finished MiniClusters keep theirs.
const mostListed = 1 << 15

// listings say how many pods those Jobs and JobSets list that may list mostListed together.
type listings map[listing]int

type listing struct {
	namespace string
	over      bool
}

// add notes that a Job or JobSet lists more pods, or fewer.
func (l listings) add(m *state.Maker, pods int) {
	id := listing{m.Namespace, m.Over}
	if l[id] += pods; l[id] == 0 {
		delete(l, id)
	}
}

// list notes in a ledger what the Job or JobSet says now. Pods that it lists no more are not expected any more.
func (m *maker) list(l *Ledger, now *state.Maker) {
	var before []elastic.Pod
	if m.Maker != nil {
		before = m.Pods
		l.listed.add(m.Maker, -len(before))
	}
	if l.listed[listing{now.Namespace, now.Over}]+len(now.Pods) > mostListed {
		now.Pods = nil
	}
	l.listed.add(now, len(now.Pods))
	if !slices.Equal(before, now.Pods) {
		for _, pod := range before {
			delete(l.disowned, m.pod(pod.Rank))
			l.drop(m.pod(pod.Rank))
		}
	}
	m.Maker = now
}

// lapseMakers forgets those that have been gone for long enough. It returns when the next one will be; zero if there is none.
func (l *Ledger) lapseMakers(now time.Time) (next time.Time) {
	for uid, m := range l.makers {
		switch {
		case !m.gone:
			continue
		case m.until.IsZero():
			m.until = now.Add(lateFor)
		case !now.Before(m.until):
			l.forgetMaker(uid)
			continue
		}
		next = elastic.Earliest(next, m.until)
	}
	return next
}

// unseen names the JobSet of a MiniCluster that was not seen yet.
func unseen(namespace string, miniCluster types.UID) types.UID {
	return types.UID("unseen/"+namespace+"/") + miniCluster
}

// expectUnseen expects the pods of an admission that ends, if its JobSet may exist and was not seen yet.
func (l *Ledger) expectUnseen(uid types.UID, a *account) {
	if !l.expects {
		return
	}
	mc := l.miniClusters[uid]
	for _, m := range l.makers {
		if m.MiniCluster == uid && m.Namespace == mc.namespace {
			return
		}
	}
	set := &state.Maker{UID: unseen(mc.namespace, uid), MiniCluster: uid, Namespace: mc.namespace, Name: mc.name, Requests: a.written.Requests}
	for rank, node := range a.written.Nodes {
		if node != "" && !a.came[rank] {
			set.Pods = append(set.Pods, elastic.Pod{Rank: rank, Node: node})
		}
	}
	if len(set.Pods) > 0 {
		m := &maker{made: map[int]bool{}, gone: true}
		l.makers[set.UID] = m
		m.list(l, set)
		l.expect(m)
	}
}

// note records that a JobSet has made a Job, or has to make the Job again.
func (m *maker) note(job *state.Maker, made bool) {
	ranks := map[int]bool{}
	for _, pod := range job.Pods {
		ranks[pod.Rank] = true
	}
	for _, pod := range m.Pods {
		if ranks[pod.Rank] {
			m.made[pod.Rank] = made
		}
	}
}

// pod is the name by which the ledger knows a pod that is still to be made.
func (m *maker) pod(rank int) types.UID { return types.UID(fmt.Sprintf("%s/%d", m.UID, rank)) }

// Expect says whether the API server may bind pods when they are created. If it does not, a Job's nodes mean nothing, and
// anybody may have written them.
func (l *Ledger) Expect(may bool) {
	if l.expects == may {
		return
	}
	l.expects = may
	for _, m := range l.makers {
		l.expect(m)
	}
}

// expect records the pods that are still to be made. As with pods that are there, one that is no broker of a recorded
// MiniCluster is an ordinary one.
func (l *Ledger) expect(m *maker) {
	mc, known := l.miniClusters[m.MiniCluster]
	isOurs := known && mc.namespace == m.Namespace && mc.name == m.Name
	for _, pod := range m.Pods {
		p := &Pod{uid: m.pod(pod.Rank), rank: -1, node: pod.Node, requests: maps.Clone(m.Requests)}
		over := m.Over || m.made[pod.Rank]
		if over {
			delete(l.disowned, p.uid)
		}
		switch {
		case !l.expects || over || l.disowned[p.uid] != "":
			p = nil
		case isOurs && pod.Rank < mc.ranks:
			p.owner, p.rank = m.MiniCluster, pod.Rank
		default:
			delete(p.requests, fluxion.WholeNode)
		}
		l.Set(m.pod(pod.Rank), p)
	}
}

// arrive records that the pod of a rank is there. Its Job may be seen later.
func (l *Ledger) arrive(made *corev1.Pod) {
	job := metav1.GetControllerOfNoCopy(made)
	rank, isBroker := protocol.Rank(made)
	if job == nil || !isBroker {
		return
	}
	m, id := l.makers[job.UID], jobOf(made.Namespace, job.UID)
	switch {
	case m != nil && m.Namespace == made.Namespace && !m.made[rank]:
		m.made[rank] = true
		delete(l.disowned, m.pod(rank))
		l.drop(m.pod(rank))
	case m == nil && l.early[id] == nil:
		l.early[id] = map[int]bool{rank: true}
	case m == nil:
		l.early[id][rank] = true
	}
}

// leave forgets a pod that was there before its Job was seen.
func (l *Ledger) leave(made *corev1.Pod) {
	job := metav1.GetControllerOfNoCopy(made)
	if rank, isBroker := protocol.Rank(made); job != nil && isBroker {
		id := jobOf(made.Namespace, job.UID)
		if delete(l.early[id], rank); len(l.early[id]) == 0 {
			delete(l.early, id)
		}
	}
}

// jobOf names a Job by its UID. The controller that a pod names is in the namespace of the pod.
func jobOf(namespace string, uid types.UID) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: string(uid)}
}
