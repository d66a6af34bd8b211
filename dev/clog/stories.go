// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/story"
)

// Stories are the lives of the gangs, in the order of their submission. A try whose pods had nodes is an attempt.
func (r *Record) Stories() (out []story.Story) {
	for _, gang := range r.gangs {
		l := r.lives[gang.Name]
		s := story.Story{Name: l.Name, Submitted: l.submitted, Ended: l.finished, Wanted: int32(l.Size), Size: int32(l.held())}
		for i, t := range l.tries {
			a := t.attempt()
			if a.Number = int32(len(s.Attempts) + 1); a.Size == 0 {
				continue
			}
			if i == len(l.tries)-1 && !a.Started.IsZero() { // it lasts until its end is seen
				a.Ended = cmp.Or(l.finished, a.Ended)
			}
			s.Attempts = append(s.Attempts, a)
		}
		out = append(out, s)
	}
	return out
}

func (t *try) attempt() story.Attempt {
	a := story.Attempt{Started: t.ran}
	for _, pod := range slices.SortedFunc(maps.Values(t.pods), func(a, b *podLife) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.pinned.Compare(b.pinned)) }) {
		if !pod.pinned.IsZero() {
			a.Stays = append(a.Stays, story.Stay{Rank: pod.rank, Node: pod.node, From: pod.pinned, To: pod.ended})
			a.Admitted, a.Ended = story.Earliest(a.Admitted, pod.pinned), story.Later(a.Ended, pod.ended)
		}
	}
	if a.Size = int32(len(a.Stays)); t.live > 0 {
		a.Ended = time.Time{}
	}
	return a
}
