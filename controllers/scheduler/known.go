// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// known is a MiniCluster that the cache shows, translated once per version, pod and limit.
type known struct {
	version     string
	outdated    bool                  // it has to be read again, or was
	miniCluster *v1alpha2.MiniCluster // with defaults
	// mayCome is true if it may be queued after its check, and leaves if it is being deleted.
	mayCome, leaves bool
	// promise is what its status shows that it holds; nil if nothing.
	promise *state.Promise
	// running is the MiniCluster for the queue once it has nodes, and ask its request for more.
	running queue.Running
	ask     state.Ask
	reached uint64 // changes of volumes that ask.Reach contains
	// pod is one of its pods after admission by the API server, or else from its template.
	pod *corev1.Pod
	// entry is its entry in a cycle; nil if it has none.
	entry *entry
}

// catalog is the MiniClusters that the cache shows.
type catalog struct {
	ledger   *ledger.Ledger
	topology []state.TopologyLevel
	// known are the live MiniClusters that the cache shows, and others whose pods hold nodes.
	known map[types.UID]*known
	// strangers is true if pods or limits are kept of a MiniCluster that was not known.
	strangers bool
	// pods are pods of MiniClusters after admission by the API server, one of each MiniCluster, and services the services pods
	// of those that have been offered nodes.
	pods, services map[types.UID]*corev1.Pod
	// limits are the largest sizes of MiniClusters with quota from Kueue.
	limits map[types.UID]int
	// repairs are the displaced ranks for which other nodes are looked for.
	repairs map[types.UID][]int
}

// step updates the known MiniClusters and the ledger to what the cache shows.
func (ca *catalog) step(ctx context.Context, seen *clusterState) {
	seen.known = make([]*known, len(seen.miniClusters))
	for i, mc := range seen.miniClusters {
		k := ca.known[mc.UID]
		if k == nil || k.outdated || k.version != mc.ResourceVersion {
			if k != nil {
				k.outdated = true
			}
			k = ca.translate(ctx, mc)
			ca.known[mc.UID] = k
			ca.ledger.Confirm(mc.UID, k.promise)
			ca.ledger.SetMiniCluster(k.miniCluster)
		}
		k.entry, seen.known[i] = nil, k
	}
	if ca.strangers || len(ca.known) > len(seen.known) {
		ca.forgetGone(seen)
	}
}

// forgetGone forgets the MiniClusters that the cache does not show, unless their pods hold nodes, and still may.
func (ca *catalog) forgetGone(seen *clusterState) {
	there := make(map[types.UID]bool, len(seen.miniClusters))
	for _, mc := range seen.miniClusters {
		there[mc.UID] = true
	}
	for uid, k := range ca.known {
		if there[uid] {
			continue
		}
		delete(ca.repairs, uid)
		k.promise, k.outdated = nil, true
		ca.ledger.Confirm(uid, nil)
		ca.ledger.Forget(uid)
		if len(ca.ledger.Holds(uid)) == 0 { // its pods may still exist
			ca.ledger.DeleteMiniCluster(uid)
			delete(ca.known, uid)
		}
	}
	maps.DeleteFunc(ca.pods, func(uid types.UID, _ *corev1.Pod) bool { return !there[uid] })
	maps.DeleteFunc(ca.services, func(uid types.UID, _ *corev1.Pod) bool { return !there[uid] })
	maps.DeleteFunc(ca.limits, func(uid types.UID, _ int) bool { return !there[uid] })
	ca.strangers = false
}

// setPod keeps a pod of a MiniCluster after admission by the API server.
func (ca *catalog) setPod(uid types.UID, pod *corev1.Pod) {
	ca.pods[uid] = pod
	ca.outdate(uid)
}

// limit sets the largest size of a MiniCluster with quota from Kueue. It returns false if that is as before.
func (ca *catalog) limit(uid types.UID, most int) bool {
	before := ca.limits[uid]
	if most == before {
		return false
	}
	if order, _ := ca.ledger.OrderOf(uid); most < before {
		if _, grows := order.(elastic.Grow); grows {
			ca.ledger.Cancel(uid)
		}
	}
	ca.limits[uid] = most
	ca.outdate(uid)
	return true
}

// outdate lets a MiniCluster be read again, because its pod or its limit has changed.
func (ca *catalog) outdate(uid types.UID) {
	if k := ca.known[uid]; k != nil {
		k.outdated = true
	} else {
		ca.strangers = true
	}
}

// translate reads a MiniCluster. If its admission cannot be read, it holds what its pods hold,
// and its own pass reports the error.
func (ca *catalog) translate(ctx context.Context, mc *v1alpha2.MiniCluster) *known {
	k := &known{version: mc.ResourceVersion, mayCome: mayCome(mc), leaves: mc.DeletionTimestamp != nil, miniCluster: mc.DeepCopy()}
	k.miniCluster.Default()
	var err error
	admitted := ca.pods[mc.UID]
	if k.pod = admitted; admitted == nil {
		if k.pod, err = jobset.Pod(k.miniCluster); err != nil { // it has no pods either
			k.pod = &corev1.Pod{}
		}
	}
	var quota *v1alpha2.Quota
	if a := mc.Status.Admission; a != nil {
		quota = a.Quota
		k.pod = kueue.Confine(k.pod, quota)
	}
	k.ask = state.Request(k.miniCluster, k.pod, quota, ca.topology)
	if k.promise, err = state.PromiseOf(k.miniCluster); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading what a MiniCluster was promised", "MiniCluster", client.ObjectKeyFromObject(mc))
		k.promise = nil
	}
	k.running = state.Running(k.miniCluster, k.pod, k.promise)
	if admitted == nil { // which nodes more of its pods can use is not known yet
		k.running.Max = len(k.running.Ranks)
	}
	if quota != nil { // more brokers need more quota
		k.running.Max = max(min(k.running.Max, ca.limits[mc.UID]), len(k.running.Ranks))
	}
	if k.promise != nil {
		k.ask.Pods.Requests = k.promise.Requests
	}
	return k
}

// mayCome reports whether a MiniCluster may be queued after its check.
func mayCome(mc *v1alpha2.MiniCluster) bool {
	return mc.Spec.IsOurs() && !mc.IsSuspended() && mc.Status.Admission == nil &&
		!meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// promised are the known MiniClusters that were promised nodes.
func (ca *catalog) promised() iter.Seq2[types.UID, *known] {
	return func(yield func(types.UID, *known) bool) {
		for _, uid := range ca.ledger.Holders() {
			if k := ca.known[uid]; k != nil && ca.ledger.Promised(uid) != nil && !yield(uid, k) {
				return
			}
		}
	}
}
