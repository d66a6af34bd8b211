// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import "maps"

// rounding is what shares that are the same may differ by.
const rounding = 1e-9

// reclaim takes nodes for gangs that are blocked from other queues which have more
// than they deserve, and leaves them that.
func (p *plan) reclaim() {
	for _, head := range p.heads() {
		if p.comes(head) || !p.deserves(head) {
			continue
		}
		p.takeFor(head, "reclaim", func(r *run) bool {
			return r.line != head.line && r.line.Reclaimable
		}, spares)
	}
}

// deserves reports whether a queue stays within its share, or what it was promised,
// with a gang.
func (p *plan) deserves(e *entry) bool {
	l := e.line
	after := maps.Clone(p.coming.used[l.index])
	promised := false
	for name, amount := range e.Requests {
		after[name] += amount * int64(e.least())
		promised = promised || l.Guarantee[name] > 0
	}
	for name, guarantee := range l.Guarantee {
		promised = promised && (e.Requests[name] == 0 || after[name] <= guarantee)
	}
	return promised || p.coming.share(after) <= l.deserved+rounding
}

// spares reports whether a queue keeps what it deserves without n pods of a gang.
func spares(v *view, r *run, n int) bool {
	left := Resources{}
	for name, amount := range v.used[r.line.index] {
		left[name] = amount - r.Requests[name]*int64(n)
	}
	return v.share(left) >= r.line.deserved-rounding
}
