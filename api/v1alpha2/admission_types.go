// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Admission says how many brokers the scheduler admitted, and on which nodes.
type Admission struct {
	// attempt is the number of the attempt. It rises with each admission, and never falls: a program
	// can use it as a fence.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int32 `json:"attempt"`

	// generation is the generation of the spec that was admitted. The pods are made from that
	// spec.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// size is the number of brokers that were placed.
	// +kubebuilder:validation:Minimum=1
	// +required
	Size int32 `json:"size"`

	// wanted is the size in the spec at the admission. The number of tasks is in proportion
	// to it.
	// +optional
	Wanted int32 `json:"wanted,omitempty"`

	// resized is true after the size in the spec has differed from wanted. From then on the
	// MiniCluster follows the size in the spec, also with elastic.grow.
	// +optional
	Resized bool `json:"resized,omitempty"`

	// quorum is the number of brokers that the command waits for. At first it is size. After
	// elastic.quorumTimeout it is lowered to a size for which enough brokers are up.
	// +kubebuilder:validation:Minimum=1
	// +required
	Quorum int32 `json:"quorum"`

	// nodes are the nodes by rank, as a hostlist (Flux RFC 29). The first node is the lead's.
	// A node with several brokers appears several times.
	// +kubebuilder:validation:MinLength=1
	// +required
	Nodes string `json:"nodes"`

	// lead is the UID of the lead's pod. It is set before the manager places the pod, or at the start of the command if the
	// API server bound the pod. No other pod of rank 0 is the lead of this attempt.
	// +optional
	Lead types.UID `json:"lead,omitempty"`

	// vacated are the ranks that have given their node back since the admission, as an idset
	// (Flux RFC 22): "5-7". They are still counted in size and listed in nodes, so that the
	// other ranks do not change. The number of remaining brokers is size minus these ranks.
	// +optional
	Vacated string `json:"vacated,omitempty"`

	// drain are the ranks that are asked to leave. When they have left, they are vacated.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// moved are the ranks that got another node since they did not start on their first one,
	// as an idset.
	// +optional
	Moved string `json:"moved,omitempty"`

	// loss are the brokers that were lost while the command ran.
	// +optional
	Loss *Loss `json:"loss,omitempty"`

	// joining are the ranks that have no part in the command yet, as an idset: they got a node after
	// its last start, and the command is run again with them (elastic.resize: Restart).
	// +optional
	Joining string `json:"joining,omitempty"`

	// restarts is how often the command was run again in this attempt, and losses how often since
	// brokers were lost.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// +optional
	Losses int32 `json:"losses,omitempty"`

	// restart is the restart of the command that is under way.
	// +optional
	Restart *Restart `json:"restart,omitempty"`

	// eviction is set while the command has time to end, because its MiniCluster has to give all
	// nodes back.
	// +optional
	Eviction *Eviction `json:"eviction,omitempty"`

	// readySince is since when the lead's pod had been ready at the last decision about its command.
	// A later time means that the command was run again, or has written a checkpoint.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`

	// requests are the resources that one pod requests, with the defaults of the cluster.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// exclusive is true if each broker has its node alone.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`

	// priority is the priority of the pods, from their PriorityClass.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// deadlineSeconds is how long the command may run, in seconds from its start: deadlineSeconds
	// of the spec, or else the deadline of the queue. Unset: neither sets one.
	// +optional
	DeadlineSeconds *int64 `json:"deadlineSeconds,omitempty"`

	// queueDeadlines are the deadlines of the queue at the admission; unset if it had none. A
	// later change of deadlineSeconds in the spec counts at once, up to max, but only a queue with
	// extendDeadlines lets it become longer.
	// +optional
	QueueDeadlines *Deadlines `json:"queueDeadlines,omitempty"`

	// traits are what the spec said at the admission about the command.
	// +optional
	Traits *Traits `json:"traits,omitempty"`

	// quota is the quota under which the MiniCluster was admitted; unset if its queue is not
	// one of Kueue.
	// +optional
	Quota *Quota `json:"quota,omitempty"`

	// usage is what this attempt has used so far. Unset: no decision followed the admission yet.
	// +optional
	Usage *AttemptUsage `json:"usage,omitempty"`

	// time is when the scheduler's decision was written.
	// +required
	Time metav1.Time `json:"time"`
}

// Deadlines are what a queue says about how long the commands of its MiniClusters may run.
type Deadlines struct {
	// default is the deadline of a MiniCluster that sets none; unset: max.
	// +optional
	Default *metav1.Duration `json:"default,omitempty"`

	// max is the longest deadline; unset: no limit.
	// +optional
	Max *metav1.Duration `json:"max,omitempty"`

	// extend is true if a deadline may become longer after the admission.
	// +optional
	Extend bool `json:"extend,omitempty"`
}

// Traits are the fields of the spec that say how the command runs and which changes it bears.
// A change of these fields in the spec has an effect when the MiniCluster is admitted again. An
// admission by an earlier manager has no traits; the fields of the spec count instead.
type Traits struct {
	// malleable is true if brokers may join and leave while the command runs: resize is not None.
	// +optional
	Malleable bool `json:"malleable,omitempty"`

	// resize of the spec's elastic.
	// +optional
	Resize ResizePolicy `json:"resize,omitempty"`

	// checkpointWait is elastic.checkpoint.wait of the spec; unset if the command writes no
	// checkpoints.
	// +optional
	CheckpointWait *metav1.Duration `json:"checkpointWait,omitempty"`

	// asksForCheckpoint is true if elastic.checkpoint has a signal or a command, and
	// tellsCheckpoints if it has a path or an interval.
	// +optional
	AsksForCheckpoint bool `json:"asksForCheckpoint,omitempty"`
	// +optional
	TellsCheckpoints bool `json:"tellsCheckpoints,omitempty"`

	// minSize of the spec.
	// +required
	MinSize int32 `json:"minSize"`

	// quorumTimeout of the spec's elastic, by which the lead broker starts the command where no manager runs. A shorter one of
	// the spec counts at once.
	// +optional
	QuorumTimeout *metav1.Duration `json:"quorumTimeout,omitempty"`

	// sizes of the spec's elastic.
	// +optional
	Sizes *Sizes `json:"sizes,omitempty"`

	// tasks of the spec, the number at the size `wanted`; 0 if Flux chooses the number.
	// +optional
	Tasks int32 `json:"tasks,omitempty"`

	// taskPolicy is `tasks` of the spec's elastic.
	// +optional
	TaskPolicy TaskPolicy `json:"taskPolicy,omitzero"`

	// slotsPerNode is the number of tasks for which a broker has cores; 0 if it is not known.
	// +optional
	SlotsPerNode int32 `json:"slotsPerNode,omitempty"`

	// onLoss of the spec's elastic.
	// +optional
	OnLoss LossPolicy `json:"onLoss,omitempty"`

	// backoffLimit of the spec.
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
}

// Drain asks ranks of a MiniCluster to leave: they get no new work, and are evicted at the
// deadline.
type Drain struct {
	// ranks are the ranks that are to leave, as an idset (Flux RFC 22). The lead, rank 0, is
	// never among them.
	// +kubebuilder:validation:MinLength=1
	// +required
	Ranks string `json:"ranks"`

	// time is since when ranks are asked to leave, or when they got their time again.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// deadline is when the pods of the ranks are evicted. It is unset before the command
	// runs: then the ranks leave if the command begins without them, and otherwise stay. If it
	// does not begin within the maxGrace of the queue, they leave.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// reason says why the ranks are to leave, for example which MiniCluster gets their nodes.
	// +optional
	Reason string `json:"reason,omitempty"`

	// again is true if the ranks got their time a second time, because the lead had not been told in the first.
	// +optional
	Again bool `json:"again,omitempty"`
}

// Restart is a restart of the command with other brokers.
type Restart struct {
	// time is when the restart was decided, or when it got its time again.
	// +required
	Time metav1.Time `json:"time"`

	// from is the number of brokers with which the command ran, and to with how many it runs then.
	// +required
	From int32 `json:"from"`
	// +required
	To int32 `json:"to"`

	// reason says why.
	// +optional
	Reason string `json:"reason,omitempty"`

	// seconds is how long it took from the decision until the command ran again; unset while the
	// restart is under way. checkpointSeconds is how long it took until the command had ended, with
	// its checkpoint; unset if nobody saw that.
	// +optional
	Seconds *int64 `json:"seconds,omitempty"`
	// +optional
	CheckpointSeconds *int64 `json:"checkpointSeconds,omitempty"`

	// again is true if the restart got its time a second time, because the lead had not been told in the first.
	// +optional
	Again bool `json:"again,omitempty"`
}

// Eviction is why a MiniCluster has to give all of its nodes back, and until when its command has time
// to end.
type Eviction struct {
	// reason is the reason that the condition Admitted gets.
	// +required
	Reason string `json:"reason"`

	// message says who gets the nodes, or why they are given back.
	// +optional
	Message string `json:"message,omitempty"`

	// deadline is when the pods are deleted.
	// +required
	Deadline metav1.Time `json:"deadline"`

	// again is true if the command got its time a second time, because the lead had not been told in the first.
	// +optional
	Again bool `json:"again,omitempty"`
}

// MayBeLead reports whether a pod of rank 0 is the lead of the attempt, or no pod is recorded as the lead yet.
func (a *Admission) MayBeLead(pod types.UID) bool { return a == nil || a.Lead == "" || a.Lead == pod }
