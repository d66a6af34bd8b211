// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniCluster is one Flux instance in pods: a lead broker that runs the user's
// command and followers that give it their cores. It starts at the size that
// fits, between minSize and size, and holds no node before it can start.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mc,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="JobMiniClusterReady")].reason`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`,description="Brokers that are up"
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.size`,description="Brokers asked for"
// +kubebuilder:printcolumn:name="Tasks",type=integer,JSONPath=`.status.tasks`,description="Tasks the command is started with"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes that are held now"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queue`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="JobMiniClusterReady")].message`
// +kubebuilder:printcolumn:name="Placement",type=string,priority=1,JSONPath=`.status.admission.nodes`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower case letters, digits and '-': host names are made from it"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) + size(string(has(self.spec.maxSize) && self.spec.maxSize > self.spec.size ? self.spec.maxSize : self.spec.size)) <= 52",message="metadata.name is too long: it and the digits of the largest size may have 52 characters in all, so that every pod name fits in 63"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.services) || size(self.spec.services) == 0 || size(self.metadata.name) <= 46",message="metadata.name is too long: with services it may have 46 characters, so that the name of their pod fits in 63"
type MiniCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	Spec MiniClusterSpec `json:"spec"`

	// status is what is there.
	// +optional
	Status MiniClusterStatus `json:"status,omitzero"`
}

// MiniClusterList is a list of MiniClusters.
//
// +kubebuilder:object:root=true
type MiniClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MiniCluster `json:"items"`
}

// MiniClusterSpec is what the user wants.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSize) || self.maxSize == 0 || self.maxSize >= self.size",message="maxSize must be at least size"
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || self.minSize <= self.size || (oldSelf.hasValue() && oldSelf.value().?minSize == self.?minSize)",message="minSize must be at most size",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="self.containers.size() == 1 || self.containers.filter(c, has(c.runFlux) && c.runFlux).size() == 1",message="exactly one container must have runFlux: true, the one that Flux runs the command in"
// +kubebuilder:validation:XValidation:rule="self.containers.size() == 1 || self.containers.all(c, (has(c.runFlux) && c.runFlux) || (has(c.name) && size(c.name) > 0))",message="every container without runFlux: true needs a name"
// +kubebuilder:validation:XValidation:rule="self.containers.all(c, !has(c.name) || size(c.name) == 0 || (has(c.runFlux) && c.runFlux) || self.containers.filter(d, has(d.name) && d.name == c.name && !(has(d.runFlux) && d.runFlux)).size() == 1)",message="two containers cannot have the same name"
// +kubebuilder:validation:XValidation:rule="self.containers.all(c, !(self.containers.size() == 1 || (has(c.runFlux) && c.runFlux)) || !(has(c.launcher) && c.launcher && has(c.batch) && c.batch))",message="launcher and batch exclude each other: a launcher submits its own jobs, a batch is a list of jobs to submit"
// +kubebuilder:validation:XValidation:rule="self.containers.all(c, !(self.containers.size() == 1 || (has(c.runFlux) && c.runFlux)) || !(has(c.command) && size(c.command) > 0 && has(c.commands) && has(c.commands.script) && size(c.commands.script) > 0))",message="command and commands.script exclude each other: the script is the command"
// +kubebuilder:validation:XValidation:rule="!has(self.services) || self.services.all(s, has(s.name) && size(s.name) > 0)",message="every service needs a name"
// +kubebuilder:validation:XValidation:rule="!has(self.services) || self.services.all(s, !has(s.commands) || !((has(s.commands.pre) && size(s.commands.pre) > 0) || (has(s.commands.brokerPre) && size(s.commands.brokerPre) > 0) || (has(s.commands.workerPre) && size(s.commands.workerPre) > 0)))",message="services run beside Flux: commands.pre, brokerPre and workerPre are for the Flux container"
// +kubebuilder:validation:XValidation:rule="!has(self.elastic) || !has(self.elastic.sizes) || (has(self.minSize) && self.minSize > 0)",message="elastic.sizes needs minSize: sizes are counted from it"
type MiniClusterSpec struct {
	// containers are the containers of every pod. One of them runs Flux and the
	// user's command: the only one, or the one with runFlux: true.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	Containers []MiniClusterContainer `json:"containers"`

	// services are containers of one more pod beside the MiniCluster (a database, say).
	// Its host name is `<name>-services`, in the domain of the brokers. It is no broker:
	// it is not counted in size, gets a node from the cluster's scheduler once the
	// brokers have theirs, ends with the lead, and does not fail the MiniCluster. Of
	// `pod` it has all but hostIPC, hostPID and resources; its restartPolicy is OnFailure
	// by default. Fields for the Flux container have no effect there: runFlux, launcher,
	// batch, batchRaw, logs, pre, brokerPre, workerPre, prefix.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Services []MiniClusterContainer `json:"services,omitempty"`

	// size is the number of brokers wanted, one per pod. Default 1. The
	// MiniCluster starts with fewer, down to minSize, where size does not fit. It may be
	// changed, by `kubectl scale` and HPA too. A MiniCluster that bears it (one whose Flux
	// container is a launcher, or that is interactive) then shrinks at once, below minSize
	// as well, or grows up to maxSize when there are nodes that nobody waits for; for
	// others it counts from the next start.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Size int32 `json:"size,omitempty"`

	// minSize is the smallest number of brokers that the MiniCluster may start with, and
	// what it keeps while others take nodes from it (it bears that where its Flux
	// container is a launcher, or interactive is true). Default size: all or nothing.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MinSize int32 `json:"minSize,omitempty"`

	// maxSize is the number of brokers up to which the MiniCluster may grow. Pods
	// are made for all of them; those above the size it got wait behind a
	// scheduling gate and hold nothing. Nodes that nobody waits for are given to a
	// MiniCluster that bears brokers joining: one whose Flux container is a launcher,
	// or that is interactive; once its size was changed while it runs, no more than that.
	// It counts when the pods are made. Default size.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MaxSize int32 `json:"maxSize,omitempty"`

	// tasks is the number of tasks (MPI ranks) of the whole command at `size`
	// brokers; at another size it is scaled as elastic.tasks says. 0 leaves the
	// number to Flux: one task per node. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	Tasks *int32 `json:"tasks,omitempty"`

	// queue is the MiniClusterQueue in which the MiniCluster waits for nodes. Default:
	// the one that the namespace names in its label flux-framework.org/queue, or else
	// "default". In one that does not exist it waits until that is made (Admitted=False,
	// reason NotAllowed).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Queue string `json:"queue,omitempty"`

	// placement says which nodes the MiniCluster would like, of those that would do.
	// +optional
	Placement PlacementSpec `json:"placement,omitzero"`

	// priorityClassName names the PriorityClass of the pods. Higher priority is
	// served first in the queue, and may take nodes from lower there. Default: the
	// cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// suspend: true takes the MiniCluster out of the queue, or ends its pods and
	// frees its nodes if it has any; false queues it again, with a fresh count of
	// attempts. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// elastic says how long the MiniCluster waits for what, which sizes it may
	// start at and how its tasks follow its size.
	// +optional
	Elastic ElasticSpec `json:"elastic,omitzero"`

	// deadlineSeconds is how long the command may run, in seconds from the moment
	// the quorum is reached; time in the queue and starting up does not count.
	// Then the MiniCluster fails. 0: no limit. Default 31500000 (about a
	// year).
	// +kubebuilder:default=31500000
	// +kubebuilder:validation:Minimum=0
	// +optional
	DeadlineSeconds *int64 `json:"deadlineSeconds,omitempty"`

	// backoffLimit is how often a lead broker that failed is started again, in a
	// new pod with no old state (where pod.restartPolicy is Never), before the
	// MiniCluster fails. Default 0: a failure of the command is the result.
	// +kubebuilder:validation:Minimum=0
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`

	// cleanup: true deletes the MiniCluster, and with it the lead's pod and its
	// log, once the command is done and no pod is left running. Default false.
	// +optional
	Cleanup bool `json:"cleanup,omitempty"`

	// ttlSecondsAfterFinished is how long, in seconds, the MiniCluster stays once it is
	// done, with the lead's pod and its log; then it is deleted. 0 is the same as cleanup.
	// Default: until somebody deletes it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// interactive: true starts Flux without running a command: it stays up for
	// people to use until the MiniCluster is deleted. Default false.
	// +optional
	Interactive bool `json:"interactive,omitempty"`

	// flux are the settings of the Flux instance.
	// +optional
	Flux FluxSpec `json:"flux,omitzero"`

	// logging says what is printed besides the output of the command.
	// +optional
	Logging LoggingSpec `json:"logging,omitzero"`

	// archive is a state of Flux to start from.
	// +optional
	Archive MiniClusterArchive `json:"archive,omitzero"`

	// network is how brokers find each other.
	// +optional
	Network Network `json:"network,omitzero"`

	// jobLabels are labels of the JobSet and its Jobs.
	// +optional
	JobLabels map[string]string `json:"jobLabels,omitempty"`

	// shareProcessNamespace: true lets the containers of a broker's pod see each other's
	// processes. Default false.
	// +optional
	ShareProcessNamespace bool `json:"shareProcessNamespace,omitempty"`

	// pod are settings of every pod, that of the services included (see there).
	// +optional
	Pod PodSpec `json:"pod,omitzero"`
}

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
