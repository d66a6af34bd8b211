// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline draws stories over time: one row per node, one color per MiniCluster, time to the right.
package timeline

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Record is what happened on some nodes.
type Record struct {
	// Nodes have a row each, also if no story names them.
	Nodes []string `json:"nodes"`
	// Begun is when the record begins if it has no stories, and Last is when it was closed.
	Begun   time.Time     `json:"begun"`
	Last    time.Time     `json:"last"`
	Stories []story.Story `json:"stories"`
}

// NewRecord makes a record of stories. It adds the nodes that they name to the nodes, sorts both, and puts the rest in the
// order of submission.
func NewRecord(nodes []string, stories []story.Story, begun, last time.Time) *Record {
	r := &Record{Nodes: slices.Clone(nodes), Begun: begun, Last: last, Stories: slices.Clone(stories)}
	for i := range r.Stories {
		for _, a := range r.Stories[i].Attempts {
			for _, stay := range a.Stays {
				r.Nodes = append(r.Nodes, stay.Node)
			}
		}
	}
	slices.SortFunc(r.Nodes, hostlist.Compare)
	r.Nodes = slices.Compact(r.Nodes)
	slices.SortStableFunc(r.Stories, func(a, b story.Story) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), hostlist.Compare(a.Name, b.Name))
	})
	return r
}

// Objects are what a record is made from. They are not changed.
type Objects struct {
	MiniClusters []v1alpha2.MiniCluster
	// Events are those of the MiniClusters. Without them, the nodes of ended attempts are not known.
	Events []corev1.Event
	// Nodes are the names of nodes that have a row also if no MiniCluster names them.
	Nodes []string
	// Qualified puts the namespace before the name of a MiniCluster.
	Qualified bool
}

// Of makes the record of the time between since and now. The number of attempts whose nodes nobody knows any more is the
// second result: the record has their time, and no row for them.
func Of(o *Objects, since, now time.Time) (record *Record, unknown int) {
	events := map[types.UID][]*corev1.Event{}
	for i := range o.Events {
		event := &o.Events[i]
		events[event.InvolvedObject.UID] = append(events[event.InvolvedObject.UID], event)
	}
	var stories []story.Story
	for i := range o.MiniClusters {
		mc := &o.MiniClusters[i]
		s := story.Of(mc, events[mc.UID]...).Since(since)
		if !s.Ended.IsZero() && !s.Ended.After(since) {
			continue
		}
		if o.Qualified {
			s.Name = mc.Namespace + "/" + mc.Name
		}
		for _, a := range s.Attempts {
			if len(a.Stays) == 0 {
				unknown++
			}
		}
		stories = append(stories, s)
	}
	return NewRecord(o.Nodes, stories, now, now), unknown
}

// Usage says how the time of all nodes was spent during the makespan, as shares of 1.
type Usage struct {
	// Running is the time in which commands ran. Waiting is the time in which pods held nodes whose command did not run,
	// since they started or ended. Idle is the rest.
	Running, Waiting, Idle float64
	// Makespan is the time from the submission of the first MiniCluster to the end of the last pod.
	Makespan time.Duration
}

// Usage computes the usage from the record. A node with several pods counts once, and as running if the command of one of
// them runs.
func (r *Record) Usage() Usage {
	first, last := r.bounds()
	u := Usage{Makespan: last.Sub(first)}
	total := u.Makespan.Seconds() * float64(len(r.Nodes))
	if total <= 0 {
		return u
	}
	running, held := map[string][]story.Interval{}, map[string][]story.Interval{}
	for i := range r.Stories {
		for _, a := range r.Stories[i].Attempts {
			for _, stay := range a.Stays {
				held[stay.Node] = append(held[stay.Node], story.Interval{stay.From, story.Earliest(stay.To, r.Last)})
				if from, to, runs := a.Command(stay, r.Last); runs {
					running[stay.Node] = append(running[stay.Node], story.Interval{from, to})
				}
			}
		}
	}
	u.Running = seconds(running) / total
	u.Waiting = seconds(held)/total - u.Running
	u.Idle = 1 - u.Running - u.Waiting
	return u
}

// bounds returns the first submission and the end of the last pod.
func (r *Record) bounds() (first, last time.Time) {
	first = r.Begun
	if len(r.Stories) > 0 {
		first = r.Stories[0].Submitted
	}
	last = first
	for i := range r.Stories {
		for _, a := range r.Stories[i].Attempts {
			if len(a.Stays) == 0 {
				last = story.Later(last, story.Earliest(a.Ended, r.Last))
			}
			for _, stay := range a.Stays {
				last = story.Later(last, story.Earliest(stay.To, r.Last))
			}
		}
	}
	return first, last
}

// seconds returns the sum, over all nodes, of the time that at least one of the intervals has.
func seconds(byNode map[string][]story.Interval) (total float64) {
	for _, list := range byNode {
		for _, interval := range story.Union(list) {
			total += interval[1].Sub(interval[0]).Seconds()
		}
	}
	return total
}
