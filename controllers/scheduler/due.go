// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

const (
	// settlesIn is how long after nodes became free others may follow, and settlesAtLast the
	// limit for that.
	settlesIn     = 200 * time.Millisecond
	settlesAtLast = 2 * time.Second
)

// due is why a cycle is due, or when.
type due struct {
	// changed is true if anything but freed nodes may change a decision. freed is the ledger's
	// count at the last cycle. lookAgain is when time alone may change a decision.
	changed   bool
	freed     uint64
	lookAgain time.Time
	// owed is true if an order waits until an earlier one is recorded.
	owed bool
	// freedSince is when nodes became free first since all had settled, and settles is when they
	// will have.
	freedSince, settles time.Time
	// wanted are what the gangs of the last cycle ask for that wait or may grow, one for each class.
	wanted map[string]state.Ask
	// gangs is the memory of the snapshot of a cycle.
	gangs []queue.Gang
	// kick asks for a cycle.
	kick chan event.GenericEvent
}

// wake asks for a cycle, unless one was asked for.
func (d *due) wake() {
	d.changed = true
	d.ask()
}

// ask asks for a look at whether a cycle is due.
func (d *due) ask() {
	select {
	case d.kick <- event.GenericEvent{Object: &v1alpha2.MiniCluster{}}:
	default:
	}
}

// isDue reports whether something has changed that may matter.
func (d *due) isDue(freed uint64, now time.Time) bool {
	return d.changed || d.freed != freed || !d.lookAgain.IsZero() && !now.Before(d.lookAgain)
}

// settle records that something was freed.
func (d *due) settle(now time.Time) {
	if d.freedSince.IsZero() || now.Sub(d.settles) >= settlesAtLast {
		d.freedSince = now
	}
	d.settles = elastic.Earliest(now.Add(settlesIn), d.freedSince.Add(settlesAtLast))
}

// step notes whether all has settled.
func (d *due) step(now time.Time) {
	if !now.Before(d.settles) {
		d.freedSince = time.Time{}
	}
}
