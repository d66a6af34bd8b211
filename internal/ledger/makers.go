// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// A pod that the API server binds when it is created may come at any time: its Job says to which node. So the pod holds
// the node from the moment the Job, or the JobSet that makes the Job, is seen, until the pod is seen, or Job and JobSet
// are gone. It does not matter whether the MiniCluster still needs the node, or a manager before this one gave the node.

// maker is a Job or JobSet, with the ranks that need not be expected of it any more.
type maker struct {
	*state.Maker
	// made are the ranks whose pods were seen that a Job has made, or those whose Job a JobSet has made.
	made map[int]bool
}

// SetMaker records the state of a Job or JobSet.
func (l *Ledger) SetMaker(now *state.Maker) {
	m := l.makers[now.UID]
	if m == nil {
		id := jobOf(now.Namespace, now.UID)
		m = &maker{made: l.early[id]}
		if m.made == nil {
			m.made = map[int]bool{}
		}
		delete(l.early, id)
		l.makers[now.UID] = m
		for _, job := range l.makers {
			if job.Maker != nil && job.Set == now.UID {
				m.note(job, true)
			}
		}
	}
	m.Maker = now
	l.expect(m)
	if set := l.makers[now.Set]; set != nil {
		set.note(m, true)
		l.expect(set)
	}
}

// DeleteMaker forgets a Job or JobSet that is gone. A JobSet makes a Job that was deleted anew.
func (l *Ledger) DeleteMaker(uid types.UID) {
	m := l.makers[uid]
	if m == nil {
		return
	}
	if set := l.makers[m.Set]; set != nil && !set.Leaves {
		set.note(m, false)
		l.expect(set)
	}
	delete(l.makers, uid)
	for _, pod := range m.Pods {
		l.drop(m.pod(pod.Rank))
	}
}

// note records that a JobSet has made a Job, or has to make the Job again.
func (m *maker) note(job *maker, made bool) {
	for _, pod := range job.Pods {
		m.made[pod.Rank] = made
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
		switch {
		case !l.expects || m.Over || m.made[pod.Rank]:
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
