// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Check is the result of checking a spec.
type Check struct {
	// Reason is one of the reasons of the condition Accepted.
	Reason string
	// Message says what is wrong, for users; "" if nothing is.
	Message string
}

// Input is all from which a status is computed.
type Input struct {
	// MiniCluster has its defaults, and the status before this pass. Without nodes, its largest size is the
	// number of pods that it would have.
	MiniCluster *v1alpha2.MiniCluster
	Observation *life.Observation
	Plan        life.Plan
	Check       Check
	// OccupiedNodes are the nodes that its pods hold.
	OccupiedNodes map[string]bool
	// Requests are the requests of one of its pods.
	Requests corev1.ResourceList
	// Priority is the priority of its pods.
	Priority int32
	// Traits are what the spec says about the command.
	Traits *v1alpha2.Traits
	// Quota is what Kueue granted; nil if nothing.
	Quota *v1alpha2.Quota
	// Deadlines are those of its queue, at its admission if it has nodes. Deadline is how long its
	// command may run by them; 0 if neither they nor the spec set a deadline.
	Deadlines elastic.Deadlines
	Deadline  time.Duration
	// Queue is the queue in which it waits; "" if it is not known.
	Queue string
	// Untold are the decisions whose events are not known to be written, the oldest first.
	Untold []v1alpha2.Decision
	Now    time.Time

	// record is the record after the plan's decision.
	record life.Record
}

// Compute returns the new status. It contains the plan's decision, but not the effect of a step
// that has yet to be carried out.
func Compute(in Input) v1alpha2.MiniClusterStatus {
	s := in.MiniCluster.Status.DeepCopy()
	in.record = in.Plan.Apply(in.Observation.Record, in.Now)
	s.ObservedGeneration = in.MiniCluster.Generation
	s.Selector = v1alpha2.SelectorLabel + "=" + in.MiniCluster.Name
	if s.MaximumSize == 0 {
		s.MaximumSize = in.MiniCluster.Spec.MostSize()
	}
	setQueue(s, in)
	if decision, decides := in.Plan.Step.(life.Decision); decides {
		writeRecord(s, in, decision)
	}
	if in.Plan.State == life.StateSuspended { // it starts from the beginning, and the number of an attempt is never used again
		s.RequeueState, s.Avoid, s.BlockedSince = nil, nil, nil
	}
	if a := s.Admission; a != nil && !in.finished() {
		a.Resized = a.Resized || a.Wanted > 0 && a.Wanted != in.MiniCluster.Spec.Size
		a.DeadlineSeconds = secondsOf(in.Deadline)
	}
	count(s, in)
	setAccepted(s, in)
	setAdmitted(s, in)
	setQuorumReached(s, in)
	setFinished(s, in)
	setReady(s, in)
	setLastDecision(s, in)
	s.PendingEvents = pendingEvents(s.LastDecision, in.Untold)
	return *s
}

// setQueue says in which queue it waits, or waited, and since when it is blocked there.
func setQueue(s *v1alpha2.MiniClusterStatus, in Input) {
	waits := in.Plan.State == life.StateQueued
	if _, admitted := in.Plan.Step.(life.Admit); in.Queue != "" && (waits || admitted || s.Queue == "") {
		s.Queue = in.Queue
	}
	if blocked := in.Observation.Offer.Blocked; waits && !blocked.IsZero() {
		s.BlockedSince = timeOf(blocked)
	}
}

// count sets the numbers.
func count(s *v1alpha2.MiniClusterStatus, in Input) {
	nodes := map[string]bool{}
	maps.Copy(nodes, in.OccupiedNodes)
	s.Size = 0
	if !in.finished() { // a finished MiniCluster keeps the number of its tasks
		s.Tasks = 0
		s.Size = int32(in.Observation.Up())
		if s.Admission != nil {
			s.Tasks = int32(in.Observation.Policy.Sizing.TasksAt(int(s.Admission.Quorum)))
			for _, rank := range in.record.Admission.Members() {
				nodes[in.record.Admission.Nodes[rank]] = true
			}
		}
	}
	s.Nodes = int32(len(nodes))
}

func (in Input) finished() bool {
	_, over := in.Plan.Step.(life.Finish)
	return over || in.Observation.Outcome != ""
}

// message is the plan's message as a sentence. An error of the spec stays as it is: it may begin
// with the name of a field.
func (in Input) message() string {
	if in.Plan.State == life.StateRejected {
		return in.Plan.Message
	}
	return sentence(in.Plan.Message)
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// longest is the largest number of bytes in a message: Kubernetes' limit for the note of an
// event.
const longest = 1024

// shorten cuts a text that is too long.
func shorten(text string) string { return cut(text, longest) }

func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest-len("...")], "") + "..."
}
