// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// cacheDelay is how long the cache may take at most to show a new Workload.
const cacheDelay = 5 * time.Second

// Memory is what the manager remembers of the quota of a MiniCluster. It is empty after a restart.
type Memory struct {
	// asked is when a Workload was last created.
	asked time.Time
	// pausedUntil is when the MiniCluster may ask Kueue for quota to grow, which has refused that as often in a row as refusals.
	pausedUntil time.Time
	refusals    int
	// wrote are the resource versions, by UID, on which writes of Workloads are based.
	wrote map[types.UID]string
}

// MayAsk reports whether the cache must have shown the last Workload that was created.
func (m *Memory) MayAsk(now time.Time) bool { return now.Sub(m.asked) >= cacheDelay }

// NoteAsked records that a Workload is about to be created.
func (m *Memory) NoteAsked(now time.Time) { m.asked = now }

// NotePatch records that a Workload was patched. It pauses if that lets quota to grow go that was never used.
func (m *Memory) NotePatch(q *Quota, write Write, before, after *kueueapi.Workload) {
	if before.ResourceVersion != after.ResourceVersion { // something was changed
		if m.wrote == nil {
			m.wrote = map[types.UID]string{}
		}
		m.wrote[before.UID] = before.ResourceVersion
	}
	if write == Patch && before != q.Workload && refused(after) {
		m.refusals++
		m.pausedUntil = q.Input.Now.Add(pauseAfter(m.refusals))
	}
}

// IsOutdated reports whether the cache does not show the last patch of a Workload yet.
func (m *Memory) IsOutdated(q *Quota) bool {
	return slices.ContainsFunc(append([]*kueueapi.Workload{q.Workload}, q.Input.Growth...), func(wl *kueueapi.Workload) bool {
		return wl != nil && wl.ResourceVersion != "" && m.wrote[wl.UID] == wl.ResourceVersion
	})
}
