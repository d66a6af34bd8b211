// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Labels. Labels without a prefix are those of the Flux Operator, for users who select by
// them. Its label `job-name` cannot be kept: the Job controller sets that label to the name
// of the Job. JobNameLabel stands for it.
const (
	// MiniClusterLabel is on every object that is made for a MiniCluster, including its pods.
	// The value is the MiniCluster's name.
	MiniClusterLabel = Group + "/minicluster"

	// UIDLabel is on every pod. The value is the MiniCluster's UID, which distinguishes its
	// pods from the pods of a deleted MiniCluster with the same name.
	UIDLabel = Group + "/minicluster-uid"

	// JobNameLabel is on every pod. The value is the MiniCluster's name. Selectors of the Flux
	// Operator's label `job-name` work with this label instead.
	JobNameLabel = Group + "/job-name"

	// RankLabel is on every placed pod, and on the services pod with the value "services". The
	// value is the pod's rank in the Flux instance, "0" for the lead. The label is set when the
	// pod is placed.
	RankLabel = "job-index"

	// ExclusiveLabel is on every pod of a broker that has its node alone. The value is "true".
	ExclusiveLabel = Group + "/exclusive"

	// AppLabel is on every pod, with the value AppName unless spec.pod.labels says otherwise.
	AppLabel = "app"
	// AppName is the value of AppLabel.
	AppName = "flux-operator"
	// AppInstanceLabel is on every pod. The value is the MiniCluster's name unless spec.pod.labels says otherwise.
	AppInstanceLabel = "app.kubernetes.io/name"
	// NamespaceLabel is on every pod. The value is the pod's namespace unless spec.pod.labels says otherwise.
	NamespaceLabel = "namespace"
	// SelectorLabel is on every placed pod. The value is the MiniCluster's name. The label is
	// set with RankLabel. status.selector selects by this label, so that an HPA does not count
	// pods that are not placed as idle.
	SelectorLabel = "hpa-selector"
)

// SidecarLabelPrefix begins the labels of a broker's pod that name its containers with a Service:
// those beside Flux that have ports. The rest of the label is the name of the container, and the value
// is "true". The Service selects by this label the pods of all MiniClusters that have the container.
const SidecarLabelPrefix = "sidecar." + Group + "/"

// QueueLabel is on a namespace. The value is the queue of the namespace's MiniClusters that
// name no queue.
const QueueLabel = Group + "/queue"

// ManagedBy is the value of managedBy for the MiniClusters of this project, and its default.
const ManagedBy = Group + "/minicluster"

// KueuePrefix is before the names of Kueue's labels and annotations.
const KueuePrefix = "kueue.x-k8s.io/"

// KueueQueueLabel is on a MiniCluster that gets its quota from Kueue. The value is a LocalQueue of
// its namespace.
const KueueQueueLabel = KueuePrefix + "queue-name"

// KueuePodSetPrefix is before the names of Kueue's annotations by which pods ask for a topology. Only
// pods that Kueue counts by a topology assignment have one of them (KueueTopologyAnnotation): Kueue
// counts all other pods by themselves.
const KueuePodSetPrefix = KueuePrefix + "podset-"

// KueueTopologyAnnotation is on the pods of a MiniCluster that Kueue counts by a topology assignment.
const KueueTopologyAnnotation = KueuePodSetPrefix + "unconstrained-topology"

// KueuePriorityLabel is on a MiniCluster whose Workload has a priority of its own. The value is a
// WorkloadPriorityClass of Kueue.
const KueuePriorityLabel = KueuePrefix + "priority-class"

// KueueQueue is the queue in which MiniClusters with quota from Kueue wait for nodes. A
// MiniClusterQueue of this name configures it.
const KueueQueue = "kueue"

// PlacementCheck is the controllerName of the AdmissionChecks of Kueue that hold a Workload until
// its MiniCluster has nodes.
const PlacementCheck = Group + "/placement"

// ScaleUpLabel is on a ProvisioningRequest or a CapacityBuffer of a MiniCluster. The value says to which
// attempt to get nodes it belongs.
const ScaleUpLabel = Group + "/scale-up"

// ScaleUpAnnotation is on the PodTemplate of a ProvisioningRequest or a CapacityBuffer. The value is the
// record of the attempt to get nodes, as JSON: when the autoscaler was asked, for how many brokers, and
// until when it is not asked again.
const ScaleUpAnnotation = Group + "/scale-up"

// Annotations of the objects that are made for a MiniCluster. By some of them the controller
// sends messages to the lead's pod, which reads them from a downward API volume.
const (
	// AttemptAnnotation is on the objects that are made for an admission. The value is the
	// number of the attempt.
	AttemptAnnotation = Group + "/attempt"

	// GenerationAnnotation is on the JobSet. The value is the generation of the spec from
	// which the JobSet was made.
	GenerationAnnotation = Group + "/generation"

	// InputAnnotation is on the JobSet. The value is the spec from which the JobSet was made, as JSON that is packed
	// by gzip, in base64.
	InputAnnotation = Group + "/input"

	// AdmittedAnnotation is on a JobSet whose pods the API server binds when they are created. The
	// value is the time of the admission whose nodes the pods get.
	AdmittedAnnotation = Group + "/admitted"

	// NodesAnnotation is on the pod templates of such a JobSet. The value is the nodes by completion
	// index: `PREFIX/SUFFIX/MIDDLE,MIDDLE,...`, where the middle * means no node. The policy that
	// binds the pods (config/admission) removes the annotation from them.
	NodesAnnotation = Group + "/nodes"

	// QuorumAnnotation is on the lead's pod. The value is the number of brokers, including
	// the lead, that have to be online before the command runs.
	QuorumAnnotation = Group + "/quorum"

	// DrainAnnotation is on the lead's pod. The value is the ranks that are asked to leave,
	// as an idset.
	DrainAnnotation = Group + "/drain"

	// RestartAnnotation is on the lead's pod once the command was run again with other brokers. The
	// value is the number of these restarts in the attempt, and the ranks of the command as an
	// idset: "2 0-3".
	RestartAnnotation = Group + "/restart"

	// StopAnnotation is on the lead's pod when the command is asked to end. The value is a
	// word that says why, and how many seconds the command has for that, with its checkpoint:
	// "Preempted 30". The lead then ends as after a signal, and its pod stays with its log.
	StopAnnotation = Group + "/stop"
)

// PlacementGate is the scheduling gate of a pod that is not placed yet. A gated pod holds no resources.
const PlacementGate = Group + "/placement"

// SchedulerName is the schedulerName of the pods of a MiniCluster that an older manager made with --binder=direct. Such a pod
// waits, in place of the gate, until the manager binds the pod, and holds no resources while it waits.
const SchedulerName = "flux-elastic"

// FieldOwner is the field manager of all that the manager writes: the API server takes the name from the user agent.
const FieldOwner = "flux-elastic"

// Names of the replicated jobs of a MiniCluster's JobSet. The name of the lead's job is "0",
// so that the lead's host name begins with `<name>-0`, as in the Flux Operator.
const (
	// LeadJob is the replicated job with the pod of the lead.
	LeadJob = "0"
	// WorkersJob is the replicated job with the pods of the followers.
	WorkersJob = "w"
	// ServicesJob is the replicated job with the pod of the services, which is no broker.
	ServicesJob = "services"
)

// Jobs are the names of all replicated jobs that a JobSet may have.
var Jobs = []string{LeadJob, WorkersJob, ServicesJob}
