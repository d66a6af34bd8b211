// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterStatus is what is there. It is written by the controller alone.
type MiniClusterStatus struct {
	// size is the number of brokers that are up.
	// +optional
	Size int32 `json:"size"`

	// selector selects the pods of the MiniCluster, for `kubectl scale` and HPA.
	// +optional
	Selector string `json:"selector"`

	// jobid is never set; the Flux Operator has the field.
	// +optional
	JobID string `json:"jobid,omitempty"`

	// maximumSize is maxSize, with its default: the number of pods that are made for
	// the MiniCluster, gated or not.
	// +optional
	MaximumSize int32 `json:"maximumSize,omitempty"`

	// tasks is the number of tasks the command is started with; 0 where Flux
	// chooses.
	// +optional
	Tasks int32 `json:"tasks"`

	// nodes is the number of nodes that are held now: promised to the
	// MiniCluster or occupied by pods of it that have not ended.
	// +optional
	Nodes int32 `json:"nodes"`

	// admission is what the MiniCluster was given. It is written before anything
	// is made, and is empty while the MiniCluster waits.
	// +optional
	Admission *Admission `json:"admission,omitempty"`

	// queue is the one it waits in, or waited in.
	// +optional
	Queue string `json:"queue,omitempty"`

	// requeueState tells how often starting was given up, and when it is tried
	// again.
	// +optional
	RequeueState *RequeueState `json:"requeueState,omitempty"`

	// attempts are those that ended without success, the last ten of them, the oldest
	// first.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Attempts []Attempt `json:"attempts,omitempty"`

	// avoid are nodes on which brokers did not start.
	// +optional
	Avoid *Avoid `json:"avoid,omitempty"`

	// lastDecision is the last thing that was decided about the MiniCluster. There is an
	// event of each, which has the same words.
	// +optional
	LastDecision *Decision `json:"lastDecision,omitempty"`

	// startTime is when the quorum was reached in the current attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the end of the command was seen.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// exitCode is the exit code of the lead broker, which is that of the command.
	// Unset while it runs, or where the pod was gone before it could be read.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Accepted, Admitted, QuorumReached, Finished, and their summary
	// JobMiniClusterReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Admission is one decision of the scheduler: this many brokers, on these nodes.
type Admission struct {
	// attempt is one more than the attempts that were given up in a row.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int32 `json:"attempt"`

	// generation is that of the spec that was admitted. The pods are made from it.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// size is the number of brokers that were placed.
	// +kubebuilder:validation:Minimum=1
	// +required
	Size int32 `json:"size"`

	// wanted is the size that the spec asked for: tasks are in proportion to it.
	// +optional
	Wanted int32 `json:"wanted,omitempty"`

	// resized is true once the size in the spec was another one than wanted: from then on
	// the MiniCluster follows it.
	// +optional
	Resized bool `json:"resized,omitempty"`

	// quorum is the number of brokers that the command waits for. It begins as
	// size, and falls to what came up once elastic.quorumTimeout is over.
	// +kubebuilder:validation:Minimum=1
	// +required
	Quorum int32 `json:"quorum"`

	// nodes are the nodes by rank, as a host list (Flux RFC 29): the first is the
	// lead's. A node that holds several brokers is there several times.
	// +kubebuilder:validation:MinLength=1
	// +required
	Nodes string `json:"nodes"`

	// vacated are the ranks that have given their node back since, as an idset (Flux
	// RFC 22): "5-7". They are still counted in size and named in nodes, so that ranks
	// stay what they are; the brokers that are left are size less these.
	// +optional
	Vacated string `json:"vacated,omitempty"`

	// drain are ranks that are asked to leave. Once they have, they are vacated.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// moved are the ranks that got another node than at first, as an idset, since they
	// did not start where they were.
	// +optional
	Moved string `json:"moved,omitempty"`

	// loss are brokers that were lost while the command ran.
	// +optional
	Loss *Loss `json:"loss,omitempty"`

	// requests are the resources of one pod, as the cluster makes it.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// priority is that of its pods, as the cluster makes them.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// time is when it was decided.
	// +required
	Time metav1.Time `json:"time"`
}

// Drain asks ranks of a MiniCluster that runs to leave: they take no new work, and are
// evicted at the deadline.
type Drain struct {
	// ranks are those to leave, as an idset (Flux RFC 22); the lead, rank 0, never is.
	// +kubebuilder:validation:MinLength=1
	// +required
	Ranks string `json:"ranks"`

	// deadline is when they are evicted. Without one, as before the command runs, they leave
	// if it begins without them, and else stay.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// reason says for whom, and by which action: preempt or reclaim.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// RequeueState tells how often starting was given up.
type RequeueState struct {
	// count is the number of attempts that were given up in a row.
	// +optional
	Count int32 `json:"count"`

	// requeueAt is when the MiniCluster is queued again.
	// +optional
	RequeueAt *metav1.Time `json:"requeueAt,omitempty"`

	// size is the largest that it may have in the next attempt, by
	// elastic.recreate.sizePolicy; 0: any that is allowed.
	// +optional
	Size int32 `json:"size,omitempty"`
}

// Attempt is one that ended without success.
type Attempt struct {
	// attempt is its number: one more than the attempts that were given up before it.
	// +required
	Attempt int32 `json:"attempt"`

	// size is the number of brokers that it had nodes for.
	// +required
	Size int32 `json:"size"`

	// admitted is when it got them.
	// +required
	Admitted metav1.Time `json:"admitted"`

	// started is when its command began to run; unset if it did not.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// ended is when it was over.
	// +required
	Ended metav1.Time `json:"ended"`

	// reason is the one of the event that told its end.
	// +required
	Reason string `json:"reason"`

	// message says why it ended.
	// +optional
	Message string `json:"message,omitempty"`
}

// MostAvoided is how many nodes a MiniCluster avoids at most.
const MostAvoided = 1000

// Avoid are nodes that the MiniCluster is not placed on while there are others for it.
type Avoid struct {
	// nodes are their names, as a host list (Flux RFC 29).
	// +required
	Nodes string `json:"nodes"`

	// until is how long they are avoided.
	// +required
	Until metav1.Time `json:"until"`
}

// Loss are brokers that were lost while the command ran.
type Loss struct {
	// ranks are theirs, as an idset (Flux RFC 22).
	// +required
	Ranks string `json:"ranks"`

	// time is when that was seen.
	// +required
	Time metav1.Time `json:"time"`
}

// Decision is something that was decided about a MiniCluster.
type Decision struct {
	// time is when it was decided.
	// +required
	Time metav1.MicroTime `json:"time"`

	// type is that of its event: Normal or Warning.
	// +required
	Type string `json:"type"`

	// reason is the word for it.
	// +required
	Reason string `json:"reason"`

	// message says what was decided, and why.
	// +optional
	Message string `json:"message,omitempty"`
}
