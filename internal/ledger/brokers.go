// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// miniCluster is what says which pods belong to a MiniCluster.
type miniCluster struct {
	namespace, name string
	ranks           int // its brokers have lower ranks
}

// claimants are the MiniClusters, and the pods that say that they belong to one.
type claimants struct {
	miniClusters map[types.UID]miniCluster
	// claims are the placed pods that say that they belong to a MiniCluster, by its UID and theirs, and claimed
	// says to which one. disowned are pods that count as pods of others, also some that are still to be made, with
	// their MiniCluster.
	claims   map[types.UID]map[types.UID]*corev1.Pod
	claimed  map[types.UID]types.UID
	disowned map[types.UID]types.UID
}

// SetMiniCluster records a MiniCluster, with its defaults. Only pods of recorded MiniClusters are
// brokers: anybody may write labels.
func (l *Ledger) SetMiniCluster(mc *v1alpha2.MiniCluster) {
	now := miniCluster{mc.Namespace, mc.Name, state.Ranks(mc)}
	if l.miniClusters[mc.UID] != now {
		l.miniClusters[mc.UID] = now
		l.judge(mc.UID)
	}
}

// DeleteMiniCluster forgets a MiniCluster. Its pods are ordinary ones from now on.
func (l *Ledger) DeleteMiniCluster(uid types.UID) {
	delete(l.miniClusters, uid)
	l.judge(uid)
}

// Disown lets the pods of some ranks of a MiniCluster be ordinary ones from now on. Those that are still to be made hold
// nothing until they are there.
func (l *Ledger) Disown(uid types.UID, ranks []int) {
	if len(ranks) == 0 {
		return
	}
	for _, made := range l.claims[uid] {
		if owner, rank, ok := l.ownerByLabels(made); ok && owner == uid && slices.Contains(ranks, rank) {
			l.disowned[made.UID] = uid
			l.set(made)
		}
	}
	for _, m := range l.makers {
		if m.MiniCluster != uid {
			continue
		}
		for _, pod := range m.Pods {
			if slices.Contains(ranks, pod.Rank) && !m.made[pod.Rank] {
				l.disowned[m.pod(pod.Rank)] = uid
			}
		}
		l.expect(m)
	}
}

// HasDisowned reports whether pods of a MiniCluster are disowned whose Jobs exist. Their ranks get no others before the pods
// are gone.
func (l *Ledger) HasDisowned(uid types.UID) bool {
	for pod, owner := range l.disowned {
		if made := l.claims[owner][pod]; owner == uid && (made == nil || l.hasMaker(made)) {
			return true
		}
	}
	return false
}

// hasMaker reports whether the Job of a pod exists.
func (l *Ledger) hasMaker(made *corev1.Pod) bool {
	job := metav1.GetControllerOfNoCopy(made)
	if job == nil {
		return false
	}
	m := l.makers[job.UID]
	return m != nil && !m.gone
}

// judge decides anew about the pods that say that they belong to a MiniCluster.
func (l *Ledger) judge(uid types.UID) {
	for _, made := range l.claims[uid] {
		l.set(made)
	}
	for _, m := range l.makers {
		if m.MiniCluster == uid {
			l.expect(m)
		}
	}
}

// claim notes a pod that says that it belongs to a MiniCluster, as long as it may hold something.
func (l *claimants) claim(made *corev1.Pod) {
	uid := types.UID(made.Labels[v1alpha2.UIDLabel])
	if before, claimed := l.claimed[made.UID]; claimed && before != uid {
		l.unclaim(made.UID)
	}
	if uid == "" || protocol.PinnedNode(made) == "" || protocol.Ended(made) || protocol.MiniClusterOf(made) == "" {
		l.unclaim(made.UID)
		return
	}
	if l.claims[uid] == nil {
		l.claims[uid] = map[types.UID]*corev1.Pod{}
	}
	l.claims[uid][made.UID], l.claimed[made.UID] = made, uid
}

func (l *claimants) unclaim(pod types.UID) {
	uid, claimed := l.claimed[pod]
	if !claimed {
		return
	}
	delete(l.claimed, pod)
	delete(l.disowned, pod)
	if delete(l.claims[uid], pod); len(l.claims[uid]) == 0 {
		delete(l.claims, uid)
	}
}

// ownerOf is the recorded MiniCluster of a pod, and the pod's rank, which is negative for the services
// pod. ok is false for a pod of others, whatever its labels say, and for one that is disowned.
func (l *claimants) ownerOf(made *corev1.Pod) (owner types.UID, rank int, ok bool) {
	if l.disowned[made.UID] != "" {
		return "", -1, false
	}
	return l.ownerByLabels(made)
}

// ownerByLabels is ownerOf for a pod that may be disowned.
func (l *claimants) ownerByLabels(made *corev1.Pod) (owner types.UID, rank int, ok bool) {
	owner = types.UID(made.Labels[v1alpha2.UIDLabel])
	mc, known := l.miniClusters[owner]
	if !known || mc.namespace != made.Namespace || mc.name != protocol.MiniClusterOf(made) {
		return "", -1, false
	}
	if made.Labels[jobsetapi.ReplicatedJobNameKey] == v1alpha2.ServicesJob {
		return owner, -1, true
	}
	rank, ok = protocol.Rank(made)
	return owner, rank, ok && rank >= 0 && rank < mc.ranks
}

// set records the state of a pod with the labels of a MiniCluster.
func (l *Ledger) set(made *corev1.Pod) {
	l.arrive(made)
	owner, rank, ours := l.ownerOf(made)
	if !ours {
		l.Set(made.UID, PodOf(made, false))
		return
	}
	p := ourPod(made, owner, rank)
	if p != nil && made.Spec.NodeName == "" && !l.placed(p) {
		p = nil
	}
	l.Set(made.UID, p)
	if a := l.accounts[owner]; a != nil && rank >= 0 && !a.came[rank] {
		a.came[rank] = true
		if a.promise != nil && a.promise.Holds(rank) {
			l.came, l.cameOf = l.came+1, owner
		}
	}
}

// placed reports whether a pod that is not bound yet has its pin from the manager: its rank was promised the node, and
// it takes what was promised. Who may create Jobs may make pods that look like brokers, with any pins and requests.
func (l *Ledger) placed(p *Pod) bool {
	if before := l.pods[p.uid]; before != nil && before.same(p) {
		return true // also if the promise has ended since
	}
	a := l.accounts[p.owner]
	if a == nil || !a.promises(p) {
		return false
	}
	stands, taken := a.stand[p.rank]
	return !taken || stands == p.uid
}

// ourPod is what the ledger keeps of a pod of a recorded MiniCluster; nil if the pod holds nothing. The
// pod holds the node to which it is pinned before it is bound there.
func ourPod(made *corev1.Pod, owner types.UID, rank int) *Pod {
	node := protocol.PinnedNode(made)
	if node == "" || protocol.Ended(made) {
		return nil
	}
	return &Pod{uid: made.UID, owner: owner, rank: rank, node: node, requests: state.Requests(made)}
}

// PodOf is what the ledger keeps of a pod of others; nil if the pod holds nothing. The pod holds only the
// node to which it is bound, and never the whole node. A pod of a DaemonSet holds its node before it is
// bound there, if there is room beside the other daemons: the caller says whether the pod really is one.
func PodOf(made *corev1.Pod, daemonSet bool) *Pod {
	node := made.Spec.NodeName
	if daemonSet {
		node = protocol.PinnedNode(made)
	}
	if node == "" || protocol.Ended(made) {
		return nil
	}
	requests, foreign := state.Requests(made), isForeign(made)
	delete(requests, fluxion.WholeNode)
	return &Pod{
		uid: made.UID, rank: -1, node: node, requests: requests, foreign: foreign,
		daemon: daemonSet || (foreign && isStatic(made)), expected: made.Spec.NodeName == "",
		repels: state.Repulsions(made),
	}
}

// isStatic reports whether a pod mirrors a static pod of its node. The kubelet deletes other pods that
// say so.
func isStatic(made *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(made)
	_, mirror := made.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror && owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == made.Spec.NodeName
}

// isForeign reports whether a pod has no label of a MiniCluster: the watch of other pods shows it.
func isForeign(made *corev1.Pod) bool {
	_, labelled := made.Labels[v1alpha2.MiniClusterLabel]
	return !labelled
}
