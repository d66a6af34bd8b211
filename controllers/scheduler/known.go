// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"iter"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
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

// learn updates the known MiniClusters and the ledger to what the cache shows.
func (s *Scheduler) learn(ctx context.Context, seen *clusterState, now time.Time) {
	s.ledger.Expect(s.MayBind != nil && s.MayBind())
	seen.known = make([]*known, len(seen.miniClusters))
	for i, mc := range seen.miniClusters {
		k := s.known[mc.UID]
		if k == nil || k.outdated || k.version != mc.ResourceVersion {
			if k != nil {
				k.outdated = true
			}
			k = s.translate(ctx, mc)
			s.known[mc.UID] = k
			s.ledger.Confirm(mc.UID, k.promise)
			s.ledger.SetMiniCluster(k.miniCluster)
		}
		k.entry, seen.known[i] = nil, k
	}
	if s.strangers || len(s.known) > len(seen.known) {
		s.forgetGone(seen)
	}
	s.ledger.Lapse(now)
	for uid, k := range s.promised() {
		name := client.ObjectKeyFromObject(k.miniCluster)
		if e := s.entries[name]; e != nil && e.miniCluster.UID == uid && k.promise != nil {
			delete(s.entries, name) // it took its nodes
		}
	}
}

// forgetGone forgets the MiniClusters that the cache does not show, unless their pods hold nodes, and still may.
func (s *Scheduler) forgetGone(seen *clusterState) {
	there := make(map[types.UID]bool, len(seen.miniClusters))
	for _, mc := range seen.miniClusters {
		there[mc.UID] = true
	}
	for uid, k := range s.known {
		if there[uid] {
			continue
		}
		delete(s.repairs, uid)
		k.promise, k.outdated = nil, true
		s.ledger.Confirm(uid, nil)
		s.ledger.Forget(uid)
		if len(s.ledger.Holds(uid)) == 0 { // its pods may still exist
			s.ledger.DeleteMiniCluster(uid)
			delete(s.known, uid)
		}
	}
	maps.DeleteFunc(s.pods, func(uid types.UID, _ *corev1.Pod) bool { return !there[uid] })
	maps.DeleteFunc(s.services, func(uid types.UID, _ *corev1.Pod) bool { return !there[uid] })
	maps.DeleteFunc(s.limits, func(uid types.UID, _ int) bool { return !there[uid] })
	s.strangers = false
}

// outdate lets a MiniCluster be read again, because its pod or its limit has changed.
func (s *Scheduler) outdate(uid types.UID) {
	if k := s.known[uid]; k != nil {
		k.outdated = true
	} else {
		s.strangers = true
	}
}

// translate reads a MiniCluster. If its admission cannot be read, it holds what its pods hold,
// and its own pass reports the error.
func (s *Scheduler) translate(ctx context.Context, mc *v1alpha2.MiniCluster) *known {
	k := &known{version: mc.ResourceVersion, mayCome: mayCome(mc), leaves: mc.DeletionTimestamp != nil, miniCluster: mc.DeepCopy()}
	k.miniCluster.Default()
	var err error
	admitted := s.pods[mc.UID]
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
	k.ask = state.Request(k.miniCluster, k.pod, quota, s.topology)
	if k.promise, err = state.PromiseOf(k.miniCluster); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading what a MiniCluster was promised", "MiniCluster", client.ObjectKeyFromObject(mc))
		k.promise = nil
	}
	k.running = state.Running(k.miniCluster, k.pod, k.promise)
	if admitted == nil { // which nodes more of its pods can use is not known yet
		k.running.Max = len(k.running.Ranks)
	}
	if quota != nil { // more brokers need more quota
		k.running.Max = max(min(k.running.Max, s.limits[mc.UID]), len(k.running.Ranks))
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
func (s *Scheduler) promised() iter.Seq2[types.UID, *known] {
	return func(yield func(types.UID, *known) bool) {
		for _, uid := range s.ledger.Holders() {
			if k := s.known[uid]; k != nil && s.ledger.Promised(uid) != nil && !yield(uid, k) {
				return
			}
		}
	}
}
