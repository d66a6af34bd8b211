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
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Event is something to tell people once its cause is written down.
type Event struct {
	Type   string // corev1.EventTypeNormal or Warning
	Reason string
	Note   string
}

// Reasons of events, beside those of the condition Accepted and the outcomes.
const (
	eventAdmitted      = "Admitted"
	eventStarted       = "Started"
	eventQuorumLowered = "QuorumLowered"
	eventGaveUp        = "GaveUp"
	eventReleased      = "Released"
	eventDraining      = "Draining"
	eventVacated       = "Vacated"
	eventGrew          = "Grew"
	eventMoved         = "Moved"
	eventKept          = "Kept"
	eventSizeIgnored   = "SizeIgnored"
	eventBelowMinimum  = "BelowMinimum"
)

// Events are those of the change from the old status, which is the input's, to the
// new one, beside that of the last decision.
func Events(in Input, s *v1alpha2.MiniClusterStatus) []Event {
	var events []Event
	old := &in.MiniCluster.Status
	if turnedTo(old, s, v1alpha2.ConditionAccepted, metav1.ConditionFalse) {
		accepted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAccepted)
		events = append(events, Event{corev1.EventTypeWarning, accepted.Reason, accepted.Message})
	}
	if turnedTo(old, s, v1alpha2.ConditionAdmitted, metav1.ConditionFalse) && in.Plan.State == elastic.StateQueued {
		events = append(events, queued(in, s)...)
	}
	if old.ObservedGeneration != s.ObservedGeneration && s.StartTime != nil && !in.finished() {
		events = append(events, otherSize(in, s)...)
	}
	return events
}

// otherSize tells those who changed the size of one that runs what they may not expect.
func otherSize(in Input, s *v1alpha2.MiniClusterStatus) []Event {
	size, asked := in.MiniCluster.Spec.Size, s.Admission.Wanted
	policy := in.Observation.Policy
	switch {
	case asked == 0 || size == asked:
	case !policy.BearsChange:
		return []Event{{corev1.EventTypeWarning, eventSizeIgnored, fmt.Sprintf(
			"The size of %d counts from the next start: the command was started with %d brokers, and does not bear that they come and go", size, s.Admission.Quorum)}}
	case size > s.MaximumSize:
		return []Event{{corev1.EventTypeWarning, eventSizeIgnored, fmt.Sprintf(
			"It grows up to %d brokers, not %d: its pods were made for maxSize when it was admitted", s.MaximumSize, size)}}
	case int(size) < policy.Sizing.Min:
		return []Event{{corev1.EventTypeWarning, eventBelowMinimum, fmt.Sprintf(
			"It shrinks to a size of %d, less than its minSize of %d", size, policy.Sizing.Min)}}
	}
	return nil
}

// queued tells why it waits, where that is news to somebody.
func queued(in Input, s *v1alpha2.MiniClusterStatus) []Event {
	admitted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
	switch in.Observation.Verdict {
	case elastic.NeverFits:
		return []Event{{corev1.EventTypeWarning, admitted.Reason, admitted.Message}}
	case elastic.NoRoom, elastic.NotAllowed, elastic.WaitingForSize:
		return []Event{{corev1.EventTypeNormal, admitted.Reason, admitted.Message}}
	}
	return nil
}

// decided tells of the plan's decision.
func decided(in Input, s *v1alpha2.MiniClusterStatus) *Event {
	plan := in.Plan
	switch plan.Step {
	case elastic.Admit:
		return &Event{corev1.EventTypeNormal, eventAdmitted, fmt.Sprintf("Placed %d of %d brokers on %s",
			s.Admission.Size, in.MiniCluster.Spec.Size, s.Admission.Nodes)}
	case elastic.Start:
		return &Event{corev1.EventTypeNormal, eventStarted, "Started with " + quorumMessage(s, in)}
	case elastic.LowerQuorum:
		return &Event{corev1.EventTypeWarning, eventQuorumLowered, "Lowered the quorum: " + plan.Message}
	case elastic.Keep:
		return &Event{corev1.EventTypeNormal, eventKept, fmt.Sprintf("The command had begun with ranks %s, too, which stay: %s", Ranks(plan.Ranks), quorumMessage(s, in))}
	case elastic.Lose:
		return &Event{corev1.EventTypeWarning, v1alpha2.ReasonBrokersLost, in.message()}
	case elastic.GiveUp:
		return &Event{corev1.EventTypeWarning, eventGaveUp, fmt.Sprintf("Gave up attempt %d of %d: %s",
			s.RequeueState.Count, in.Observation.Policy.RecreateLimit+1, plan.Message)}
	case elastic.Withdraw:
		if in.MiniCluster.Status.Admission == nil {
			return nil
		}
		return &Event{corev1.EventTypeNormal, eventReleased, fmt.Sprintf("Gave back nodes for %d brokers: %s",
			len(members(in.MiniCluster.Status.Admission)), plan.Message)}
	case elastic.Evict:
		return &Event{corev1.EventTypeWarning, plan.Reason, fmt.Sprintf("Gave back nodes for %d brokers: %s",
			len(members(in.MiniCluster.Status.Admission)), plan.Message)}
	case elastic.Finish:
		finished := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished)
		kind := corev1.EventTypeNormal
		if plan.Outcome != elastic.OutcomeSucceeded {
			kind = corev1.EventTypeWarning
		}
		return &Event{kind, finished.Reason, finished.Message}
	}
	return resized(plan)
}

// endReason is the reason of the event that tells the end of an attempt.
func endReason(plan elastic.Plan) string {
	switch plan.Step {
	case elastic.GiveUp:
		return eventGaveUp
	case elastic.Withdraw:
		return eventReleased
	case elastic.Evict:
		return plan.Reason
	}
	return string(plan.Outcome)
}

// resized tells of ranks that leave, have left, come or move.
func resized(plan elastic.Plan) *Event {
	switch plan.Step {
	case elastic.DrainRanks:
		return &Event{corev1.EventTypeNormal, eventDraining, fmt.Sprintf("%s, ranks %s", sentence(plan.Message), Ranks(plan.Ranks))}
	case elastic.Vacate:
		return &Event{corev1.EventTypeNormal, eventVacated, fmt.Sprintf("%s, ranks %s left", sentence(plan.Message), Ranks(plan.Ranks))}
	case elastic.GrowRanks:
		return &Event{corev1.EventTypeNormal, eventGrew, fmt.Sprintf("%s, %s", sentence(plan.Message), places(plan.Pods))}
	case elastic.MoveRanks:
		return &Event{corev1.EventTypeNormal, eventMoved, fmt.Sprintf("%s, %s", sentence(plan.Message), places(plan.Pods))}
	}
	return nil
}

// places says which ranks get which nodes.
func places(pods []elastic.Pod) string {
	var ranks []int
	var nodes []string
	for _, pod := range pods {
		ranks, nodes = append(ranks, pod.Rank), append(nodes, pod.Node)
	}
	return fmt.Sprintf("ranks %s on %s", Ranks(ranks), hostlist.Encode(nodes))
}

// turnedTo reports whether a condition has come to a value for a reason that it did
// not have before.
func turnedTo(old, s *v1alpha2.MiniClusterStatus, kind string, value metav1.ConditionStatus) bool {
	after := meta.FindStatusCondition(s.Conditions, kind)
	if after == nil || after.Status != value {
		return false
	}
	before := meta.FindStatusCondition(old.Conditions, kind)
	return before == nil || before.Status != value || before.Reason != after.Reason
}
