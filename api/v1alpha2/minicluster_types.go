// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MiniCluster is one Flux instance in pods. It has a lead broker, which runs the user's
// command, and followers, on which the command can run too. It starts at the size that fits,
// between minSize and size, and holds no node before it can start.
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
// +kubebuilder:printcolumn:name="Deadline",type=integer,priority=1,JSONPath=`.status.admission.deadlineSeconds`,description="Seconds that the command may run"
// +kubebuilder:printcolumn:name="Placement",type=string,priority=1,JSONPath=`.status.admission.nodes`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower case letters, digits and '-': host names are made from it"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) + size(string(has(self.spec.maxSize) && self.spec.maxSize > self.spec.size ? self.spec.maxSize : self.spec.size)) <= 52",message="metadata.name is too long: it and the digits of the largest size may have 52 characters in all, so that every pod name fits in 63"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.services) || size(self.spec.services) == 0 || size(self.metadata.name) <= 46",message="metadata.name is too long: with services it may have 46 characters, so that the name of their pod fits in 63"
type MiniCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	Spec MiniClusterSpec `json:"spec"`

	// status is the observed state.
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
// +kubebuilder:validation:XValidation:rule="!has(self.pod) || !has(self.pod.hostNetwork) || !self.pod.hostNetwork || (has(self.placement) && has(self.placement.exclusive) && self.placement.exclusive)",message="pod.hostNetwork needs placement.exclusive: two brokers of one node would need the same port"
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
// +kubebuilder:validation:XValidation:rule="!has(self.cleanup) || !self.cleanup || !has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished == 0",message="cleanup and ttlSecondsAfterFinished exclude each other: cleanup deletes the MiniCluster as soon as it has ended"
// +kubebuilder:validation:XValidation:rule="has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",message="managedBy cannot be changed"
type MiniClusterSpec struct {
	// containers are the containers of every pod. One of them runs Flux and the user's
	// command: the only container, or the one with runFlux: true.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	Containers []MiniClusterContainer `json:"containers"`

	// services are the containers of one more pod beside the brokers, for example a database.
	// The host name of this services pod is `<name>-services`, in the domain of the brokers.
	// The services pod is no broker, and is not counted in size. The cluster's scheduler
	// chooses its node after the brokers have their nodes. The services pod ends with the
	// lead, and its failures do not fail the MiniCluster. The settings of `pod` apply to it,
	// except hostIPC, hostPID and resources; its restartPolicy is OnFailure by default.
	// Fields for the Flux container have no effect there: runFlux, launcher, batch, batchRaw,
	// logs, pre, brokerPre, workerPre, prefix.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Services []MiniClusterContainer `json:"services,omitempty"`

	// size is the number of brokers wanted, one per pod. Default 1. If size does not fit, the
	// MiniCluster starts with fewer brokers, but at least minSize. Users, `kubectl scale` and
	// HPA may change size. A MiniCluster is malleable if its Flux container is a launcher, if it
	// is interactive, or with elastic.resize: Restart. A malleable MiniCluster that runs follows
	// size. It shrinks at once, below minSize too, and grows up to size when there are nodes that
	// nobody waits for, above size only with elastic.grow. For a rigid MiniCluster a new size
	// counts from the next start.
	// The controller never changes size.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Size int32 `json:"size,omitempty"`

	// minSize is the smallest number of brokers with which the MiniCluster may start. When the
	// scheduler drains brokers of a malleable MiniCluster (see size) for others, at least
	// minSize brokers stay. Default size: all or nothing.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MinSize int32 `json:"minSize,omitempty"`

	// maxSize is the largest size that may be set, and the number of brokers up to which a
	// malleable MiniCluster (see size) may grow with elastic.grow. There is a pod for each of
	// them, but no more pods than the cluster could hold, or 256 if that is more. Pods that are
	// not placed wait behind a scheduling gate and hold no resources. A rigid
	// MiniCluster has pods for size only; maxSize limits its size, and the hosts that it has for
	// flux.bursting. A change of maxSize has an effect when pods are made again. Default size.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MaxSize int32 `json:"maxSize,omitempty"`

	// tasks is the number of tasks (MPI ranks) of the whole command at the `size` that the spec has when
	// tasks is set. At another size this number is scaled as elastic.tasks says, also if `size` alone is
	// changed later (kubectl scale). With 0, Flux chooses: one task per node. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	Tasks *int32 `json:"tasks,omitempty"`

	QueueingSpec `json:",inline"`

	// placement says which nodes the MiniCluster gets, of those that have room.
	// +optional
	Placement PlacementSpec `json:"placement,omitzero"`

	// priorityClassName names the PriorityClass of the pods. In a queue, MiniClusters of
	// higher priority are served first, and may preempt MiniClusters of lower priority, unless the
	// preemptionPolicy of the class is Never.
	// Default: the cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// managedBy names the controller that carries out the MiniCluster, for example
	// kueue.x-k8s.io/multikueue. If managedBy is set to another value than
	// flux-framework.org/minicluster, this controller does nothing for the MiniCluster.
	// managedBy cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ManagedBy string `json:"managedBy,omitempty"`

	// suspend: true takes the MiniCluster out of the queue. If the MiniCluster has nodes, its
	// pods end and its nodes become free; a command with elastic.checkpoint may write a checkpoint
	// first. When suspend is false again, the MiniCluster is queued, and has all of its attempts
	// again; their numbers go on. The command runs again, also if it ended with 0 while its pods
	// ended. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// elastic are the time limits of a start, the allowed sizes, how the number of tasks follows the
	// size, and how the command follows a change of the size while it runs.
	// +optional
	Elastic ElasticSpec `json:"elastic,omitzero"`

	// deadlineSeconds is how long the command may run, in seconds from the moment the quorum
	// is reached. Time in the queue and during the start does not count. After the deadline
	// the MiniCluster fails, or goes on later (elastic.onDeadline). 0 and the default set no deadline: that of the queue counts
	// (defaultDeadline, or else maxDeadline). If the queue has none either, 0 means no limit.
	// status.admission.deadlineSeconds has the deadline that counts. Default 31500000 (about a
	// year).
	// +kubebuilder:default=31500000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9000000000
	// +optional
	DeadlineSeconds *int64 `json:"deadlineSeconds,omitempty"`

	// backoffLimit is how often a command that failed is run again before the MiniCluster fails:
	// each time in a new attempt, with new pods, after a pause of elastic.recreate. A lead that was
	// lost counts as a failure, unless elastic.onLoss is Recreate. Default 0: a failure of the
	// command is the result.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`

	// cleanup: true deletes the MiniCluster when the command has ended and none of its pods
	// runs any more. The lead's pod and its log are deleted too. cleanup excludes
	// ttlSecondsAfterFinished. Default false.
	// +optional
	Cleanup bool `json:"cleanup,omitempty"`

	// ttlSecondsAfterFinished is how long the MiniCluster stays after it has finished, in
	// seconds. Then it is deleted, with the lead's pod and its log. 0 is the same as cleanup.
	// Default: the MiniCluster stays until somebody deletes it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// interactive: true starts Flux without a command. Users can use the Flux instance until
	// the MiniCluster is deleted. Default false, but a MiniCluster without a command is interactive, too.
	// +optional
	Interactive bool `json:"interactive,omitempty"`

	// flux are the settings of the Flux instance.
	// +optional
	Flux FluxSpec `json:"flux,omitzero"`

	// logging says what is printed besides the output of the command.
	// +optional
	Logging LoggingSpec `json:"logging,omitzero"`

	// archive is a saved state of Flux from which the instance starts.
	// +optional
	Archive MiniClusterArchive `json:"archive,omitzero"`

	// network are the settings by which brokers find each other.
	// +optional
	Network Network `json:"network,omitzero"`

	// jobLabels are labels of the JobSet and its Jobs. The API server refuses labels that the manager, Kubernetes or
	// JobSet set there, and those of Kueue, which belong to the metadata of the MiniCluster.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 63)",message="a value of jobLabels may have 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !(name in ['job-name', 'controller-uid']) && !name.startsWith('flux-framework.org/') && !name.startsWith('batch.kubernetes.io/') && !name.startsWith('jobset.sigs.k8s.io/'))",message="jobLabels must not be job-name or controller-uid, or begin with flux-framework.org/, batch.kubernetes.io/ or jobset.sigs.k8s.io/: the manager and Kubernetes set these"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.startsWith('kueue.x-k8s.io/'))",message="jobLabels must not begin with kueue.x-k8s.io/: labels of Kueue belong to the metadata of the MiniCluster"
	// +optional
	JobLabels map[string]string `json:"jobLabels,omitempty"`

	// shareProcessNamespace: true lets the containers of a broker's pod see each other's
	// processes. Default false.
	// +optional
	ShareProcessNamespace bool `json:"shareProcessNamespace,omitempty"`

	// pod are settings of every pod, including the services pod (see services).
	// +optional
	Pod PodSpec `json:"pod,omitzero"`
}
