// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
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
