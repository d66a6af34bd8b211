// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import "time"

// Gang is a gang without Flux: all of its pods succeed together, some time after all of them run.
type Gang struct{ end time.Time }

// Look says whether the gang is over, and otherwise when it will be; 0 if pods are missing, after which it starts again.
func (g *Gang) Look(online, size int, runtime time.Duration, now time.Time) (over bool, again time.Duration) {
	switch {
	case !g.end.IsZero() && !now.Before(g.end):
		return true, 0
	case online < size:
		g.end = time.Time{}
		return false, 0
	case g.end.IsZero():
		g.end = now.Add(runtime)
	}
	return false, g.end.Sub(now)
}
