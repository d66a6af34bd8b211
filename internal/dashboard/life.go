// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Life is one MiniCluster.
type Life struct {
	// Story has one item.
	Story   []Story
	Brokers []Broker
}

// Story is what a MiniCluster has gone through.
type Story struct {
	MiniCluster
	// UID distinguishes MiniClusters of the same name.
	UID string `json:"uid"`
	// Image and Command are those of the container that runs Flux.
	Image   string `json:"image,omitempty"`
	Command string `json:"command,omitempty"`
	// Quorum is the number of brokers that the command waits for; 0 without nodes.
	Quorum int32 `json:"quorum,omitempty"`
	// RequeueAt is when it is queued again, in seconds since 1970; 0 if it does not wait for that.
	RequeueAt int64 `json:"requeueAt,omitempty"`
	// Exit is the exit code of the command.
	Exit       *int32      `json:"exit,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	Spans      []Span      `json:"spans"`
	Attempts   []Attempt   `json:"attempts,omitempty"`
	Decision   *Decision   `json:"decision,omitempty"`
}

// Condition is a condition of the status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Since   int64  `json:"since"`
}

// Span is a part of the life, in seconds since 1970. To is 0 if it goes on.
type Span struct {
	Kind    story.Kind `json:"kind"`
	From    int64      `json:"from"`
	To      int64      `json:"to,omitempty"`
	Attempt int32      `json:"attempt,omitempty"`
}

// Attempt is an attempt that ended without success.
type Attempt struct {
	Attempt  int32  `json:"attempt"`
	Size     int32  `json:"size"`
	Admitted int64  `json:"admitted"`
	Started  int64  `json:"started,omitempty"`
	Ended    int64  `json:"ended"`
	Reason   string `json:"reason"`
	Message  string `json:"message,omitempty"`
}

// Decision is the last decision about the MiniCluster, with its time in seconds since 1970.
type Decision struct {
	At      int64  `json:"at"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Broker is the broker of a rank.
type Broker struct {
	// ID is Rank as text, and the key.
	ID   string `json:"key"`
	Rank int    `json:"rank"`
	Node string `json:"node"`
	// Pod is the name of the pod; "" if there is none, or if the viewer may not see pods.
	Pod string `json:"pod,omitempty"`
	// State is one of the names below, or "vacated" for a rank that gave its node back; "" if the viewer
	// may not see pods.
	State string `json:"state,omitempty"`
	// Note is what is wrong with the pod or the node, or why the broker leaves.
	Note string `json:"note,omitempty"`
	// Since is when its container began to run; 0 if it does not run.
	Since int64 `json:"since,omitempty"`
	// Exit is the exit code of the broker's container.
	Exit *int `json:"exit,omitempty"`
}

// names are the states of a broker.
var names = map[life.BrokerState]string{
	life.Missing: "missing", life.Gated: "gated", life.Coming: "coming", life.Up: "up", life.Leaving: "leaving",
	life.Succeeded: "succeeded", life.Failed: "failed",
}

// Key is the namespace and the name.
func (s Story) Key() string { return s.ID }

// Key is the rank.
func (b Broker) Key() string { return b.ID }

// NewLife makes the life of a MiniCluster, which has its defaults. queue is its queue, which may be nil.
func NewLife(v *state.View, queue *v1alpha2.MiniClusterQueue) (*Life, error) {
	mc := v.MiniCluster
	o, err := state.Observe(*v)
	if err != nil {
		return nil, err
	}
	l := &Life{Story: []Story{storyOf(mc, queue)}}
	pods := v.Brokers()
	for rank := range o.Brokers {
		broker := brokerOf(rank, &o.Brokers[rank], o.Admission)
		if pod := pods[rank]; pod != nil {
			broker.Pod = pod.Name
		}
		l.Brokers = append(l.Brokers, broker)
	}
	return l, nil
}

// WithoutPods returns the life for a viewer who may not see pods: what the status says.
func (l *Life) WithoutPods() *Life {
	out := &Life{Story: l.Story}
	for _, broker := range l.Brokers {
		out.Brokers = append(out.Brokers, Broker{ID: broker.ID, Rank: broker.Rank, Node: broker.Node})
	}
	return out
}

func storyOf(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) Story {
	queues := map[string]*v1alpha2.MiniClusterQueue{}
	if queue != nil {
		queues[queue.Name] = queue
	}
	s := &mc.Status
	out := Story{MiniCluster: summaryOf(mc, queues), UID: string(mc.UID), Exit: s.ExitCode, Spans: spansOf(mc)}
	if queue != nil && s.Admission == nil {
		for _, waiting := range queue.Status.Waiting {
			if waiting.Namespace == mc.Namespace && waiting.Name == mc.Name {
				out.Position = waiting.Position
			}
		}
	}
	if len(mc.Spec.Containers) > 0 {
		c := mc.Spec.FluxContainer()
		out.Image, out.Command = c.Image, strings.TrimSpace(c.Command)
	}
	if a := s.Admission; a != nil {
		out.Quorum = a.Quorum
	}
	if s.RequeueState != nil {
		out.RequeueAt = seconds(s.RequeueState.RequeueAt)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		out.Conditions = append(out.Conditions, Condition{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Unix()})
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		out.Attempts = append(out.Attempts, Attempt{
			Attempt: a.Attempt, Size: a.Size, Admitted: a.Admitted.Unix(), Started: seconds(a.Started), Ended: a.Ended.Unix(), Reason: a.Reason, Message: a.Message,
		})
	}
	if d := s.LastDecision; d != nil {
		out.Decision = &Decision{At: d.Time.Unix(), Type: d.Type, Reason: d.Reason, Message: d.Message}
	}
	return out
}

// spansOf are the parts of a life, without gaps.
func spansOf(mc *v1alpha2.MiniCluster) (spans []Span) {
	s := story.Of(mc)
	for _, p := range s.Phases(time.Time{}) {
		span := Span{Kind: p.Kind, From: p.From.Unix(), Attempt: p.Attempt}
		if !p.To.IsZero() {
			span.To = p.To.Unix()
		}
		spans = append(spans, span)
	}
	return spans
}

// brokerOf is the broker of a rank.
func brokerOf(rank int, seen *life.Broker, a *life.Admission) Broker {
	b := Broker{ID: strconv.Itoa(rank), Rank: rank, Node: a.Nodes[rank], State: names[seen.State], Exit: seen.ExitCode}
	if !seen.Since.IsZero() {
		b.Since = seen.Since.Unix()
	}
	switch {
	case slices.Contains(a.Vacated, rank):
		return Broker{ID: b.ID, Rank: rank, Node: b.Node, State: "vacated"}
	case seen.NodeGone:
		b.Note = "the node is gone"
	case seen.NodeDown:
		b.Note = "the node is not ready"
	case seen.Evicted != "":
		b.Note = seen.Evicted
	case seen.Trouble != "":
		b.Note = seen.Trouble
	case seen.Unbindable:
		b.Note = "the node does not take the pod"
	case a.Draining != nil && slices.Contains(a.Draining.Ranks, rank):
		b.Note = "asked to leave: " + a.Draining.Reason
	}
	return b
}
