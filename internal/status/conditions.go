// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

func setAccepted(s *v1alpha2.MiniClusterStatus, in Input) {
	if in.Check.Reason == "" {
		return // not checked in this pass: the condition stays
	}
	value, message := metav1.ConditionTrue, "The spec can be carried out"
	if in.Check.Message != "" {
		value, message = metav1.ConditionFalse, in.Check.Message
	}
	if in.Check.Reason == v1alpha2.ReasonQuotaExceeded || in.Check.Reason == v1alpha2.ReasonNotChecked {
		value = metav1.ConditionUnknown // the rest could not be checked
	}
	set(s, in, v1alpha2.ConditionAccepted, value, in.Check.Reason, message)
}

func setAdmitted(s *v1alpha2.MiniClusterStatus, in Input) {
	value, reason, message := metav1.ConditionFalse, v1alpha2.ReasonReleased, in.message()
	evict, evicted := in.Plan.Step.(life.Evict)
	switch {
	case in.finished():
		reason, message = v1alpha2.ReasonFinished, "It is done"
	case s.Admission != nil:
		value, reason = metav1.ConditionTrue, v1alpha2.ReasonAdmitted
		has := len(in.record.Admission.Members())
		message = fmt.Sprintf("Holds nodes for %d of %d brokers", has, max(has, int(in.MiniCluster.Spec.Size)))
	case evicted:
		reason = evict.Reason
	case in.Plan.State == life.StateReleasing && givenToOthers(s):
		return // the reason for the loss of its nodes stays until it waits again
	case in.Plan.State == life.StateSuspended, in.Plan.State == life.StateRejected:
		reason = string(in.Plan.State)
	case in.Plan.State == life.StateQueued:
		reason, message = reasonOf(in.Observation.Offer.Verdict), sentence(in.Observation.Offer.Message)
	}
	set(s, in, v1alpha2.ConditionAdmitted, value, reason, message)
}

// Evictions are the reasons for which a MiniCluster loses its nodes and is queued again, in the order of the names page.
var Evictions = []string{
	v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonQuotaWithdrawn, v1alpha2.ReasonRequeued,
}

// givenToOthers reports whether the MiniCluster lost its nodes and is queued again.
func givenToOthers(s *v1alpha2.MiniClusterStatus) bool {
	admitted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
	return admitted != nil && slices.Contains(Evictions, admitted.Reason)
}

// reasonOf is the API's reason for a verdict of the scheduler: the same word. Without a verdict, no cycle has run since the
// MiniCluster was queued.
func reasonOf(verdict elastic.Verdict) string {
	return cmp.Or(string(verdict), v1alpha2.ReasonWaitingForTurn)
}

func setQuorumReached(s *v1alpha2.MiniClusterStatus, in Input) {
	switch {
	case in.finished():
		return // the condition stays
	case s.StartTime != nil:
		if _, kept := in.Plan.Step.(life.Keep); !kept && meta.IsStatusConditionTrue(s.Conditions, v1alpha2.ConditionQuorumReached) {
			return // the condition is about the start
		}
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionTrue, v1alpha2.ReasonQuorumReached, quorumMessage(s, in))
	case s.Admission != nil:
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionFalse, v1alpha2.ReasonWaitingForBrokers,
			fmt.Sprintf("%d of %d brokers up", s.Size, s.Admission.Quorum))
	default:
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionFalse, v1alpha2.ReasonNotAdmitted, "It has no nodes")
	}
}

// quorumMessage says with how many of the requested brokers the command starts.
func quorumMessage(s *v1alpha2.MiniClusterStatus, in Input) string {
	wanted := cmp.Or(s.Admission.Wanted, in.MiniCluster.Spec.Size)
	message := fmt.Sprintf("%d of %d brokers", s.Admission.Quorum, max(s.Admission.Quorum, wanted))
	if tasks := max(s.Tasks, int32(in.Observation.Policy.Sizing.Tasks.AtSize)); tasks > 0 {
		message += fmt.Sprintf(", tasks %d of %d", s.Tasks, tasks)
	}
	return message
}

func setFinished(s *v1alpha2.MiniClusterStatus, in Input) {
	finish, over := in.Plan.Step.(life.Finish)
	switch {
	case in.Observation.Outcome != "":
	case over:
		message := in.message()
		if message == "" {
			message = "The command ended with exit code 0"
		}
		set(s, in, v1alpha2.ConditionFinished, metav1.ConditionTrue, string(finish.Outcome), message)
	default:
		set(s, in, v1alpha2.ConditionFinished, metav1.ConditionFalse, v1alpha2.ReasonUnfinished, "It is not done")
	}
}

// setReady says whether the command runs, and sums up the other conditions.
func setReady(s *v1alpha2.MiniClusterStatus, in Input) {
	running, ready := metav1.ConditionFalse, metav1.ConditionFalse
	if in.Plan.State == life.StateRunning {
		running = metav1.ConditionTrue
	}
	// A command may end before its start was seen.
	if s.StartTime != nil || in.Plan.State == life.StateSucceeded {
		ready = metav1.ConditionTrue
	}
	message := in.message()
	if in.finished() {
		message = meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished).Message
		switch n := in.Observation.Occupied; n {
		case 0:
		case 1:
			message += "; 1 pod is still ending"
		default:
			message += fmt.Sprintf("; %d pods are still ending", n)
		}
		if isEdited(in, s) {
			message += "; " + Ignored
		}
	}
	set(s, in, v1alpha2.ConditionRunning, running, string(in.Plan.State), "")
	set(s, in, v1alpha2.ConditionReady, ready, string(in.Plan.State), message)
}

// setLastDecision records the plan's decision, from which its event is made.
func setLastDecision(s *v1alpha2.MiniClusterStatus, in Input) {
	note, step := noteOf(in, s), life.PropertiesOf(in.Plan.Step)
	if step.Event == "" || note == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if step.Warning {
		kind = corev1.EventTypeWarning
	}
	number := int64(1)
	if s.LastDecision != nil {
		number += s.LastDecision.Number
	}
	s.LastDecision = &v1alpha2.Decision{
		Number: number,
		Time:   metav1.NewMicroTime(in.Now.Truncate(time.Microsecond)), Type: kind, Reason: step.Event, Message: shorten(note),
	}
}

// pendingEvents are the decisions before the last one without an event.
func pendingEvents(last *v1alpha2.Decision, untold []v1alpha2.Decision) []v1alpha2.Decision {
	var pending []v1alpha2.Decision
	for _, decision := range untold {
		if last != nil && decision.Number < last.Number {
			pending = append(pending, decision)
		}
	}
	return pending[max(0, len(pending)-v1alpha2.MostPendingEvents):]
}

func set(s *v1alpha2.MiniClusterStatus, in Input, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: shorten(message),
		ObservedGeneration: in.MiniCluster.Generation, LastTransitionTime: metav1.NewTime(in.Now),
	})
}
