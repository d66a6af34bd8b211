// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const (
	// retryAfter is when a MiniCluster without room asks for quota again, at the earliest, and retryMost at the latest. With this
	// project's admission check the time doubles with each retry. Without the check nobody counts the retries: the time is the
	// age of the Workload, divided by retryShare.
	retryAfter = 15 * time.Second
	retryShare = 20
	retryMost  = 5 * time.Minute
)

// pause is how long a Workload waits that gives its quota back; roomless is how long it waits if there was no room.
func pause(wl *kueueapi.Workload, in Input, roomless time.Duration) time.Duration {
	switch {
	case in.Now.Before(in.NotBefore):
		return in.NotBefore.Sub(in.Now)
	case len(wl.Status.ReclaimablePods) > 0: // it needs quota for all pods again, and no room
		return time.Second
	}
	return min(roomless, retryMost)
}

// triesOf is how often a Workload gave quota back for want of room, by this project's admission check; 0 without the check.
func triesOf(wl *kueueapi.Workload, in Input) int32 {
	ours, _ := ownChecks(wl, in.Cluster)
	tries := int32(0)
	for _, i := range ours {
		tries = max(tries, ptr.Deref(wl.Status.AdmissionChecks[i].RetryCount, 0))
	}
	return tries
}

// beginBackoff lets a Workload wait that lost its quota because this project's admission check said
// Retry. The check itself names no time: Kueue 0.19 would keep the quota until then, and evict the
// Workload only afterwards.
func beginBackoff(wl *kueueapi.Workload, in Input) {
	state := ptr.Deref(wl.Status.RequeueState, kueueapi.RequeueState{})
	if state.RequeueAt != nil && in.Now.Before(state.RequeueAt.Time) {
		return // Kueue waits for a check of others
	}
	tries := triesOf(wl, in)
	if tries == 0 {
		return
	}
	state.RequeueAt = ptr.To(metav1.NewTime(in.Now.Add(pause(wl, in, retryAfter<<min(tries-1, 10)))))
	wl.Status.RequeueState = &state
}

// endBackoff ends the pause of a Workload. Kueue cannot: it does not remove a time that it did not write. Once the time is gone,
// Kueue sets the condition Requeued. The manager does not: Kueue may queue the Workload that it read before the manager's write,
// and would never try a Workload that it knows as not requeued.
func endBackoff(wl *kueueapi.Workload, in Input) bool {
	state := wl.Status.RequeueState
	if state == nil || state.RequeueAt == nil || in.Now.Before(state.RequeueAt.Time) {
		return false
	}
	state.RequeueAt = nil
	return true
}
