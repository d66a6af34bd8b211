// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A forecast tells the first end after which a gang fits, as who looks at one end after the other.
func TestForecastFindsTheFirstEnd(t *testing.T) {
	found := 0
	for seed := range uint64(60) {
		snap := clusterOf(seed, 20+int(seed%4)*40)
		c := newCycle(snap.snap, snap.room, noon.Add(time.Hour))
		c.enqueue()
		ends := c.expectedEnds()
		for _, q := range c.queues {
			for _, e := range q.waiting[:min(len(q.waiting), 5)] {
				want, fits := len(ends), false
				for n, s := 1, c.state; n <= len(ends) && !fits; n++ {
					if s = s.after(ends[n-1 : n]); s.fits(e, e.least()) >= e.least() {
						want, fits = n, true
					}
				}
				n, after, ok := c.ahead().until(e)
				if n != want || ok != fits || fits != (after.fits(e, e.least()) >= e.least()) {
					t.Fatalf("seed %d: %s fits after %d of %d ends (%t), want %d (%t)", seed, e.ID, n, len(ends), ok, want, fits)
				}
				if ok {
					found++
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d gangs fit after some end", found)
	}
}

// The profiles of all queues begin as if each were made for itself, whatever has started since the first, if all nodes are
// alike: what has started since may have other nodes in the profile.
func TestProfilesBeginAlike(t *testing.T) {
	started := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 13))
		snap := randomCluster(random)
		snap.room.only = nil
		for i := range snap.snap.Waiting {
			snap.snap.Waiting[i].Class = "one"
		}
		c := newCycle(snap.snap, snap.room, noon.Add(time.Minute))
		c.enqueue()
		var all []*entry
		for _, q := range c.queues {
			all = append(all, q.waiting...)
		}
		if len(all) == 0 {
			continue
		}
		c.newProfile(all[0])
		for _, e := range all {
			if random.IntN(2) == 0 && c.admit(e, "backfill") {
				started++
			}
		}
		from := all[random.IntN(len(all))]
		got := c.newProfile(from)
		c.plain = nil
		want := c.newProfile(from)
		if got, want := told(got, all), told(want, all); got != want {
			t.Fatalf("seed %d: the profile is\n%swant\n%s", seed, got, want)
		}
	}
	if started < 100 {
		t.Errorf("%d gangs started", started)
	}
}

// told is when the steps of a profile are, whether they are sure, and how much room they have for gangs.
func told(p *profile, gangs []*entry) string {
	out := ""
	for i := range p.steps {
		s := &p.steps[i]
		out += fmt.Sprint(s.at.Sub(noon), s.isSure())
		for _, e := range gangs {
			if len(e.nodes) == 0 {
				out += fmt.Sprint(" ", s.fits(e, e.least()))
			}
		}
		out += "\n"
	}
	return out
}
