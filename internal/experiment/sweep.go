// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

// phase is how far a run has come. It only goes up.
type phase int

const (
	pending    phase = iota // there is no MiniCluster yet
	submitting              // the MiniCluster is being created
	live                    // the MiniCluster is in the cluster, and has not ended
	ended                   // the MiniCluster has ended, and the run has no record yet
	recording               // the log is being kept and the record written
	recorded                // the record is written, and the MiniCluster may still be in the cluster
	deleting                // the MiniCluster is being deleted
	done
)

type progress struct {
	Run
	phase phase
	mc    *v1alpha2.MiniCluster // the last known state; nil before the first one is known
	end   string                // see NewRecord
	there bool                  // the MiniCluster is in the cluster, as far as is known
	kept  bool                  // see Record.Kept
	// failed is true if the record says that the run did not succeed.
	failed bool
}

// Sweep decides what is done next in an experiment. The caller tells it what it sees and what it has done, and carries
// out the steps. After a crash a new Sweep of the same records and MiniClusters goes on.
type Sweep struct {
	definition *Definition
	began      time.Time
	order      []*progress
	byName     map[string]*progress
	next       time.Time // the next submission under limits.perMinute
}

// Step is what is to be done now.
type Step struct {
	Submit []Run
	// Record are runs whose log is to be kept and whose record is to be written.
	Record []Ending
	// Delete are names of MiniClusters whose record is written.
	Delete []string
	// Wake is when a step can follow without news; zero if there is no such time.
	Wake time.Time
	// Stopped says why no further run is submitted; "" if nothing stops the experiment.
	Stopped string
	// Done is true if nothing is left to do or to wait for.
	Done bool
}

// Ending is a run that has ended. MiniCluster is its last known state, and End as in NewRecord.
type Ending struct {
	Run         Run
	MiniCluster *v1alpha2.MiniCluster
	End         string
}

// NewSweep begins or goes on with an experiment that first began at a time. Records are those of earlier.
func NewSweep(d *Definition, runs []Run, records []*Record, began time.Time) (*Sweep, error) {
	s := &Sweep{definition: d, began: began, byName: map[string]*progress{}}
	for _, run := range runs {
		p := &progress{Run: run}
		s.order = append(s.order, p)
		s.byName[run.Name] = p
	}
	for _, r := range records {
		p := s.byName[r.Name]
		if p == nil {
			return nil, fmt.Errorf("the run %s has a record, and the experiment has no such run", r.Name)
		}
		s.Recorded(r)
	}
	return s, nil
}

// Seen tells that a MiniCluster is in the cluster, and its state.
func (s *Sweep) Seen(mc *v1alpha2.MiniCluster) {
	p := s.byName[mc.Name]
	if p == nil {
		return
	}
	p.mc, p.there = mc, true
	if p.phase < live {
		p.phase = live
	}
	if p.phase == live && Ended(mc) {
		p.phase = ended
	}
	if p.phase == done && !p.kept {
		p.phase = recorded
	}
}

// Gone tells that a MiniCluster is not in the cluster any more.
func (s *Sweep) Gone(name string) {
	p := s.byName[name]
	if p == nil {
		return
	}
	p.there = false
	switch p.phase {
	case live:
		p.phase, p.end = ended, Deleted
	case recorded, deleting:
		p.phase = done
	}
}

// Submitted tells that a MiniCluster was created, and its state then. What was seen meanwhile is newer.
func (s *Sweep) Submitted(mc *v1alpha2.MiniCluster) {
	if s.byName[mc.Name].phase == submitting {
		s.Seen(mc)
	}
}

// Recorded tells that the record of a run is written.
func (s *Sweep) Recorded(r *Record) {
	p := s.byName[r.Name]
	p.phase, p.kept, p.failed = recorded, r.Kept, !r.Succeeded()
	if p.kept || !p.there {
		p.phase = done
	}
}

// Next returns what is to be done at a time. What it returns counts as begun.
func (s *Sweep) Next(now time.Time) Step {
	step := Step{Done: true}
	for _, p := range s.order {
		s.limitWait(p, now, &step)
	}
	step.Stopped = s.stopped(now)
	atOnce := 0
	for _, p := range s.order {
		switch p.phase {
		case submitting, live:
			atOnce++
		case ended:
			p.phase = recording
			step.Record = append(step.Record, Ending{p.Run, p.mc, p.end})
		case recorded:
			p.phase = deleting
			step.Delete = append(step.Delete, p.Name)
		}
	}
	for _, p := range s.order {
		if p.phase == pending && step.Stopped == "" && s.maySubmit(atOnce, now, &step) {
			p.phase = submitting
			step.Submit = append(step.Submit, p.Run)
			atOnce++
		}
		step.Done = step.Done && (p.phase == done || p.phase == pending && step.Stopped != "")
	}
	return step
}

// limitWait ends a run that waits for too long until its command starts for the first time.
func (s *Sweep) limitWait(p *progress, now time.Time, step *Step) {
	limit := s.definition.Limits.wait()
	if limit == 0 || p.phase != live || p.mc.Status.StartTime != nil ||
		slices.ContainsFunc(p.mc.Status.Attempts, func(a v1alpha2.Attempt) bool { return a.Started != nil }) {
		return
	}
	if until := p.mc.CreationTimestamp.Add(limit); now.Before(until) {
		step.wakeAt(until)
	} else {
		p.phase, p.end = ended, WaitLimit
	}
}

// maySubmit reports whether one more run may be submitted now.
func (s *Sweep) maySubmit(atOnce int, now time.Time, step *Step) bool {
	limits := s.definition.Limits
	if limits.AtOnce > 0 && atOnce >= limits.AtOnce {
		return false
	}
	if limits.PerMinute > 0 {
		if now.Before(s.next) {
			step.wakeAt(s.next)
			return false
		}
		distance := time.Duration(float64(time.Minute) / limits.PerMinute)
		if s.next = s.next.Add(distance); s.next.Before(now) { // what was missed is not made up for
			s.next = now.Add(distance)
		}
	}
	return true
}

func (t *Step) wakeAt(at time.Time) {
	if t.Wake.IsZero() || at.Before(t.Wake) {
		t.Wake = at
	}
}

// hasFailed reports whether a run has ended without success.
func (p *progress) hasFailed() bool {
	switch p.phase {
	case ended, recording:
		return p.end != "" || story.StateOf(p.mc) != v1alpha2.StateSucceeded
	case recorded, deleting, done:
		return p.failed
	}
	return false
}

// stopped says why no further run is submitted.
func (s *Sweep) stopped(now time.Time) string {
	limits := s.definition.Limits
	failures := 0
	for _, p := range s.order {
		if p.hasFailed() {
			failures++
		}
	}
	switch total := limits.total(); {
	case limits.Failures > 0 && failures >= limits.Failures:
		return fmt.Sprintf("%d of the runs did not succeed (limits.failures)", failures)
	case total > 0 && !now.Before(s.began.Add(total)):
		return fmt.Sprintf("%s have passed (limits.total)", total)
	}
	return ""
}

// Counts says how many runs are how far.
type Counts struct {
	// Pending are not submitted, Waiting wait for nodes or start, Running run their command, and Ending have ended
	// without a record.
	Pending, Waiting, Running, Ending int
	// Recorded is the number of records, and Failed that of records of runs that did not succeed.
	Recorded, Failed int
}

// Counts counts the runs.
func (s *Sweep) Counts() Counts {
	c := Counts{}
	for _, p := range s.order {
		switch {
		case p.phase >= recorded:
			c.Recorded++
			if p.failed {
				c.Failed++
			}
		case p.phase == pending:
			c.Pending++
		case p.phase >= ended:
			c.Ending++
		case p.mc != nil && p.mc.Status.StartTime != nil:
			c.Running++
		default:
			c.Waiting++
		}
	}
	return c
}

// All returns the number of all runs.
func (c Counts) All() int { return c.Pending + c.Waiting + c.Running + c.Ending + c.Recorded }
