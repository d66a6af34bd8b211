// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterQueue is a queue in which MiniClusters wait for nodes. It also says which share
// of the cluster its MiniClusters have together. The queue "default" exists even if nobody
// has created it; create it to change its settings. A MiniCluster in another queue that does
// not exist waits until somebody creates that queue.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcq,path=miniclusterqueues
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`,description="MiniClusters that wait"
// +kubebuilder:printcolumn:name="Admitted",type=integer,JSONPath=`.status.admitted`,description="MiniClusters that have nodes"
// +kubebuilder:printcolumn:name="Share",type=string,JSONPath=`.status.share`,description="Part of the cluster that the queue uses, of its dominant resource"
// +kubebuilder:printcolumn:name="Deserved",type=string,JSONPath=`.status.deserved`,description="Part of the cluster that the queue deserves while others want theirs"
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Asked",type=integer,JSONPath=`.status.scaleUp.nodes`,priority=1,description="Nodes that its MiniClusters wait for, which an autoscaler was asked for"
// +kubebuilder:printcolumn:name="Useful",type=integer,JSONPath=`.status.accounting.usefulNodeSeconds`,priority=1,description="Node-seconds of commands that succeeded"
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.accounting.lostNodeSeconds`,priority=1,description="Other node-seconds of attempts that ended"
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspended`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'kueue' || !has(self.spec) || (!has(self.spec.users) && (!has(self.spec.ordering) || self.spec.ordering in ['Priority', 'FIFO']))",message="the queue kueue has no users and no ordering FairShare or Slowdown: Kueue orders its MiniClusters"
type MiniClusterQueue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the queue is served.
	// +optional
	Spec MiniClusterQueueSpec `json:"spec,omitzero"`

	// status says which MiniClusters of the queue wait, and what the others use.
	// +optional
	Status MiniClusterQueueStatus `json:"status,omitzero"`
}

// MiniClusterQueueList is a list of MiniClusterQueues.
//
// +kubebuilder:object:root=true
type MiniClusterQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MiniClusterQueue `json:"items"`
}

// QueueOrdering is the order in which a queue is served.
// +kubebuilder:validation:Enum=Priority;FIFO;FairShare;Slowdown
type QueueOrdering string

const (
	// OrderPriority serves MiniClusters by priority, the highest first, and then by age, the
	// oldest first.
	OrderPriority QueueOrdering = "Priority"
	// OrderFIFO serves MiniClusters by age, the oldest first.
	OrderFIFO QueueOrdering = "FIFO"
	// OrderFairShare serves MiniClusters by priority, the highest first, then those of the user
	// with the least usage, and then by age.
	OrderFairShare QueueOrdering = "FairShare"
	// OrderSlowdown serves MiniClusters by priority, the highest first, and then by a score: how long they
	// are in the queue until they would end, relative to how long they run. With users in the spec, the
	// usage of a user lowers the score.
	OrderSlowdown QueueOrdering = "Slowdown"
)

// Backfill says which MiniClusters may start before one that does not fit now.
// +kubebuilder:validation:Enum=None;EASY;Conservative
type Backfill string

const (
	// BackfillNone backfills no MiniCluster of the queue (strict order).
	BackfillNone Backfill = "None"
	// BackfillEASY backfills MiniClusters that do not delay the head of the queue.
	BackfillEASY Backfill = "EASY"
	// BackfillConservative backfills MiniClusters that delay no other one before them.
	BackfillConservative Backfill = "Conservative"
)

// RequeuePlace is the place of a MiniCluster that is queued again.
// +kubebuilder:validation:Enum=Original;Last
type RequeuePlace string

const (
	// RequeueOriginal is the place by the MiniCluster's creation.
	RequeueOriginal RequeuePlace = "Original"
	// RequeueLast is the place by the time at which the MiniCluster is queued again.
	RequeueLast RequeuePlace = "Last"
)

// MiniClusterQueueSpec says how a queue is served.
//
// +kubebuilder:validation:XValidation:rule="!has(self.capacity) || !has(self.guarantee) || self.guarantee.all(r, !(r in self.capacity) || quantity(string(self.guarantee[r])).compareTo(quantity(string(self.capacity[r]))) <= 0)",message="guarantee must not be more than capacity: the queue could never have what is kept free for it"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultDeadline) || !has(self.maxDeadline) || duration(self.defaultDeadline) <= duration(self.maxDeadline)",message="defaultDeadline must not be longer than maxDeadline"
type MiniClusterQueueSpec struct {
	// weight is the queue's share of the cluster, relative to the other queues in which
	// MiniClusters wait or run. A queue with weight 2 deserves twice as much as a queue with
	// weight 1. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Weight int32 `json:"weight,omitempty"`

	// priority says which queues are served first: those of higher priority. MiniClusters
	// never preempt MiniClusters of another queue, whatever its priority. Default 0.
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// capacity is a hard limit, by resource, for what the pods of the queue's MiniClusters
	// request together. The resource "pods" is their number. A MiniCluster whose minSize needs
	// more than the capacity is not allowed. A MiniCluster that needs more than is left of the
	// capacity waits, or starts at a smaller size. Default: no limit.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",message="capacity must not be negative; leave out a resource that has no limit"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage', 'pods'] || r.startsWith('hugepages-') || r.contains('/'))",message="capacity is by resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-*, or one with a domain, such as nvidia.com/gpu"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// guarantee is what is kept free for the queue while it uses less, by resource.
	// MiniClusters of other queues do not get these resources. Default: nothing.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",message="guarantee must not be negative"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage', 'pods'] || r.startsWith('hugepages-') || r.contains('/'))",message="guarantee is by resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-*, or one with a domain, such as nvidia.com/gpu"
	// +optional
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`

	// reclaimable: false lets the queue's MiniClusters keep their nodes, even if the queue is
	// above its share and a queue below its share wants these nodes. Default true.
	// +kubebuilder:default=true
	// +optional
	Reclaimable *bool `json:"reclaimable,omitempty"`

	// ordering is Priority (by the PriorityClass of the pods, then age), FIFO (by age alone),
	// FairShare (by the PriorityClass, then users take turns, then age) or Slowdown (by the
	// PriorityClass, then a score). With FairShare the user with the least usage is next. The usage
	// of a user is the average part of the cluster that the user has had, and the part that the user
	// has now. With Slowdown the score is 1 + wait / run time, by the time limit or what was learned,
	// so short MiniClusters go first, and long ones once they have waited for long. If the queue has
	// users, the score is halved for each even share of the usage of all users. Age counts from the
	// MiniCluster's creation, and with Slowdown from when it was queued last. Default Priority.
	// +kubebuilder:default=Priority
	// +optional
	Ordering QueueOrdering `json:"ordering,omitempty"`

	// backfill says which MiniClusters may start before one that does not fit now. None: no
	// MiniCluster (strict order). EASY: those that do not delay the head of the queue.
	// Conservative: those that delay no other one before them. A MiniCluster that is
	// backfilled needs deadlineSeconds, or nodes that the MiniClusters before it do not wait
	// for. Default EASY.
	// +kubebuilder:default=EASY
	// +optional
	Backfill Backfill `json:"backfill,omitempty"`

	// patience is how long MiniClusters without a time limit may pass the head of the queue while
	// others that passed it take longer than expected, once that has happened before. After that,
	// free nodes are kept for the head. Default 5m.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Patience *metav1.Duration `json:"patience,omitempty"`

	// minRuntime is how long a MiniCluster of the queue keeps its nodes at least before the
	// scheduler may evict it for another one (preempt, reclaim). It may still lose its surplus
	// above minSize. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	MinRuntime *metav1.Duration `json:"minRuntime,omitempty"`

	// grace is how long a command of the queue may take to end when the scheduler evicts it for
	// another MiniCluster. All of its tasks get SIGTERM at once, and SIGKILL after that time.
	// elastic.checkpoint.wait of a MiniCluster with checkpoints counts instead. 0s: the pods are
	// deleted at once. Default 30s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Grace *metav1.Duration `json:"grace,omitempty"`

	// maxGrace is the longest elastic.checkpoint.wait of the queue: so long a MiniCluster may keep nodes that others are
	// to get, until it has its checkpoint. A MiniCluster with a longer one is not allowed. One that has nodes gets less
	// time if maxGrace becomes shorter. Brokers that are to leave before the command has begun have as long. Default 10m.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="maxGrace must be longer than 0s"
	// +optional
	MaxGrace *metav1.Duration `json:"maxGrace,omitempty"`

	// defaultDeadline is the deadline of a MiniCluster of the queue that sets no deadlineSeconds,
	// in whole seconds. It lets the scheduler backfill MiniClusters whose users set nothing. A
	// change counts for MiniClusters that are admitted later. Default: maxDeadline.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="defaultDeadline must be longer than 0s; leave it out for none"
	// +optional
	DefaultDeadline *metav1.Duration `json:"defaultDeadline,omitempty"`

	// maxDeadline is the longest deadline of the queue, in whole seconds. A MiniCluster with a
	// larger deadlineSeconds is not allowed. A change counts for MiniClusters that are admitted later.
	// Default: no limit.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="maxDeadline must be longer than 0s; leave it out for none"
	// +optional
	MaxDeadline *metav1.Duration `json:"maxDeadline,omitempty"`

	// extendDeadlines lets users raise deadlineSeconds of a MiniCluster that has nodes. Otherwise a
	// raise counts from the next admission, as in Slurm: a short deadline may have let the
	// MiniCluster start ahead of others. A change counts for MiniClusters that are admitted later.
	// Default false.
	// +optional
	ExtendDeadlines bool `json:"extendDeadlines,omitempty"`

	// requeue is the place of a MiniCluster that is queued again, since it did not start or
	// was evicted. Original: the place by its creation. Last: the place by the time at which
	// it is queued again. Default Original.
	// +kubebuilder:default=Original
	// +optional
	Requeue RequeuePlace `json:"requeue,omitempty"`

	// namespaceSelector selects, by their labels, the namespaces whose MiniClusters may use the
	// queue. A MiniCluster of another namespace is not allowed. One that has nodes keeps them, and
	// grows no further. Default: all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// architecture is that of the nodes for the queue's MiniClusters whose pods name none: a value
	// of the label kubernetes.io/arch, such as arm64. Nodes without this label may be of any. A
	// MiniCluster that has nodes keeps its architecture. Default: one with room.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// users says who the users of the queue are, how long their usage counts, and what each may
	// have at once. Default: each namespace is a user, without limits.
	// +optional
	Users *QueueUsers `json:"users,omitempty"`

	// scaleUp lets the queue ask an autoscaler for nodes that do not exist. Default: it asks for none.
	// +optional
	ScaleUp *ScaleUp `json:"scaleUp,omitempty"`

	// suspended: true admits no MiniCluster from the queue. MiniClusters that run go on.
	// Default false.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// QueueUsers are the users of a queue, and what each may have at once. The limits apply with every
// ordering.
//
// +kubebuilder:validation:XValidation:rule="!has(self.halfLife) || duration(self.halfLife) > duration('0s')",message="halfLife must be longer than 0s"
type QueueUsers struct {
	// label is the name of a label of MiniClusters, whose value is the user. A MiniCluster
	// without this label, or with an empty value, belongs to the user with the name of its
	// namespace. Who may create MiniClusters can set any label, unless an admission policy
	// forbids it. Default: none, so the namespace is the user.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	Label string `json:"label,omitempty"`

	// halfLife is the time after which usage counts half. Default 168h (7 days).
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	HalfLife *metav1.Duration `json:"halfLife,omitempty"`

	// maxRunning is how many MiniClusters of a user may have nodes at once. Others of the user
	// wait, and block nobody. Default: no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxRunning int32 `json:"maxRunning,omitempty"`

	// maxNodes is how many brokers of a user may have nodes at once. A MiniCluster whose
	// minSize is larger is not allowed. One that needs more than is left waits and blocks
	// nobody, or starts at a smaller size. Running MiniClusters do not grow beyond it. Default:
	// no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxNodes int32 `json:"maxNodes,omitempty"`
}
