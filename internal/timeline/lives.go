// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
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
		unknown += l.ended(mc.Status.Attempts)
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
		nodes := l.placed(a)
		if nodes == nil {
			unknown++
			l.add(fmt.Sprint("attempt ", i), 0, "", span)
			continue
		}
		l.ranks(fmt.Sprint("attempt ", i), nodes, span)
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
		l.add("admission", 0, "", span)
		return 1
	}
	l.ranks("admission", nodes, span)
	return 0
}

// mostBrokers bounds the nodes that are read from a note.
const mostBrokers = 1 << 20

// placed returns the nodes of an attempt by rank, from its event Admitted and those of its growth; nil without
// the event Admitted.
func (l *life) placed(a *v1alpha2.Attempt) (nodes []string) {
	for _, event := range l.events {
		// The time of an event may have parts of a second, and the times of the status have none.
		if at := TimeOf(event); at.Before(a.Admitted.Time) || at.After(a.Ended.Add(time.Second)) {
			continue
		}
		switch event.Reason {
		case "Admitted":
			if match := status.PlacedNote.FindStringSubmatch(event.Message); match != nil && nodes == nil {
				nodes, _ = hostlist.Decode(match[1], mostBrokers) // unreadable: not known
			}
		case "Grew":
			if match := status.GrewNote.FindStringSubmatch(event.Message); match != nil && nodes != nil {
				more, _ := hostlist.Decode(match[2], mostBrokers)
				nodes = append(nodes, more...)
			}
		}
	}
	return nodes
}

// ranks adds the spans of an attempt. A rank that came or left later has the time of the event that says so.
// Without the event, a vacated rank has a span as long as that of the others.
func (l *life) ranks(key string, nodes []string, whole Span) {
	spans := make([]Span, len(nodes))
	for rank := range spans {
		spans[rank] = whole
	}
	for _, event := range l.events {
		at := TimeOf(event)
		if at.Before(whole.Held) || !whole.Freed.IsZero() && at.After(whole.Freed) {
			continue
		}
		switch event.Reason {
		case "Grew":
			for _, rank := range ranksIn(status.GrewNote, event, len(nodes)) {
				spans[rank].Held, spans[rank].Freed = at, whole.Freed
			}
		case "Vacated":
			for _, rank := range ranksIn(status.LeftNote, event, len(nodes)) {
				spans[rank].Freed = at
			}
		}
	}
	for rank, node := range nodes {
		l.add(fmt.Sprint(key, " ", rank), rank, node, spans[rank])
	}
}

// ranksIn returns the ranks below size that an event names.
func ranksIn(note *regexp.Regexp, event *corev1.Event, size int) []int64 {
	match := note.FindStringSubmatch(event.Message)
	if match == nil {
		return nil
	}
	ranks, _ := idset.Decode(match[1], size) // unreadable: none
	return slices.DeleteFunc(ranks, func(rank int64) bool { return rank >= int64(size) })
}

func (l *life) add(key string, rank int, node string, span Span) {
	if !span.Freed.IsZero() && !span.Freed.After(l.since) {
		return
	}
	span.MiniCluster, span.Rank, span.Node, span.Held = l.name, rank, node, later(span.Held, l.since)
	l.record.spans[l.name+" "+key] = &span
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
