// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterStatus is the observed state. Only the controller writes it.
type MiniClusterStatus struct {
	// size is the number of brokers that are up.
	// +optional
	Size int32 `json:"size"`

	// selector selects the placed pods of the brokers, for `kubectl scale` and HPA.
	// +optional
	Selector string `json:"selector"`

	// jobid is never set; the Flux Operator has the field.
	// +optional
	JobID string `json:"jobid,omitempty"`

	// maximumSize is the number of broker pods, including the gated ones: maxSize as far as the
	// cluster could hold the pods (see maxSize), or size if the MiniCluster cannot grow.
	// +optional
	MaximumSize int32 `json:"maximumSize,omitempty"`

	// tasks is the number of tasks with which the command is started; 0 if Flux chooses.
	// +optional
	Tasks int32 `json:"tasks"`

	// tasksFor is the size for which spec.tasks was last set, and that number. If spec.size alone changes
	// afterwards, elastic.tasks says how many tasks the new size has.
	// +optional
	TasksFor *TasksFor `json:"tasksFor,omitempty"`

	// nodes is the number of nodes that the MiniCluster holds now. These are promised to the
	// MiniCluster, or have pods of the MiniCluster that have not ended.
	// +optional
	Nodes int32 `json:"nodes"`

	// admission says which nodes the MiniCluster was given. It is written before pods are
	// placed, and is unset while the MiniCluster waits.
	// +optional
	Admission *Admission `json:"admission,omitempty"`

	QueueingStatus `json:",inline"`

	// requeueState says how many attempts were given up, and when the next one may begin.
	// +optional
	RequeueState *RequeueState `json:"requeueState,omitempty"`

	// attempts are the last ten attempts that ended without success, the oldest first.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Attempts []Attempt `json:"attempts,omitempty"`

	// runs is how often the command was begun, in all attempts, with the restarts while its
	// MiniCluster kept its nodes (elastic.resize).
	// +optional
	Runs int32 `json:"runs,omitempty"`

	// restarts are the last ten restarts of the command with other brokers while its MiniCluster kept
	// its nodes, the oldest first.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Restarts []Restart `json:"restarts,omitempty"`

	// checkpointTime is when the command was last known to have written a checkpoint. A checkpoint
	// that nobody asked for, or that was not confirmed, is not known.
	// +optional
	CheckpointTime *metav1.Time `json:"checkpointTime,omitempty"`

	// usage is what the attempts used that have ended. It is final when the MiniCluster has
	// finished. Unset: nothing.
	// +optional
	Usage *Usage `json:"usage,omitempty"`

	// avoid are nodes on which brokers did not start.
	// +optional
	Avoid *Avoid `json:"avoid,omitempty"`

	// lastDecision is the last decision about the MiniCluster. Every decision is also an event
	// with the same reason and message.
	// +optional
	LastDecision *Decision `json:"lastDecision,omitempty"`

	// pendingEvents are the decisions before lastDecision whose events were not known to be
	// written when this status was written, the oldest first. Their events are sent again after a
	// restart of the controller.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	PendingEvents []Decision `json:"pendingEvents,omitempty"`

	// startTime is when the quorum was reached in the current attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the controller saw the end of the command.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// exitCode is the exit code of the lead broker, which is the command's. It is unset while the command runs, if the
	// command never began, and if the lead's pod was gone before the controller could read it.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// observedGeneration is the generation of the spec to which the status belongs.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Accepted, Admitted, QuorumReached, JobRunning, Finished, and their summary
	// JobMiniClusterReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MostTasks is the largest number of tasks of a MiniCluster.
const MostTasks = 100_000_000

// TasksFor is a number of tasks, and the size for which it was set.
type TasksFor struct {
	Size  int32 `json:"size"`
	Tasks int32 `json:"tasks"`
}

// RequeueState says how many attempts were given up or go on in a further one, and when the next one may begin.
type RequeueState struct {
	// count is the number of attempts that were given up in a row; 0 after a suspension.
	// +optional
	Count int32 `json:"count"`

	// requeueAt is when the MiniCluster is queued again.
	// +optional
	RequeueAt *metav1.Time `json:"requeueAt,omitempty"`

	// retries is the number of attempts whose command failed and was to be run again (backoffLimit);
	// 0 after a suspension. They are not in count.
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// deadlines is the number of attempts that ended at their deadline and go on in a further attempt
	// (elastic.onDeadline); 0 after a suspension. They are not in count.
	// +optional
	Deadlines int32 `json:"deadlines,omitempty"`

	// size is the largest size that elastic.recreate.sizePolicy allows for the next attempt;
	// 0: any allowed size.
	// +optional
	Size int32 `json:"size,omitempty"`
}

// Attempt is an attempt that ended without success.
type Attempt struct {
	// attempt is the number of the attempt (admission.attempt).
	// +required
	Attempt int32 `json:"attempt"`

	// size is the number of brokers for which the attempt had nodes.
	// +required
	Size int32 `json:"size"`

	// admitted is when the MiniCluster got these nodes.
	// +required
	Admitted metav1.Time `json:"admitted"`

	// started is when the command began to run; unset if the command did not run.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// ended is when the attempt ended.
	// +required
	Ended metav1.Time `json:"ended"`

	// nodeSeconds is for how long the brokers of the attempt had nodes, added up.
	// +optional
	NodeSeconds int64 `json:"nodeSeconds,omitempty"`

	// reason is the reason of the event that reported the end of the attempt.
	// +required
	Reason string `json:"reason"`

	// message says why the attempt ended.
	// +optional
	Message string `json:"message,omitempty"`
}

// EarlierAttempts returns the attempts before that of the admission. An attempt that ended with the MiniCluster is in
// both.
func (s *MiniClusterStatus) EarlierAttempts() []Attempt {
	last := len(s.Attempts) - 1
	if last >= 0 && s.Admission != nil && s.Attempts[last].Admitted.Equal(&s.Admission.Time) {
		return s.Attempts[:last]
	}
	return s.Attempts
}

// MostPendingEvents is the largest number of decisions in status.pendingEvents.
const MostPendingEvents = 16

// MostAvoided is the largest number of nodes that a MiniCluster avoids.
const MostAvoided = 1000

// Avoid are nodes that the MiniCluster gets only if no other nodes have room for it.
type Avoid struct {
	// nodes are the names of these nodes, as a hostlist (Flux RFC 29).
	// +required
	Nodes string `json:"nodes"`

	// until is the time until which these nodes are avoided.
	// +required
	Until metav1.Time `json:"until"`
}

// Loss are brokers that were lost while the command ran.
type Loss struct {
	// ranks are the ranks of the lost brokers, as an idset (Flux RFC 22).
	// +required
	Ranks string `json:"ranks"`

	// time is when the controller saw the loss.
	// +required
	Time metav1.Time `json:"time"`
}

// Decision is one decision about a MiniCluster.
type Decision struct {
	// number counts the decisions about the MiniCluster, from 1. Clocks of managers differ, so the number, and not the
	// time, says which decision came first. A decision that an older version made has none.
	// +optional
	Number int64 `json:"number,omitempty"`

	// time is when the decision was made, by the clock of the manager that made it.
	// +required
	Time metav1.MicroTime `json:"time"`

	// type is the type of the decision's event: Normal or Warning.
	// +required
	Type string `json:"type"`

	// reason is the name of the decision, in one word.
	// +required
	Reason string `json:"reason"`

	// message says what was decided, and why.
	// +optional
	Message string `json:"message,omitempty"`
}
