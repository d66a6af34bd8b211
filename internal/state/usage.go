// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Spent is what attempts of a MiniCluster used, and when the last of them ended.
type Spent struct {
	v1alpha2.Usage
	Until time.Time
}

// SpentSince is what the attempts used that ended from one version of a MiniCluster to a later one; false if none
// ended, or none used anything.
func SpentSince(old, mc *v1alpha2.MiniCluster) (Spent, bool) {
	var before v1alpha2.Usage
	if old.Status.Usage != nil {
		before = *old.Status.Usage
	}
	if mc.Status.Usage == nil || *mc.Status.Usage == before {
		return Spent{}, false
	}
	return Spent{
		Usage: v1alpha2.Usage{
			UsefulNodeSeconds: mc.Status.Usage.UsefulNodeSeconds - before.UsefulNodeSeconds,
			LostNodeSeconds:   mc.Status.Usage.LostNodeSeconds - before.LostNodeSeconds,
		},
		Until: SpentAfter(mc, time.Time{}).Until,
	}, true
}

// SpentAfter is what the attempts used that ended after a time, as far as the status still lists them.
func SpentAfter(mc *v1alpha2.MiniCluster, after time.Time) Spent {
	var out Spent
	for i := range mc.Status.Attempts {
		if a := &mc.Status.Attempts[i]; a.Ended.After(after) {
			out.LostNodeSeconds += a.NodeSeconds
			out.Until = a.Ended.Time
		}
	}
	end, a := mc.Status.CompletionTime, mc.Status.Admission
	if end == nil || !end.After(after) || a == nil || a.Usage == nil || mc.Status.Usage == nil {
		return out
	}
	if out.Until = end.Time; mc.Status.Usage.UsefulNodeSeconds > 0 { // otherwise it is the last of its attempts
		out.UsefulNodeSeconds = mc.Status.Usage.UsefulNodeSeconds
		out.LostNodeSeconds += a.Usage.StartingNodeSeconds
	}
	return out
}

// SpentAtDeletion is what a MiniCluster that is gone used in an attempt that it did not end, until its deletion. A manager
// that was away does not know when that was: until, when the cache lost it.
func SpentAtDeletion(mc *v1alpha2.MiniCluster, until time.Time) Spent {
	attempt, err := recordOf(mc)
	if err != nil || attempt.Admission == nil || mc.Status.CompletionTime != nil {
		return Spent{}
	}
	if mc.DeletionTimestamp != nil {
		until = mc.DeletionTimestamp.Time
	}
	var held life.Usage
	if a := mc.Status.Admission; a.Usage != nil {
		held.Held, held.At = a.Usage.NodeSeconds, a.Usage.Until.Time
	}
	lost := held.After(attempt, life.Record{}, until).Lost
	return Spent{Usage: v1alpha2.Usage{LostNodeSeconds: lost}, Until: until}
}
