// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// command is a command that the lead of the toy cluster runs again, after a checkpoint.
type command struct {
	// runs is the last restart that the lead was told and has carried out.
	runs int
	// until is until when it writes a checkpoint before it ends; zero if it does not. down is when it ended; zero if it
	// has not.
	until, down time.Time
	isDown      bool
	lost        bool         // it ended since it lost a broker
	ranks       map[int]bool // with which it ran before
}

// liveCommand is what the lead's script does with a command that can be run again. It reports whether that is all that
// the lead does now.
func (w *world) liveCommand(lead *Broker, up map[int]bool) bool {
	c := &w.command
	lost := false
	for rank := range w.began {
		lost = lost || (!w.joined[rank] && w.pods[rank].State != Succeeded)
	}
	switch {
	case c.isDown: // it waits for its brokers
		w.runAgain(lead, up)
	case lost && w.policy.OnLoss != LossRecreate:
		return false
	case lost, !c.until.IsZero() && !w.now.Before(c.until):
		c.until, c.down, c.isDown = time.Time{}, w.now, true
		c.ranks, w.began, c.lost = w.began, map[int]bool{}, lost
		lead.Ready = false
	case !c.until.IsZero(): // it writes its checkpoint
	case w.toldAgain.Number > c.runs && (w.random.IntN(2) == 0 || w.now.Sub(w.toldAt) > 5*time.Second):
		c.until = w.now.Add(time.Duration(w.random.Int64N(int64(w.policy.CheckpointWait + killGrace))))
	case w.policy.TellsCheckpoints && w.random.IntN(10) == 0:
		lead.ReadySince = w.now // not ready for a moment
		return false
	case w.toldAgain.Number > c.runs:
	default:
		return false
	}
	return true
}

// runAgain runs the command again with the ranks that the lead was told, or those that are left after a loss.
func (w *world) runAgain(lead *Broker, up map[int]bool) {
	c, ranks := &w.command, map[int]bool{}
	if w.toldAgain.Number > c.runs {
		for _, rank := range w.toldAgain.Ranks {
			ranks[rank] = up[rank]
		}
	} else {
		for rank := range c.ranks {
			ranks[rank] = up[rank]
		}
	}
	there := map[int]bool{}
	for rank, is := range ranks {
		if is {
			there[rank] = true
		}
	}
	if enough := len(there) == len(ranks) || (c.lost && len(there) >= w.policy.Sizing.Min); !enough || w.random.IntN(2) > 0 {
		return
	}
	w.began, c.isDown, c.runs = there, false, max(c.runs, w.toldAgain.Number)
	lead.Ready, lead.ReadySince = true, w.now
}

// checkRestart asserts what must hold of decisions about a command that runs.
func (w *world) checkRestart(o *Observation, plan Plan, fail func(string, ...any)) {
	w.t.Helper()
	if !o.begun() || o.Outcome != "" {
		fail("decided about a command that does not run")
	}
	switch s := plan.Step.(type) {
	case Restart:
		if !w.policy.Restarts || (o.restarting() && len(s.Lost) == 0) {
			fail("restarts a command that cannot be restarted now")
		}
		if slices.Contains(s.Leaving, 0) || slices.Contains(s.Lost, 0) || s.Quorum < 1 {
			fail("restarts without the lead")
		}
		if s.Quorum < w.least {
			fail("restarts with %d brokers", s.Quorum)
		}
		if stay := len(less(o.Admission.Members(), union(s.Leaving, s.Lost))); s.Quorum != stay {
			fail("restarts with %d of %d brokers", s.Quorum, stay)
		}
		if len(s.Lost) == 0 && len(o.Admission.Joining) == 0 && len(s.Leaving) == 0 {
			fail("restarts for nothing")
		}
	case Restarted:
		if w.command.isDown {
			fail("the command does not run again")
		}
		if o.Admission.Restart.Again && o.Admission.Losses == 0 && !w.policy.TellsCheckpoints && w.command.runs < o.Admission.Restarts {
			fail("the command has not ended since the lead was told")
		}
	case Checkpointed:
		if !w.policy.TellsCheckpoints {
			fail("the command cannot tell about checkpoints")
		}
	case Warn:
		if e := o.Admission.Eviction; e != nil && (!s.Again || e.Again) || !s.Deadline.After(w.now) {
			fail("warned twice, or too late")
		}
	}
}

// Lives of commands that are run again with other brokers, with all kinds of orders and faults: each comes to an end,
// holds nothing after it, and no broker is taken from a command that runs.
func TestLivesWithRestarts(t *testing.T) {
	steps, outcomes := map[string]int{}, map[Outcome]int{}
	for seed := range uint64(800) {
		w := newWorld(t, seed)
		w.policy.Malleable, w.policy.Restarts = false, true
		w.policy.OnLoss = []LossPolicy{LossRecreate, LossRecreate, LossFail}[seed%3]
		w.policy.CheckpointWait = time.Duration(1+seed%5*20) * time.Second
		w.policy.AsksForCheckpoint, w.policy.TellsCheckpoints = seed%2 == 0, seed%4 < 2
		w.policy.Deadline, w.atLeast = 20*time.Minute, time.Duration(seed%7)*time.Minute
		if seed%4 == 1 {
			w.policy.Deadline, w.policy.Requeues = 5*time.Minute, 3
		}
		w.policy.Sizing.Size = 2 + int(seed%5)
		w.policy.Max = w.policy.Sizing.Size + int(seed%3)
		if seed%5 == 0 {
			w.policy.Sizing.Operator, w.policy.Sizing.Operand = elastic.Multiply, 2
		}
		w.faults = faults{
			neverStarts: w.random.IntN(20), nodeGoes: w.random.IntN(2) * 3000, evicted: w.random.IntN(2) * 3000,
			fails: w.random.IntN(4), resizes: w.random.IntN(60), crashes: w.random.IntN(500), ignores: w.random.IntN(4), away: w.random.IntN(2) * 8,
		}
		w.orders = w.anyOrder
		w.run()
		for rank, pod := range w.pods {
			if pod.holdsNode() {
				t.Fatalf("seed %d: rank %d still holds a node after the end:\n%s", seed, rank, w.end())
			}
		}
		outcomes[w.Outcome]++
		for step, n := range w.steps {
			steps[step] += n
		}
	}
	for _, step := range []string{"Restart", "Restarted", "Prolong", "Checkpointed", "Warn", "Evict", "Grow", "Vacate"} {
		if steps[step] < 40 {
			t.Errorf("only %d times %s in 800 lives (%v)", steps[step], step, steps)
		}
	}
	if outcomes[OutcomeSucceeded] < 120 {
		t.Errorf("only %d of 800 commands succeeded (%v)", outcomes[OutcomeSucceeded], outcomes)
	}
}
