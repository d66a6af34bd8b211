// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// block are stays of one attempt on neighboring nodes at the same time. Its nodes are from the row top to the row bottom,
// without that row. It has a part of its row if other gangs have the same node at the same time.
type block struct {
	gang        int
	attempt     *story.Attempt
	stay        story.Stay // the first one, with its end
	ranks       []int
	nodes       []string
	top, bottom float64
}

// blocks returns the blocks of all stories.
func (r *Record) blocks() (out []block) {
	row := map[string]int{}
	for i, node := range r.Nodes {
		row[node] = i
	}
	byRow := make([][]block, len(r.Nodes))
	for i := range r.Stories {
		for j := range r.Stories[i].Attempts {
			a := &r.Stories[i].Attempts[j]
			for _, stay := range a.Stays {
				stay.To = story.Earliest(stay.To, r.Last)
				at := row[stay.Node]
				byRow[at] = append(byRow[at], block{gang: i, attempt: a, stay: stay, ranks: []int{stay.Rank}, nodes: []string{stay.Node}})
			}
		}
	}
	for at, stays := range byRow {
		slices.SortStableFunc(stays, func(a, b block) int {
			return cmp.Or(a.stay.From.Compare(b.stay.From), cmp.Compare(a.gang, b.gang), cmp.Compare(a.stay.Rank, b.stay.Rank))
		})
		var l lanes
		for i := range stays {
			stays[i].top = float64(l.take(stays[i].stay.From, stays[i].stay.To))
		}
		for i := range stays {
			b := &stays[i]
			b.top = float64(at) + b.top/float64(len(l))
			b.bottom = b.top + 1/float64(len(l))
		}
	}
	return merge(slices.Concat(byRow...))
}

// merge makes one block of blocks below each other.
func merge(all []block) (out []block) {
	type edge struct {
		attempt  *story.Attempt
		from, to int64
		row      float64
	}
	ends := map[edge]int{} // the block that ends at a row
	for _, b := range all {
		at := edge{b.attempt, b.stay.From.UnixNano(), b.stay.To.UnixNano(), b.top}
		i, ok := ends[at]
		if ok {
			delete(ends, at)
			out[i].bottom = b.bottom
			out[i].ranks, out[i].nodes = append(out[i].ranks, b.ranks...), append(out[i].nodes, b.nodes...)
		} else {
			i = len(out)
			out = append(out, b)
		}
		at.row = b.bottom
		ends[at] = i
	}
	return out
}

// title says what a block is of a gang, in seconds of the drawing.
func (b *block) title(name string, first time.Time) string {
	return fmt.Sprintf("%s, ranks %s on %s: %.1f to %.1f s", name, idset.Encode(b.ranks), hostlist.Encode(b.nodes), b.stay.From.Sub(first).Seconds(), b.stay.To.Sub(first).Seconds())
}
