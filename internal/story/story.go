// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package story says what became of a MiniCluster, or of another gang of pods: when it waited for nodes, which nodes it
// had, and when its command ran. A story comes from a status and events, or from what
// somebody else saw. The package has no client and no clock.
package story

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Story is the life of one gang. Times are zero until they are known.
type Story struct {
	Name string
	// Submitted is when the MiniCluster was created, and Ended when its end was seen.
	Submitted, Ended time.Time
	// Attempts are in their order. An attempt has nodes from its admission to its end.
	Attempts []Attempt
	// Forgets is true if the status does not list the first attempts any more.
	Forgets bool
	// Wanted is the number of brokers that were asked for: at the last admission, if there was one.
	Wanted int32
	// Size is the number of brokers with which the command was started, or for which there are nodes if it was not.
	Size int32
	// Tasks is the number of tasks with which the command is started; 0 if it is not known.
	Tasks int32
	// State is what users see: a reason of the condition JobMiniClusterReady.
	State string
}

// Attempt is a time in which a gang has nodes.
type Attempt struct {
	// Number counts from 1; 0 if it is not known.
	Number int32
	// Size is the number of brokers that have nodes.
	Size int32
	// Admitted is when the gang got the nodes, Started when its command began, and Ended when the attempt ended.
	Admitted, Started, Ended time.Time
	// Stays are the nodes of the attempt; none if they are not known.
	Stays []Stay
	// Hostages are the node-seconds before the command began, if they were counted.
	Hostages *int64
}

// Stay is the time in which a broker has a node. From is when it was placed there. To is when it had ended or was gone,
// and zero until then.
type Stay struct {
	Rank     int
	Node     string
	From, To time.Time
}

// Of is the story of a MiniCluster that has its status. Without events, the nodes of attempts that ended are not known.
func Of(mc *v1alpha2.MiniCluster, events ...*corev1.Event) Story {
	s := &mc.Status
	story := Story{
		Name: mc.Name, Submitted: mc.CreationTimestamp.Time, Ended: endOf(s), Wanted: mc.Spec.Size, Tasks: s.Tasks,
		State: StateOf(mc),
	}
	for _, a := range s.EarlierAttempts() {
		story.Attempts = append(story.Attempts, Earlier(a))
	}
	if a := s.Admission; a != nil {
		last := Attempt{Number: a.Attempt, Size: a.Size, Admitted: a.Time.Time, Started: moment(s.StartTime), Ended: story.Ended}
		if a.Usage != nil && !story.Ended.IsZero() {
			last.Hostages = &a.Usage.StartingNodeSeconds
		}
		story.Attempts = append(story.Attempts, last)
		story.Wanted, story.Size = max(cmp.Or(a.Wanted, mc.Spec.Size), a.Size), a.Size
		if s.StartTime != nil {
			story.Size = a.Quorum
		}
	}
	story.Forgets = len(story.Attempts) > 0 && story.Attempts[0].Number > 1
	story.place(s.Admission, events)
	return story
}

// Earlier is an attempt that ended before the last one.
func Earlier(a v1alpha2.Attempt) Attempt {
	out := Attempt{Number: a.Attempt, Size: a.Size, Admitted: a.Admitted.Time, Started: moment(a.Started), Ended: a.Ended.Time}
	if a.Started == nil && a.NodeSeconds > 0 { // it may have grown or shrunk
		out.Hostages = &a.NodeSeconds
	}
	return out
}

func endOf(s *v1alpha2.MiniClusterStatus) time.Time {
	if s.CompletionTime != nil {
		return s.CompletionTime.Time
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// StateOf is the state that users see of a MiniCluster.
func StateOf(mc *v1alpha2.MiniCluster) string {
	if ready := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionReady); ready != nil {
		return ready.Reason
	}
	return v1alpha2.StateQueued
}

func moment(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// Kind is what a gang does for a time.
type Kind string

// Kinds.
const (
	// KindWaiting: it has no nodes.
	KindWaiting Kind = "waiting"
	// KindStarting: it has nodes, and its brokers start. The nodes are hostages: no command runs on them.
	KindStarting Kind = "starting"
	// KindRunning: the command runs.
	KindRunning Kind = "running"
	// KindForgotten: the status does not list the attempts of that time any more.
	KindForgotten Kind = "forgotten"
)

// Phase is a part of a life. Attempt is the number of the attempt, and Size that of its brokers with nodes; 0 if it
// waits.
type Phase struct {
	Kind     Kind
	From, To time.Time
	Attempt  int32
	Size     int32
}

// Phases are the parts of the life up to a time, without gaps. If the time is zero, the last one may have no end.
func (s *Story) Phases(until time.Time) (out []Phase) {
	at, end := s.Submitted, cmp.Or(s.Ended, until)
	add := func(p Phase) {
		if p.From, p.To = at, cmp.Or(p.To, end); p.To.IsZero() || p.To.After(at) {
			out, at = append(out, p), p.To
		}
	}
	for i, a := range s.Attempts {
		before := KindWaiting
		if i == 0 && s.Forgets {
			before = KindForgotten
		}
		add(Phase{Kind: before, To: a.Admitted})
		add(Phase{Kind: KindStarting, To: cmp.Or(a.Started, a.Ended), Attempt: a.Number, Size: a.Size})
		if !a.Started.IsZero() {
			add(Phase{Kind: KindRunning, To: a.Ended, Attempt: a.Number, Size: a.Size})
		}
	}
	if n := len(s.Attempts); n == 0 || !s.Attempts[n-1].Ended.IsZero() {
		add(Phase{Kind: KindWaiting})
	}
	return out
}

// Started is when the command of the last attempt began.
func (s *Story) Started() time.Time {
	if n := len(s.Attempts); n > 0 {
		return s.Attempts[n-1].Started
	}
	return time.Time{}
}

// Command is the part of a stay in which the command runs, if there is one.
func (a *Attempt) Command(s Stay, until time.Time) (from, to time.Time, runs bool) {
	if a.Started.IsZero() {
		return from, to, false
	}
	from, to = Later(s.From, a.Started), Earliest(s.To, a.Ended, until)
	return from, to, to.After(from)
}

// Hostage is for how many seconds a stay is up to a time before the command begins.
func (a *Attempt) Hostage(s Stay, until time.Time) float64 {
	return max(0, Earliest(s.To, a.Started, a.Ended, until).Sub(s.From).Seconds())
}

// HostageTime are the node-seconds before the command began: as they were counted, or of each stay, or as if each broker
// had had its node from the admission on. It is false if neither the start nor the end is known.
func (a *Attempt) HostageTime() (nodeSeconds float64, known bool) {
	if a.Hostages != nil {
		return float64(*a.Hostages), true
	}
	until := cmp.Or(a.Started, a.Ended)
	if until.IsZero() {
		return 0, false
	}
	if len(a.Stays) == 0 {
		return float64(a.Size) * max(0, until.Sub(a.Admitted).Seconds()), true
	}
	for _, s := range a.Stays {
		nodeSeconds += a.Hostage(s, until)
	}
	return nodeSeconds, true
}

// Since is the story from a time on.
func (s Story) Since(from time.Time) Story {
	s.Submitted = Later(s.Submitted, from)
	var attempts []Attempt
	for _, a := range s.Attempts {
		if !a.Ended.IsZero() && !a.Ended.After(from) {
			continue
		}
		var stays []Stay
		for _, stay := range a.Stays {
			if stay.To.IsZero() || stay.To.After(from) {
				stay.From = Later(stay.From, from)
				stays = append(stays, stay)
			}
		}
		a.Admitted, a.Stays = Later(a.Admitted, from), stays
		attempts = append(attempts, a)
	}
	s.Forgets = s.Forgets && len(attempts) == len(s.Attempts)
	s.Attempts = attempts
	return s
}
