// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Check is what the check of a spec came to.
type Check struct {
	// Reason is one of the reasons of the condition Accepted.
	Reason string
	// Message says what is wrong, for people; "" if nothing is.
	Message string
}

// Input is all that a status is made from.
type Input struct {
	// MiniCluster has its defaults. Its status is the one that was there.
	MiniCluster *v1alpha2.MiniCluster
	Observation *life.Observation
	Plan        life.Plan
	Check       Check
	// OccupiedNodes are the nodes that its pods hold.
	OccupiedNodes map[string]bool
	// Requests are what one of its pods takes.
	Requests corev1.ResourceList
	// Priority is that of its pods.
	Priority int32
	// Queue is the one it waits in; "" if that is not known.
	Queue string
	Now   time.Time

	// record is what is written down once the plan's decision is.
	record life.Record
}

// Compute returns the new status. The decision of the plan is written in it; what the plan
// makes or removes is not there yet.
func Compute(in Input) v1alpha2.MiniClusterStatus {
	s := in.MiniCluster.Status.DeepCopy()
	in.record = in.Plan.Apply(in.Observation.Record, in.Now)
	s.ObservedGeneration = in.MiniCluster.Generation
	s.Selector = v1alpha2.SelectorLabel + "=" + in.MiniCluster.Name
	if s.Admission == nil || s.MaximumSize == 0 { // else the pods that were made say it
		s.MaximumSize = in.MiniCluster.Spec.MaxSize
	}
	if _, admitted := in.Plan.Step.(life.Admit); in.Queue != "" && (in.Plan.State == life.StateQueued || admitted || s.Queue == "") {
		s.Queue = in.Queue
	}
	if decision, decides := in.Plan.Step.(life.Decision); decides {
		writeRecord(s, in, decision)
	}
	if in.Plan.State == life.StateSuspended { // it begins anew
		s.RequeueState, s.Avoid, s.Attempts = nil, nil, nil
	}
	if a := s.Admission; a != nil && a.Wanted > 0 && a.Wanted != in.MiniCluster.Spec.Size && !in.finished() {
		a.Resized = true
	}
	count(s, in)
	setAccepted(s, in)
	setAdmitted(s, in)
	setQuorumReached(s, in)
	setFinished(s, in)
	setReady(s, in)
	setLastDecision(s, in)
	return *s
}

// count fills in the numbers.
func count(s *v1alpha2.MiniClusterStatus, in Input) {
	nodes := map[string]bool{}
	maps.Copy(nodes, in.OccupiedNodes)
	s.Size = 0
	if !in.finished() { // the tasks stay those that ran
		s.Tasks = 0
		for rank, broker := range in.Observation.Brokers {
			if broker.State == life.Up && in.Observation.Admission.Has(rank) {
				s.Size++
			}
		}
		if s.Admission != nil {
			s.Tasks = int32(in.Observation.Policy.Sizing.TasksAt(int(s.Admission.Quorum)))
			for _, node := range nodesOf(in.record.Admission) {
				nodes[node] = true
			}
		}
	}
	s.Nodes = int32(len(nodes))
}

func (in Input) finished() bool {
	_, over := in.Plan.Step.(life.Finish)
	return over || in.Observation.Outcome != ""
}

// message is the plan's, as a sentence. What is wrong with a spec is said as it is: it
// may begin with the name of a field.
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

// longest is how many bytes a message may have: what an event's note may have by
// Kubernetes' validation.
const longest = 1024

// shorten cuts a text that is too long.
func shorten(text string) string { return cut(text, longest) }

func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest-len("...")], "") + "..."
}
