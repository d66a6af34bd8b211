// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Conditions of a MiniCluster, in the order in which they come true.
const (
	// ConditionAccepted: the spec can be carried out. False says what is wrong.
	ConditionAccepted = "Accepted"
	// ConditionAdmitted: nodes are held for it. False says why it waits.
	ConditionAdmitted = "Admitted"
	// ConditionQuorumReached: as many brokers are up as the command waits for.
	ConditionQuorumReached = "QuorumReached"
	// ConditionFinished: the command is done, or will never run. The reason is
	// Succeeded or says what went wrong.
	ConditionFinished = "Finished"
	// ConditionReady sums the others up, under the name that the Flux Operator
	// gives it: True while the command runs; the reason is the state that people
	// see (one of the State constants).
	ConditionReady = "JobMiniClusterReady"
)

// States: the reasons of the condition JobMiniClusterReady.
const (
	// StateRejected: the spec cannot be carried out as it is.
	StateRejected = "Rejected"
	// StateSuspended: spec.suspend is true.
	StateSuspended = "Suspended"
	// StateQueued: it waits for nodes.
	StateQueued = "Queued"
	// StateStarting: it has nodes; its brokers come up.
	StateStarting = "Starting"
	// StateRunning: the quorum is reached, the command runs.
	StateRunning = "Running"
	// StateReleasing: it gives its nodes back; pods of it are still there.
	StateReleasing = "Releasing"
	// StateBackingOff: it did not start, and is queued again after a pause.
	StateBackingOff = "BackingOff"
	// StateSucceeded: the command ended with exit code 0.
	StateSucceeded = "Succeeded"
	// StateFailed: the command failed, or will never run.
	StateFailed = "Failed"
)

// Reasons of the condition Accepted.
const (
	// ReasonValid: the spec can be carried out.
	ReasonValid = "Valid"
	// ReasonUnsupported: the spec asks for what the cluster has not.
	ReasonUnsupported = "Unsupported"
	// ReasonPodRejected: the API server refuses the pods that the spec describes.
	ReasonPodRejected = "PodRejected"
	// ReasonObjectRejected: the API server refuses another object that is needed.
	ReasonObjectRejected = "ObjectRejected"
	// ReasonNameClash: an object of a name that is needed belongs to somebody else.
	ReasonNameClash = "NameClash"
)

// Reasons of the condition Admitted.
const (
	// ReasonAdmitted: nodes are held for it.
	ReasonAdmitted = "Admitted"
	// ReasonNeverFits: not even the empty cluster could hold it.
	ReasonNeverFits = "NeverFits"
	// ReasonNoRoom: it would fit, but not now.
	ReasonNoRoom = "NoRoom"
	// ReasonWaitingForSize: it would fit smaller, and holds out for its size.
	ReasonWaitingForSize = "WaitingForSize"
	// ReasonWaitingForTurn: others of its queue are before it.
	ReasonWaitingForTurn = "WaitingForTurn"
	// ReasonNotAllowed: its queue, or a quota of its namespace, does not let it now, or
	// not at all.
	ReasonNotAllowed = "NotAllowed"
	// ReasonPreempted: it gave its nodes to one of higher priority.
	ReasonPreempted = "Preempted"
	// ReasonReclaimed: it gave its nodes back to another queue, to which they belong.
	ReasonReclaimed = "Reclaimed"
	// ReasonReleased: it gave its nodes back.
	ReasonReleased = "Released"
	// ReasonFinished: it is done and needs no nodes any more.
	ReasonFinished = "Finished"
)

// Reasons of the condition QuorumReached.
const (
	// ReasonQuorumReached: enough brokers are up.
	ReasonQuorumReached = "QuorumReached"
	// ReasonWaitingForBrokers: brokers are still missing.
	ReasonWaitingForBrokers = "WaitingForBrokers"
	// ReasonNotAdmitted: there are no brokers to wait for.
	ReasonNotAdmitted = "NotAdmitted"
)

// Reasons of the condition Finished.
const (
	// ReasonSucceeded: the command ended with exit code 0.
	ReasonSucceeded = "Succeeded"
	// ReasonCommandFailed: the command ended with another exit code.
	ReasonCommandFailed = "CommandFailed"
	// ReasonLeadLost: the lead broker's pod was lost.
	ReasonLeadLost = "LeadLost"
	// ReasonWorkersFailed: pods of followers failed more often than is allowed.
	ReasonWorkersFailed = "WorkersFailed"
	// ReasonBrokersLost: brokers were lost while the command ran.
	ReasonBrokersLost = "BrokersLost"
	// ReasonDeadlineExceeded: the command ran longer than deadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonStartLimit: it did not start in as many attempts as are allowed.
	ReasonStartLimit = "StartLimitExceeded"
	// ReasonUnfinished: it is not done.
	ReasonUnfinished = "Unfinished"
)
