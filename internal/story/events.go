// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// What the notes of events say of nodes. internal/status writes these notes.
var (
	// PlacedNote has the hostlist of an admission, by rank.
	PlacedNote = regexp.MustCompile(`^Placed \d+ of \d+ brokers on ([^ ;]+)`)
	// GrewNote has the ranks that came, an idset, and their nodes, a hostlist.
	GrewNote = regexp.MustCompile(`, ranks (\S+) on (\S+)$`)
	// LeftNote has the ranks that left, an idset.
	LeftNote = regexp.MustCompile(`, ranks (\S+) left$`)
)

// mostBrokers bounds the ranks and nodes that are read of an attempt: anybody who may write events may write such notes.
const mostBrokers = 1 << 16

// TimeOf is when what an event tells happened.
func TimeOf(event *corev1.Event) time.Time {
	return cmp.Or(event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time)
}

// place adds the nodes of the attempts. Those of the last one are in the admission, if it is there.
func (s *Story) place(admission *v1alpha2.Admission, events []*corev1.Event) {
	events = slices.SortedStableFunc(slices.Values(events), func(a, b *corev1.Event) int { return TimeOf(a).Compare(TimeOf(b)) })
	for i := range s.Attempts {
		a := &s.Attempts[i]
		a.stay(a.placed(events), events)
	}
	if admission == nil {
		return
	}
	a := &s.Attempts[len(s.Attempts)-1]
	nodes, err := hostlist.Decode(admission.Nodes, int(admission.Size))
	if err != nil || len(nodes) != int(admission.Size) {
		a.Stays = nil // not known
		return
	}
	if last := a.stay(a.placed(events), events); !slices.Equal(last, nodes) { // some events are gone
		a.stay(nodes, events)
	}
	left, _ := idset.Decode(admission.Vacated, mostBrokers)     // unreadable: none
	a.Stays = slices.DeleteFunc(a.Stays, func(stay Stay) bool { // when it left is not known
		return stay.To.Equal(a.Ended) && slices.Contains(left, int64(stay.Rank))
	})
}

// during returns the events during the attempt, and up to some time later.
func (a *Attempt) during(events []*corev1.Event, later time.Duration) (out []*corev1.Event) {
	for _, event := range events {
		if at := TimeOf(event); !at.Before(a.Admitted) && (a.Ended.IsZero() || !at.After(a.Ended.Add(later))) {
			out = append(out, event)
		}
	}
	return out
}

// placed returns the first nodes of the attempt by rank, from its event Admitted; nil without that event.
func (a *Attempt) placed(events []*corev1.Event) (nodes []string) {
	for _, event := range a.during(events, time.Second) { // the times of the status have no parts of a second
		if match := PlacedNote.FindStringSubmatch(event.Message); event.Reason == "Admitted" && match != nil {
			nodes, _ = hostlist.Decode(match[1], mostBrokers) // unreadable: not known
			return nodes
		}
	}
	return nil
}

// stay sets the stays of the attempt, whose ranks first had some nodes, and returns the nodes that they had last. A rank
// that came, moved or left later has the time of the event that says so.
func (a *Attempt) stay(nodes []string, events []*corev1.Event) (last []string) {
	a.Stays = nil
	if nodes == nil {
		return nil
	}
	last = slices.Clone(nodes)
	open := map[int64]int{} // the stay of a rank
	take := func(rank int64, node string, at time.Time) {
		open[rank] = len(a.Stays)
		a.Stays = append(a.Stays, Stay{Rank: int(rank), Node: node, From: at, To: a.Ended})
	}
	for rank, node := range nodes {
		take(int64(rank), node, a.Admitted)
	}
	room := mostBrokers
	for _, event := range a.during(events, 0) {
		at := TimeOf(event)
		switch event.Reason {
		case "Grew", "Moved":
			ranks, came := placesIn(GrewNote, event, room)
			room -= len(ranks)
			for i := range min(len(ranks), len(came)) {
				rank := ranks[i]
				if rank > int64(len(last)) {
					continue // an event before this one is gone
				}
				last = append(last, "")[:max(len(last), int(rank)+1)]
				last[rank] = came[i]
				if at0, ok := open[rank]; ok && a.Stays[at0].Node == came[i] {
					a.Stays[at0].From = at
					continue
				} else if ok {
					a.Stays[at0].To = at
				}
				take(rank, came[i], at)
			}
		case "Vacated":
			ranks, _ := placesIn(LeftNote, event, room)
			room -= len(ranks)
			for _, rank := range ranks {
				if i, ok := open[rank]; ok {
					a.Stays[i].To = at
					delete(open, rank)
				}
			}
		}
	}
	return last
}

// placesIn returns the ranks that an event names, and their nodes if the note has them; none if these are more than there is
// room for.
func placesIn(note *regexp.Regexp, event *corev1.Event, room int) (ranks []int64, nodes []string) {
	match := note.FindStringSubmatch(event.Message)
	if match == nil {
		return nil, nil
	}
	ranks, _ = idset.Decode(match[1], room) // unreadable: none
	if len(match) > 2 {
		nodes, _ = hostlist.Decode(match[2], len(ranks))
	}
	return ranks, nodes
}
