// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"time"

	"github.com/flux-elastic/flux-elastic/internal/story"
)

// Figures are the figures by which schedulers are compared. They follow from the pods alone.
type Figures struct {
	// Hostage is the time of nodes, in seconds, that pods held while the command of their gang
	// did not run yet. LongestHostage is the longest such time of one node, in seconds.
	Hostage        float64 `json:"hostage"`
	LongestHostage float64 `json:"longestHostage"`
	// Wait is the time from the submission of a gang until its command runs. For a gang that has
	// not succeeded, the wait lasts to the end of the observation.
	Wait Spread `json:"wait"`
	// GangsPerSecond and PodsPerSecond are how many started, on average, until the last start.
	GangsPerSecond float64 `json:"gangsPerSecond"`
	PodsPerSecond  float64 `json:"podsPerSecond"`
	// Shares are the parts of the nodes on which commands ran, by queue, while gangs of all
	// queues waited: see Record.Shares. It is empty for one queue.
	Shares map[string]float64 `json:"shares,omitempty"`
}

// Figures computes the figures of the record. settle is how long queues may take to get their shares.
func (r *Record) Figures(settle time.Duration) Figures {
	out := Figures{Shares: r.Shares(settle)}
	first, last := r.bounds()
	var waits []float64
	started, pods, until := 0, 0, first
	for _, l := range r.lives {
		wait := last.Sub(l.submitted)
		for _, t := range l.tries {
			sum, longest := t.hostage(last)
			out.Hostage += sum
			out.LongestHostage = max(out.LongestHostage, longest)
		}
		if ran := l.ran(); !ran.IsZero() {
			started, pods, until = started+1, pods+l.held(), story.Later(until, ran)
			if l.succeeded {
				wait = ran.Sub(l.submitted)
			}
		}
		if !l.Hopeless() {
			waits = append(waits, wait.Seconds())
		}
	}
	out.Wait = NewSpread(waits)
	if seconds := until.Sub(first).Seconds(); seconds > 0 {
		out.GangsPerSecond, out.PodsPerSecond = float64(started)/seconds, float64(pods)/seconds
	}
	return out
}

// hostage returns the time of nodes during which pods of a try were bound, and the command did not
// run yet, and the longest time of one node.
func (t *try) hostage(last time.Time) (sum, longest float64) {
	a := story.Attempt{Started: t.ran}
	for _, pod := range t.pods {
		if !pod.bound.IsZero() {
			seconds := a.Hostage(story.Stay{From: pod.bound, To: pod.ended}, last)
			sum, longest = sum+seconds, max(longest, seconds)
		}
	}
	return sum, longest
}

// ran is when the command of the last try that started was seen to run; zero if none did.
func (l *life) ran() time.Time {
	var ran time.Time
	for _, t := range l.tries {
		ran = story.Later(ran, t.ran)
	}
	return ran
}

// held returns the number of pods of the last try that held a node.
func (l *life) held() int {
	n := 0
	if len(l.tries) > 0 {
		for _, pod := range l.tries[len(l.tries)-1].pods {
			if !pod.pinned.IsZero() {
				n++
			}
		}
	}
	return n
}

// Shares returns the part of the nodes on which commands ran, by queue. It looks at the time in which
// gangs of each queue have been submitted and not started, from settle after the last queue's first
// submission on. The shares of all queues add up to 1. Without such a time there are no shares.
func (r *Record) Shares(settle time.Duration) map[string]float64 {
	wants := map[string][2]time.Time{} // from the first submission to the last start
	for _, l := range r.lives {
		want, ok := wants[l.Queue]
		if until := l.ran(); until.IsZero() {
			_, want[1] = r.bounds()
		} else {
			want[1] = story.Later(want[1], until)
		}
		if !ok || l.submitted.Before(want[0]) {
			want[0] = l.submitted
		}
		wants[l.Queue] = want
	}
	if len(wants) < 2 {
		return nil
	}
	var from, to time.Time
	for _, want := range wants {
		from = story.Later(from, want[0].Add(settle))
		if to.IsZero() || want[1].Before(to) {
			to = want[1]
		}
	}
	spent, total := map[string]float64{}, 0.0
	for _, l := range r.lives {
		for _, t := range l.tries {
			seconds := t.running(from, to)
			spent[l.Queue] += seconds
			total += seconds
		}
	}
	if total == 0 {
		return nil
	}
	for queue := range spent {
		spent[queue] /= total
	}
	return spent
}

// running returns the time of nodes, in seconds, that the command of a try had between two moments.
func (t *try) running(from, to time.Time) float64 {
	a, sum := story.Attempt{Started: t.ran}, 0.0
	for _, pod := range t.pods {
		begin, end, runs := a.Command(story.Stay{From: story.Later(from, pod.up), To: pod.ended}, to)
		if runs && !pod.up.IsZero() {
			sum += end.Sub(begin).Seconds()
		}
	}
	return sum
}
