// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// clear moves running gangs off nodes that are about to go away. Ranks of a malleable gang leave these nodes. A gang that
// would be too small then, or whose lead is there, is evicted if its command has not begun, or writes a checkpoint first.
// Other gangs stay: the nodes may go later than the gangs end.
func (p *preemptor) clear() {
	for _, r := range p.runs {
		going := r.staysOn()
		switch stays := r.Malleable && !slices.Contains(going, 0) && r.kept()-len(going) >= r.least(); {
		case len(going) == 0:
			continue
		case stays && len(r.draining) == 0:
			r.drains = append(r.drains, going...)
			slices.Sort(r.drains)
		case !stays && (r.Began.IsZero() || r.SaveCost > 0):
			r.evicted, r.drains = true, nil
		default:
			continue
		}
		r.taker, r.action = nil, "clear"
		p.forecasts, p.took = nil, true
	}
}

// staysOn are the ranks on nodes that are about to go, of which nobody has decided yet that they leave.
func (r *run) staysOn() []int {
	if r.Ending || r.Changing && !r.Sought || r.evicted {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Going), func(rank int) bool {
		return slices.Contains(r.draining, rank) || slices.Contains(r.drains, rank)
	})
}
