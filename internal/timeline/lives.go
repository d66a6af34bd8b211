// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

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

// Of makes the record of the time between since and now. The number of ended attempts whose nodes nobody
// knows any more is the second result: the record has their time, and no row for them.
func Of(o *Objects, since, now time.Time) (record *Recorder, unknown int) {
	r := &Recorder{spans: map[string]*Span{}, runs: map[string]*Run{}, begun: now, last: now}
	events := map[types.UID][]*corev1.Event{}
	for i := range o.Events {
		event := &o.Events[i]
		events[event.InvolvedObject.UID] = append(events[event.InvolvedObject.UID], event)
	}
	for i := range o.MiniClusters {
		mc := &o.MiniClusters[i]
		run := runOf(mc)
		if o.Qualified {
			run.Name = mc.Namespace + "/" + mc.Name
		}
		if !run.Ended.IsZero() && !run.Ended.After(since) {
			continue
		}
		run.Submitted = later(run.Submitted, since)
		r.runs[run.Name] = run
		l := life{record: r, name: run.Name, since: since, events: events[mc.UID]}
		slices.SortStableFunc(l.events, func(a, b *corev1.Event) int { return TimeOf(a).Compare(TimeOf(b)) })
		unknown += l.ended(mc.Status.EarlierAttempts())
		unknown += l.current(mc, run)
	}
	names := slices.Clone(o.Nodes)
	for _, span := range r.spans {
		if span.Node != "" {
			names = append(names, span.Node)
		}
	}
	slices.SortFunc(names, hostlist.Compare)
	r.nodes = slices.Compact(names)
	return r, unknown
}

func runOf(mc *v1alpha2.MiniCluster) *Run {
	s := &mc.Status
	run := &Run{Name: mc.Name, Size: int(s.Size), Wanted: int(mc.Spec.Size), Tasks: int(s.Tasks), Submitted: mc.CreationTimestamp.Time}
	if s.Admission != nil {
		run.Size = int(s.Admission.Size)
	}
	if s.StartTime != nil {
		run.Started = s.StartTime.Time
	}
	if s.CompletionTime != nil {
		run.Ended = s.CompletionTime.Time
	} else if c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished); c != nil && c.Status == "True" {
		run.Ended = c.LastTransitionTime.Time
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionReady); c != nil {
		run.State = c.Reason
	}
	return run
}

// life adds the spans of one MiniCluster to a record.
type life struct {
	record *Recorder
	name   string
	since  time.Time
	events []*corev1.Event // from the oldest
}

// ended adds the attempts that ended, and returns how many have no event that says their nodes.
func (l *life) ended(attempts []v1alpha2.Attempt) (unknown int) {
	for i := range attempts {
		a := &attempts[i]
		span := Span{Held: a.Admitted.Time, Freed: a.Ended.Time}
		if !span.Freed.After(l.since) {
			continue
		}
		if a.Started != nil {
			span.Started = a.Started.Time
		}
		spans := []*Span{&span}
		if nodes := l.placed(span); nodes != nil {
			spans, _ = l.stays(nodes, span)
		} else {
			unknown++
		}
		l.add(fmt.Sprint("attempt ", i), spans)
	}
	return unknown
}

// current adds the admission, and returns 1 if its nodes are not readable.
func (l *life) current(mc *v1alpha2.MiniCluster, run *Run) (unknown int) {
	a := mc.Status.Admission
	if a == nil {
		return 0
	}
	span := Span{Held: a.Time.Time, Freed: run.Ended, Started: run.Started}
	nodes, err := state.Nodes(mc)
	if err != nil {
		l.add("admission", []*Span{&span})
		return 1
	}
	spans, last := l.stays(l.placed(span), span)
	if !slices.Equal(last, nodes) { // some events are gone
		spans, _ = l.stays(nodes, span)
	}
	l.add("admission", spans)
	return 0
}

// mostBrokers bounds the ranks and nodes that are read from a note.
const mostBrokers = 1 << 20

// placed returns the first nodes of an attempt by rank, from its event Admitted; nil without that event.
func (l *life) placed(whole Span) (nodes []string) {
	for event := range l.during(whole, time.Second) { // the times of the status have no parts of a second
		if match := status.PlacedNote.FindStringSubmatch(event.Message); event.Reason == "Admitted" && match != nil {
			nodes, _ = hostlist.Decode(match[1], mostBrokers) // unreadable: not known
			return nodes
		}
	}
	return nil
}

// stays returns the spans of an attempt whose ranks first had some nodes, and the nodes that they had last. A rank that
// came, moved or left later has the time of the event that says so.
func (l *life) stays(nodes []string, whole Span) (spans []*Span, last []string) {
	last = slices.Clone(nodes)
	open := map[int64]*Span{}
	take := func(rank int64, node string, at time.Time) {
		span := whole
		span.Rank, span.Node, span.Held = int(rank), node, at
		spans, open[rank] = append(spans, &span), &span
	}
	for rank, node := range nodes {
		take(int64(rank), node, whole.Held)
	}
	for event := range l.during(whole, 0) {
		at := TimeOf(event)
		switch event.Reason {
		case "Grew", "Moved":
			ranks, came := placesIn(status.GrewNote, event)
			for i := range min(len(ranks), len(came)) {
				rank := ranks[i]
				if rank > int64(len(last)) {
					continue // an event before this one is gone
				}
				last = append(last, "")[:max(len(last), int(rank)+1)]
				last[rank] = came[i]
				if span := open[rank]; span != nil && span.Node == came[i] {
					span.Held = at
					continue
				} else if span != nil {
					span.Freed = at
				}
				take(rank, came[i], at)
			}
		case "Vacated":
			ranks, _ := placesIn(status.LeftNote, event)
			for _, rank := range ranks {
				if span := open[rank]; span != nil {
					span.Freed = at
					delete(open, rank)
				}
			}
		}
	}
	return spans, last
}

// during returns the events during an attempt, and up to some time later.
func (l *life) during(whole Span, later time.Duration) iter.Seq[*corev1.Event] {
	return func(yield func(*corev1.Event) bool) {
		for _, event := range l.events {
			at := TimeOf(event)
			if !at.Before(whole.Held) && (whole.Freed.IsZero() || !at.After(whole.Freed.Add(later))) && !yield(event) {
				return
			}
		}
	}
}

// placesIn returns the ranks that an event names, and their nodes if the note has them.
func placesIn(note *regexp.Regexp, event *corev1.Event) (ranks []int64, nodes []string) {
	match := note.FindStringSubmatch(event.Message)
	if match == nil {
		return nil, nil
	}
	ranks, _ = idset.Decode(match[1], mostBrokers) // unreadable: none
	if len(match) > 2 {
		nodes, _ = hostlist.Decode(match[2], mostBrokers)
	}
	return ranks, nodes
}

// add adds spans that have not ended before the record begins.
func (l *life) add(key string, spans []*Span) {
	for i, span := range spans {
		if span.Freed.IsZero() || span.Freed.After(l.since) {
			span.MiniCluster, span.Held = l.name, later(span.Held, l.since)
			l.record.spans[fmt.Sprint(l.name, " ", key, " ", i)] = span
		}
	}
}

// TimeOf is when what an event tells happened.
func TimeOf(event *corev1.Event) time.Time {
	return cmp.Or(event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
