// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import corev1 "k8s.io/api/core/v1"

// FluxSpec are the settings of the Flux instance.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bursting) || !has(self.bursting.leadBroker) || size(self.bursting.leadBroker.address) == 0 || (has(self.curveCert) && size(self.curveCert) > 0) || has(self.curveCertSecretRef)",message="bursting.leadBroker needs curveCert or curveCertSecretRef: the certificate of the MiniCluster to join"
// +kubebuilder:validation:XValidation:rule="!has(self.curveCertSecretRef) || !has(self.curveCert) || size(self.curveCert) == 0",message="curveCert and curveCertSecretRef exclude each other"
type FluxSpec struct {
	// container is the image from which Flux is copied into every pod.
	// +optional
	Container FluxContainer `json:"container,omitzero"`

	// submitCommand is used in place of `flux submit`, e.g. `flux run`.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	SubmitCommand string `json:"submitCommand,omitempty"`

	// optionFlags are further options of the submit command, e.g. `-ompi=openmpi@5`.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	OptionFlags string `json:"optionFlags,omitempty"`

	// wrap is a command under which the lead broker is started, e.g. `strace,-f`.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Wrap string `json:"wrap,omitempty"`

	// connectTimeout is how long a follower tries to connect to the lead before it starts
	// over, as a Flux duration (RFC 23). Default 5s if `flux` is given. With "", Flux's own
	// default applies.
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h|d)?)?$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ConnectTimeout *string `json:"connectTimeout,omitempty"`

	// topology is the shape of the tree of brokers: kary:K, binomial or mincrit. Default
	// kary:256, or kary:0 with bursting.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Topology string `json:"topology,omitempty"`

	// logLevel is how much the broker logs: 0 (only emergencies) to 7 (all).
	// Default 6.
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	// +optional
	LogLevel *int32 `json:"logLevel,omitempty"`

	// minimalService: true gives only the lead a name in DNS. Default false.
	// +optional
	MinimalService bool `json:"minimalService,omitempty"`

	// disableSocket: true leaves the path of the broker's socket to Flux. Default false.
	// +optional
	DisableSocket bool `json:"disableSocket,omitempty"`

	// noWaitSocket: true starts containers beside Flux at once. Default false: a container
	// that has a command waits for the broker of its pod.
	// +optional
	NoWaitSocket bool `json:"noWaitSocket,omitempty"`

	// completeWorkers: true ends the pod of a follower when its broker ends, for any reason.
	// Default false: the broker is started again until the lead is gone.
	// +optional
	CompleteWorkers bool `json:"completeWorkers,omitempty"`

	// curveCert is the text of a CURVE certificate for the brokers. All who may read the
	// MiniCluster can read this text: better give curveCertSecretRef. Default: a new certificate
	// for every attempt.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CurveCert string `json:"curveCert,omitempty"`

	// curveCertSecretRef is the Secret with the CURVE certificate for the brokers, in the
	// namespace of the MiniCluster. The pods do not start before it exists. Default: see curveCert.
	// +optional
	CurveCertSecretRef *Secret `json:"curveCertSecretRef,omitempty"`

	// brokerConfig is the text of a broker configuration (TOML) to use in place
	// of the generated one.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	BrokerConfig string `json:"brokerConfig,omitempty"`

	// environment are variables that flux-view.sh sets, for users who connect to the instance.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",message="names of environment variables hold letters, digits and _, and do not start with a digit"
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 32768)",message="a value of environment may have 32768 characters"
	// +optional
	Environment map[string]string `json:"environment,omitempty"`

	// scheduler is the scheduler inside the instance.
	// +optional
	Scheduler FluxScheduler `json:"scheduler,omitzero"`

	// resources says which cores and GPUs Flux schedules. Pod: those that the Flux container
	// of a pod is given; less than one core counts as one. Local: those that each broker sees on
	// its node, as in the Flux Operator, for pods that have whole nodes. Default Pod, or Local
	// if the Flux container has no CPU limit or request. A command with more tasks than these
	// cores can hold is refused.
	// +kubebuilder:default=Pod
	// +optional
	Resources ResourceSource `json:"resources,omitempty"`

	// gpuResources are extended resources of which a unit is a GPU to Flux, beside nvidia.com/gpu, nvidia.com/gpu.shared,
	// nvidia.com/mig-*, amd.com/gpu, gpu.intel.com/i915, gpu.intel.com/xe and habana.ai/gaudi.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) <= 317)",message="a name of gpuResources may have 317 characters"
	// +listType=set
	// +optional
	GPUResources []corev1.ResourceName `json:"gpuResources,omitempty"`

	// bursting joins this MiniCluster with others in one Flux instance.
	// +optional
	Bursting Bursting `json:"bursting,omitzero"`

	// arch does nothing; the Flux Operator has the field.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Arch string `json:"arch,omitempty"`

	// mungeSecret does nothing; the Flux Operator has the field.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	MungeSecret string `json:"mungeSecret,omitempty"`
}

// ResourceSource says which cores and GPUs the ranks have in Flux.
// +kubebuilder:validation:Enum=Pod;Local
type ResourceSource string

const (
	// ResourcesOfPod gives a rank the resources of its Flux container.
	ResourcesOfPod ResourceSource = "Pod"
	// ResourcesLocal gives a rank the resources that its broker sees on its node.
	ResourcesLocal ResourceSource = "Local"
)

// FluxContainer is the init container that copies Flux into the pod.
type FluxContainer struct {
	// disable: true takes Flux from the application's own image. Default false.
	// +optional
	Disable bool `json:"disable,omitempty"`

	// name is the name of the init container and of the volume. Default flux-view.
	// +kubebuilder:default="flux-view"
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// image has to be built for the operating system of the application's image. Default
	// ghcr.io/converged-computing/flux-view-ubuntu:tag-noble.
	// +kubebuilder:default="ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// imagePullSecret names a Secret of the namespace to pull the image with.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// pullAlways: true pulls the image at every start. Default false.
	// +optional
	PullAlways bool `json:"pullAlways,omitempty"`

	// workingDir is the directory in which the init container runs.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// mountPath is where Flux is mounted in the Flux container. Default /mnt/flux.
	// +kubebuilder:default="/mnt/flux"
	// +kubebuilder:validation:Pattern=`^(/.*)?$`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	MountPath string `json:"mountPath,omitempty"`

	// pythonPath is added to PYTHONPATH. Default: the site-packages of the view.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	PythonPath string `json:"pythonPath,omitempty"`

	// resources are the init container's requests and limits.
	// +kubebuilder:validation:XValidation:rule="(!has(self.requests) || size(self.requests) <= 64) && (!has(self.limits) || size(self.limits) <= 64)",message="a container may have 64 resources"
	// +kubebuilder:validation:XValidation:rule="!has(self.claims) || size(self.claims) == 0",message="resource claims (DRA) cannot be used yet"
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// securityContext is the security context of the init container.
	// +kubebuilder:validation:XValidation:rule="!has(self.capabilities) || ((!has(self.capabilities.add) || size(self.capabilities.add) <= 64) && (!has(self.capabilities.drop) || size(self.capabilities.drop) <= 64))",message="a container may add 64 capabilities, and drop 64"
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}

// FluxScheduler is the scheduler inside the instance.
type FluxScheduler struct {
	// simple: true selects sched-simple, the scheduler that is a part of Flux. Default false:
	// Fluxion, if the view (or the image that Flux is in) has Fluxion.
	// +optional
	Simple bool `json:"simple,omitempty"`

	// queuePolicy is the policy of Fluxion's queue: fcfs, easy, conservative or
	// hybrid. With fcfs, Fluxion refuses a job that needs more brokers than are up, where the others
	// let the job wait. Default easy.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	QueuePolicy string `json:"queuePolicy,omitempty"`
}

// Bursting joins MiniClusters in one Flux instance. The MiniClusters may be in several
// Kubernetes clusters. The instance is that of the first MiniCluster, which has no
// leadBroker. All brokers share one list of hosts, in which a rank never changes its place:
//
//   - the hosts of the first MiniCluster,
//   - the hosts of the MiniClusters in clusters, in their order,
//   - the hosts of a MiniCluster that joins and is not named in clusters.
//
// All MiniClusters must have the same list, or a list that is only longer. All must have
// the same certificate, too (curveCertSecretRef). Each MiniCluster has its own size, quorum and
// tasks. The command of the first MiniCluster gets only nodes of that MiniCluster. Jobs that
// the command submits itself can run on all nodes.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.hostlist) && size(self.hostlist) > 0 && has(self.clusters) && self.clusters.size() > 0)",message="bursting.hostlist and bursting.clusters exclude each other"
type Bursting struct {
	// leadBroker is the lead broker of the MiniCluster to join. It is unset, or its address is
	// empty, on the first MiniCluster. If it is set, all brokers of this MiniCluster are
	// followers. The command of this MiniCluster does not run, and the MiniCluster ends with the
	// instance.
	// +optional
	LeadBroker *FluxBroker `json:"leadBroker,omitempty"`

	// hostlist is a list of all hosts (Flux RFC 29), in place of the generated list. It must
	// have the hosts of this MiniCluster: <name>-<rank> for ranks from 0 to maxSize-1, or those of
	// its pods: <name>-0-0-0, and <name>-w-0-<i> for i from 0 to maxSize-2. Without leadBroker,
	// these hosts must be the first ones, in this order.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Hostlist string `json:"hostlist,omitempty"`

	// clusters are the MiniClusters that join. Their hosts are named like those of this
	// MiniCluster: <name>-<rank>. Hosts with other names need hostlist.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Clusters []BurstedCluster `json:"clusters,omitempty"`
}

// BurstedCluster is a MiniCluster that joins the instance.
type BurstedCluster struct {
	// name is the name of the MiniCluster. Default burst-<index>.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// size is the number of brokers that the joining MiniCluster can have, its maxSize.
	// Default: the maxSize of this MiniCluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Size int32 `json:"size,omitempty"`
}

// FluxBroker is the lead broker of another MiniCluster. A FluxBroker without an address is
// unset: Go clients with the types of the Flux Operator always send one.
//
// +kubebuilder:validation:XValidation:rule="size(self.address) == 0 || (size(self.name) > 0 && self.size > 0)",message="bursting.leadBroker needs the name and the size of the MiniCluster to join"
type FluxBroker struct {
	// address is the host name or IP address at which this MiniCluster can reach the broker.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Address string `json:"address"`

	// name is the name of the broker's MiniCluster.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// size is the number of brokers that the broker's MiniCluster can have, its maxSize.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +required
	Size int32 `json:"size"`

	// port is the port of the broker. Default 8050.
	// +kubebuilder:default=8050
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
}

// LoggingSpec says what is printed besides the output of the command.
type LoggingSpec struct {
	// quiet: true prints the output of the command alone. Default false.
	// +optional
	Quiet bool `json:"quiet,omitempty"`

	// strict: true ends a container at the first line of init, pre, brokerPre, workerPre or
	// servicePre that fails. Default false. The exit code of post is ignored in either case:
	// the exit code of the command is the result.
	// +optional
	Strict bool `json:"strict,omitempty"`

	// debug: true submits the command with -vvv. Default false.
	// +optional
	Debug bool `json:"debug,omitempty"`

	// zeromq: true logs the events of the brokers' sockets. Default false.
	// +optional
	Zeromq bool `json:"zeromq,omitempty"`

	// timed: true prints how long the broker and the submitted command ran. Default false.
	// +optional
	Timed bool `json:"timed,omitempty"`

	// labelIO: true begins each line of the command's output with the task that printed the
	// line, as `flux run --label-io` does ("3: ..."). With batch this holds for the lines in the
	// files of the jobs; with batchRaw, a launcher or an interactive MiniCluster it does nothing.
	// Default false.
	// +optional
	LabelIO bool `json:"labelIO,omitempty"`
}

// MiniClusterArchive is a saved state of Flux from which the instance starts.
type MiniClusterArchive struct {
	// path is a file on a volume that `flux dump` wrote. Flux restores it if it exists.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`
}

// Network are the settings by which brokers find each other.
type Network struct {
	// headlessName is the name of the headless Service, which is a part of the brokers' DNS
	// domain. MiniClusters of a namespace may share a Service. Default: the MiniCluster's name.
	// +kubebuilder:validation:Pattern=`^([a-z]([-a-z0-9]*[a-z0-9])?)?$`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	HeadlessName string `json:"headlessName,omitempty"`

	// disableAffinity: true packs several brokers of the MiniCluster onto a node if they fit.
	// Default false: one broker per node as long as enough nodes have room.
	// +optional
	DisableAffinity bool `json:"disableAffinity,omitempty"`

	// port is the TCP port on which the brokers listen. Default 8050.
	// +kubebuilder:default=8050
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// interface is the network interface of a pod on which the broker listens, or that of the nodes with
	// pod.hostNetwork. Default eth0.
	// +kubebuilder:default=eth0
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	// +kubebuilder:validation:MaxLength=15
	// +optional
	Interface string `json:"interface,omitempty"`

	// clusterDomain is the DNS domain of the Kubernetes cluster. Default
	// cluster.local.
	// +kubebuilder:default=cluster.local
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterDomain string `json:"clusterDomain,omitempty"`
}
