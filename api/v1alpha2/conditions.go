// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Conditions of a MiniCluster, in the order in which they come true.
const (
	// ConditionAccepted: the spec can be carried out. If False, the message says what is wrong. It
	// is Unknown if a quota does not allow to find that out.
	ConditionAccepted = "Accepted"
	// ConditionAdmitted: nodes are reserved for the MiniCluster. If False, the message says
	// why it waits.
	ConditionAdmitted = "Admitted"
	// ConditionQuorumReached: as many brokers are up as the command waits for.
	ConditionQuorumReached = "QuorumReached"
	// ConditionFinished: the command has ended, or will never run. The reason is
	// Succeeded, or says what went wrong.
	ConditionFinished = "Finished"
	// ConditionRunning: the command runs. The name is the Flux Operator's.
	ConditionRunning = "JobRunning"
	// ConditionReady is the summary of the other conditions, and has the Flux Operator's
	// name for it. It becomes True when the command starts. Then it stays True, also after the
	// end of the command, as in the Flux Operator: `kubectl wait` does not miss a short
	// command. A MiniCluster that loses its nodes and waits again is not ready. The reason is
	// the state that users see.
	ConditionReady = "JobMiniClusterReady"
)

// States: the reasons of the condition JobMiniClusterReady.
const (
	// StateRejected: the spec cannot be carried out as it is.
	StateRejected = "Rejected"
	// StateSuspended: spec.suspend is true.
	StateSuspended = "Suspended"
	// StateQueued: the MiniCluster waits for nodes.
	StateQueued = "Queued"
	// StateStarting: the MiniCluster has nodes, and its brokers start.
	StateStarting = "Starting"
	// StateRunning: the quorum is reached, and the command runs.
	StateRunning = "Running"
	// StateReleasing: the MiniCluster gives its nodes back, and some of its pods still exist.
	StateReleasing = "Releasing"
	// StateBackingOff: the MiniCluster did not start, and is queued again after a pause.
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
	// ReasonUnsupported: the spec asks for something that the cluster does not have, or for more brokers
	// or resources than the manager allows.
	ReasonUnsupported = "Unsupported"
	// ReasonPodRejected: the API server refuses the pods that the spec describes.
	ReasonPodRejected = "PodRejected"
	// ReasonObjectRejected: the API server refuses another object that the MiniCluster needs.
	ReasonObjectRejected = "ObjectRejected"
	// ReasonNameClash: an object that belongs to somebody else has a name that the
	// MiniCluster needs.
	ReasonNameClash = "NameClash"
)

// Reasons of the condition Admitted.
const (
	// ReasonAdmitted: nodes are reserved for the MiniCluster.
	ReasonAdmitted = "Admitted"
	// ReasonNeverFits: not even the empty cluster has room for the MiniCluster, with the nodes that went
	// away in the last hour.
	ReasonNeverFits = "NeverFits"
	// ReasonNoRoom: the MiniCluster would fit in that cluster, but does not fit now.
	ReasonNoRoom = "NoRoom"
	// ReasonWaitingForSize: the MiniCluster would fit at a smaller size, and waits for
	// its full size.
	ReasonWaitingForSize = "WaitingForSize"
	// ReasonWaitingForTurn: other MiniClusters of the queue are served first.
	ReasonWaitingForTurn = "WaitingForTurn"
	// ReasonNodesRequested: an autoscaler was asked for the nodes that the MiniCluster lacks.
	ReasonNodesRequested = "NodesRequested"
	// ReasonNodesAccepted: the autoscaler tries to provide these nodes (Accepted of a
	// ProvisioningRequest, ReadyForProvisioning of a CapacityBuffer).
	ReasonNodesAccepted = "NodesAccepted"
	// ReasonNodesProvisioned: the autoscaler says that it has provided the nodes (Provisioned,
	// Provisioning). Not all of them are ready.
	ReasonNodesProvisioned = "NodesProvisioned"
	// ReasonNodesTimedOut: the nodes did not come within scaleUp.timeout of the queue. The
	// MiniCluster asks again after a pause.
	ReasonNodesTimedOut = "NodesTimedOut"
	// ReasonNodesFailed: the autoscaler cannot provide the nodes (Failed of a ProvisioningRequest).
	// The MiniCluster asks again after a pause.
	ReasonNodesFailed = "NodesFailed"
	// ReasonNodesExpired: the autoscaler holds the nodes for the MiniCluster no longer
	// (BookingExpired). The MiniCluster asks again after a pause.
	ReasonNodesExpired = "NodesExpired"
	// ReasonNodesRevoked: the autoscaler took the nodes back (CapacityRevoked). The MiniCluster asks
	// again after a pause.
	ReasonNodesRevoked = "NodesRevoked"
	// ReasonQueueFull: other MiniClusters have what the queue may have. It starts when enough of them have ended.
	ReasonQueueFull = "QueueFull"
	// ReasonUserLimit: other MiniClusters of its user have what the user may have in the queue. It starts when enough of
	// them have ended.
	ReasonUserLimit = "UserLimit"
	// ReasonTooLargeForQueue: the MiniCluster needs more than its queue may ever have, or than its user may ever have in
	// the queue.
	ReasonTooLargeForQueue = "TooLargeForQueue"
	// ReasonDeadlineTooLong: deadlineSeconds or elastic.checkpoint.wait is more than the queue allows.
	ReasonDeadlineTooLong = "DeadlineTooLong"
	// ReasonNoSuchQueue: the queue of the MiniCluster does not exist.
	ReasonNoSuchQueue = "NoSuchQueue"
	// ReasonQueueSuspended: the queue of the MiniCluster starts nothing (suspended).
	ReasonQueueSuspended = "QueueSuspended"
	// ReasonNotAllowed: the namespace of the MiniCluster may not use the queue (namespaceSelector).
	ReasonNotAllowed = "NotAllowed"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace does not allow the pods or objects of the MiniCluster.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonWaitingForVolume: a volume of the MiniCluster is missing, is not bound yet, or cannot be used by all brokers.
	ReasonWaitingForVolume = "WaitingForVolume"
	// ReasonDependency: the MiniCluster waits for another one (after).
	ReasonDependency = "Dependency"
	// ReasonSingleton: another MiniCluster with the same key runs or goes first (singleton).
	ReasonSingleton = "Singleton"
	// ReasonLater: the time before which the MiniCluster is not queued has not come (notBefore).
	ReasonLater = "Later"
	// ReasonNotChecked: the API server cannot check the pods or objects of the MiniCluster, because
	// a webhook does not answer; or the manager asks the DNS for other domains first.
	ReasonNotChecked = "NotChecked"
	// ReasonPreempted: a MiniCluster of higher priority took the nodes.
	ReasonPreempted = "Preempted"
	// ReasonReclaimed: others took nodes back that the MiniCluster had above its size, or its queue above its share.
	ReasonReclaimed = "Reclaimed"
	// ReasonNodesGo: nodes of the MiniCluster were about to go away, and its command had not begun, or has checkpoints.
	ReasonNodesGo = "NodesGo"
	// ReasonWaitingForQuota: Kueue has no quota for the MiniCluster yet.
	ReasonWaitingForQuota = "WaitingForQuota"
	// ReasonQuotaWithdrawn: Kueue took the quota back.
	ReasonQuotaWithdrawn = "QuotaWithdrawn"
	// ReasonRequeued: the deadline is over, and the command goes on in a further attempt (elastic.onDeadline).
	ReasonRequeued = "Requeued"
	// ReasonReleased: the MiniCluster gave its nodes back.
	ReasonReleased = "Released"
	// ReasonFinished: the MiniCluster has finished, and needs no nodes any more.
	ReasonFinished = "Finished"
)

// Reasons of the condition QuorumReached.
const (
	// ReasonQuorumReached: enough brokers are up.
	ReasonQuorumReached = "QuorumReached"
	// ReasonWaitingForBrokers: brokers are still missing.
	ReasonWaitingForBrokers = "WaitingForBrokers"
	// ReasonNotAdmitted: the MiniCluster has no nodes, and so no brokers.
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
	// ReasonWorkersFailed: pods of followers failed more often than their limit.
	ReasonWorkersFailed = "WorkersFailed"
	// ReasonBrokersLost: brokers were lost while the command ran.
	ReasonBrokersLost = "BrokersLost"
	// ReasonDeadlineExceeded: the command ran longer than deadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonStartLimit: the MiniCluster did not start in any of the allowed attempts.
	ReasonStartLimit = "StartLimitExceeded"
	// ReasonUnfinished: the MiniCluster has not finished.
	ReasonUnfinished = "Unfinished"
)

// Reasons of events about a changed spec of a MiniCluster that runs, or has finished. They are warnings.
const (
	// EventSizeIgnored: the new size has no effect before the next start, or only in part.
	EventSizeIgnored = "SizeIgnored"
	// EventBelowMinimum: the new size is below minSize. The MiniCluster shrinks to it nevertheless.
	EventBelowMinimum = "BelowMinimum"
	// EventSpecIgnored: the spec of a MiniCluster that has finished was changed. Of its fields, only
	// ttlSecondsAfterFinished counts.
	EventSpecIgnored = "SpecIgnored"
)
