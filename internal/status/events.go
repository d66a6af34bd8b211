// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Event is an event to send once its cause is recorded.
type Event struct {
	Type   string // corev1.EventTypeNormal or Warning
	Reason string
	Note   string
}

// Events are the events for the change from the old status, which is the input's, to the new one,
// without the event of the last decision.
func Events(in Input, s *v1alpha2.MiniClusterStatus) []Event {
	var events []Event
	old := &in.MiniCluster.Status
	if turnedTo(old, s, v1alpha2.ConditionAccepted, metav1.ConditionFalse) {
		accepted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAccepted)
		events = append(events, Event{corev1.EventTypeWarning, accepted.Reason, accepted.Message})
	}
	if turnedTo(old, s, v1alpha2.ConditionAdmitted, metav1.ConditionFalse) && in.Plan.State == life.StateQueued {
		events = append(events, queued(in, s)...)
	}
	if old.ObservedGeneration != s.ObservedGeneration && s.StartTime != nil && !in.finished() {
		events = append(events, OtherSize(in.MiniCluster.Spec.Size, s, in.Observation.Policy)...)
	}
	if old.ObservedGeneration != s.ObservedGeneration && isEdited(in, s) {
		events = append(events, Event{corev1.EventTypeWarning, v1alpha2.EventSpecIgnored, "It has finished: " + Ignored})
	}
	return events
}

// Ignored says what a changed spec means to a MiniCluster that has finished.
const Ignored = "of the changed spec, only ttlSecondsAfterFinished counts; to run it again, delete it and create it again"

// isEdited reports whether the spec was changed after the end.
func isEdited(in Input, s *v1alpha2.MiniClusterStatus) bool {
	finished := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished)
	return in.Observation.Outcome != "" && finished != nil && finished.ObservedGeneration < s.ObservedGeneration
}

// OtherSize warns users who give a running MiniCluster a size that it cannot take.
func OtherSize(size int32, s *v1alpha2.MiniClusterStatus, policy life.Policy) []Event {
	asked := s.Admission.Wanted
	switch {
	case asked == 0 || size == asked:
	case !policy.Malleable && !policy.Restarts:
		return []Event{{corev1.EventTypeWarning, v1alpha2.EventSizeIgnored, fmt.Sprintf(
			"The size of %d counts from the next start: the command runs with %d brokers, and cannot gain or lose any", size, s.Admission.Quorum)}}
	case size > s.MaximumSize:
		return []Event{{corev1.EventTypeWarning, v1alpha2.EventSizeIgnored, fmt.Sprintf(
			"It grows up to %d brokers, not %d: no more pods were made when it was admitted", s.MaximumSize, size)}}
	case int(size) < policy.Sizing.Min:
		return []Event{{corev1.EventTypeWarning, v1alpha2.EventBelowMinimum, fmt.Sprintf(
			"It shrinks to a size of %d, less than its minSize of %d", size, policy.Sizing.Min)}}
	}
	return nil
}

// QueuedEvents are the types of the events that say why a MiniCluster waits. A verdict without a type has
// no event.
var QueuedEvents = map[elastic.Verdict]string{
	elastic.NeverFits:      corev1.EventTypeWarning,
	elastic.NoRoom:         corev1.EventTypeNormal,
	elastic.NotChecked:     corev1.EventTypeNormal,
	elastic.WaitingForSize: corev1.EventTypeNormal,

	elastic.NotAllowed:       corev1.EventTypeNormal,
	elastic.NoSuchQueue:      corev1.EventTypeNormal,
	elastic.QueueSuspended:   corev1.EventTypeNormal,
	elastic.DeadlineTooLong:  corev1.EventTypeNormal,
	elastic.TooLargeForQueue: corev1.EventTypeNormal,
	elastic.UserLimit:        corev1.EventTypeNormal,
	elastic.QuotaExceeded:    corev1.EventTypeNormal,
	elastic.WaitingForVolume: corev1.EventTypeNormal,
	elastic.QueueFull:        corev1.EventTypeNormal,
	elastic.Dependency:       corev1.EventTypeNormal,
	elastic.Singleton:        corev1.EventTypeNormal,
	elastic.Later:            corev1.EventTypeNormal,

	elastic.NodesRequested:   corev1.EventTypeNormal,
	elastic.NodesAccepted:    corev1.EventTypeNormal,
	elastic.NodesProvisioned: corev1.EventTypeNormal,
	elastic.NodesTimedOut:    corev1.EventTypeWarning,
	elastic.NodesFailed:      corev1.EventTypeWarning,
	elastic.NodesExpired:     corev1.EventTypeWarning,
	elastic.NodesRevoked:     corev1.EventTypeWarning,
}

// queued says why the MiniCluster waits, if that is news.
func queued(in Input, s *v1alpha2.MiniClusterStatus) []Event {
	kind, ok := QueuedEvents[in.Observation.Offer.Verdict]
	if !ok {
		return nil
	}
	admitted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
	return []Event{{kind, admitted.Reason, admitted.Message}}
}

// noteOf is the text of the event for the plan's decision; "" for a Withdraw without an admission.
func noteOf(in Input, s *v1alpha2.MiniClusterStatus) string {
	switch step := in.Plan.Step.(type) {
	case life.Admit:
		return fmt.Sprintf("Placed %d of %d brokers on %s", s.Admission.Size, in.MiniCluster.Spec.Size, s.Admission.Nodes) + deadlineMessage(s, in)
	case life.Start:
		return "Started with " + quorumMessage(s, in) + coresMessage(in)
	case life.LowerQuorum:
		return "Lowered the quorum: " + in.Plan.Message
	case life.Keep:
		return fmt.Sprintf("The command had begun with ranks %s, too, which stay: %s", idset.Encode(step.Ranks), quorumMessage(s, in))
	case life.GiveUp:
		return fmt.Sprintf("Gave up attempt %d of %d: %s", s.RequeueState.Count, in.Observation.Policy.RecreateLimit+1, in.Plan.Message)
	case life.Withdraw, life.Evict:
		if in.Observation.Admission == nil {
			return ""
		}
		return fmt.Sprintf("Gave back nodes for %s: %s", elastic.Several(len(in.Observation.Admission.Members()), "broker"), in.Plan.Message)
	case life.Finish:
		return meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished).Message
	case life.Drain:
		return in.message() + ", ranks " + idset.Encode(step.Ranks)
	case life.Vacate:
		return in.message() + ", ranks " + idset.Encode(step.Ranks) + " left"
	case life.Grow:
		return in.message() + ", ranks " + places(step.Pods)
	case life.Move:
		return in.message() + ", ranks " + places(step.Pods)
	}
	return in.message()
}

// deadlineMessage says how long the command may run in a queue with deadlines.
func deadlineMessage(s *v1alpha2.MiniClusterStatus, in Input) string {
	if s.Admission.QueueDeadlines == nil {
		return ""
	}
	return fmt.Sprintf("; queue %s lets the command run for %s", s.Queue, in.Deadline)
}

// coresMessage says which cores Flux has for the jobs that a malleable command submits itself.
func coresMessage(in Input) string {
	switch policy := in.Observation.Policy; {
	case !policy.Malleable:
		return ""
	case policy.Sizing.SlotsPerNode == 0:
		return "; Flux has all cores of their nodes"
	default:
		return fmt.Sprintf("; cores that Flux has on each: %d", policy.Sizing.SlotsPerNode)
	}
}

// places says which ranks get which nodes.
func places(pods []elastic.Pod) string {
	var ranks []int
	var nodes []string
	for _, pod := range pods {
		ranks, nodes = append(ranks, pod.Rank), append(nodes, pod.Node)
	}
	return fmt.Sprintf("%s on %s", idset.Encode(ranks), hostlist.Encode(nodes))
}

// turnedTo reports whether a condition now has a status and reason that it did not have before.
func turnedTo(old, s *v1alpha2.MiniClusterStatus, kind string, value metav1.ConditionStatus) bool {
	after := meta.FindStatusCondition(s.Conditions, kind)
	if after == nil || after.Status != value {
		return false
	}
	before := meta.FindStatusCondition(old.Conditions, kind)
	return before == nil || before.Status != value || before.Reason != after.Reason
}
