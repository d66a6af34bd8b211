// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Labels. Those without a prefix are the Flux Operator's, kept for those who
// select by them; `job-name` is the one that cannot be kept, because the Job
// controller sets it to the name of the Job.
const (
	// MiniClusterLabel is on every object that is made for a MiniCluster, its pods
	// included: the MiniCluster's name.
	MiniClusterLabel = Group + "/minicluster"

	// UIDLabel is on every pod: the MiniCluster's UID, which tells its pods from
	// those of one of the same name that was deleted.
	UIDLabel = Group + "/minicluster-uid"

	// RankLabel is on every placed pod: its rank in the Flux instance, "0" for the
	// lead. It is set as the pod is placed; where the manager binds pods itself,
	// Kubernetes 1.35 or later copies it.
	RankLabel = "job-index"

	// AppLabel is on every pod, with the value AppName.
	AppLabel = "app"
	// AppName is the value of AppLabel.
	AppName = "flux-operator"
	// AppInstanceLabel is on every pod: the MiniCluster's name.
	AppInstanceLabel = "app.kubernetes.io/name"
	// NamespaceLabel is on every pod: its namespace.
	NamespaceLabel = "namespace"
	// SelectorLabel is on the pod of every broker, the MiniCluster's name, and is what
	// status.selector selects by.
	SelectorLabel = "hpa-selector"
)

// QueueLabel is on a namespace: the queue of its MiniClusters that name none.
const QueueLabel = Group + "/queue"

// Annotations that controller and pods talk through. A pod sees its own in a
// downward API volume.
const (
	// AttemptAnnotation is on the objects made for an admission: its attempt.
	AttemptAnnotation = Group + "/attempt"

	// GenerationAnnotation is on the JobSet: the generation of the spec that it was
	// made for.
	GenerationAnnotation = Group + "/generation"

	// QuorumAnnotation is on the lead's pod: the number of brokers, itself
	// included, that have to be online before the command is run.
	QuorumAnnotation = Group + "/quorum"

	// DrainAnnotation is on the lead's pod: the ranks that are asked to leave, as an
	// idset.
	DrainAnnotation = Group + "/drain"

	// StopAnnotation is on the lead's pod once the command is to end: a word that says
	// why. The lead then ends as if it had been asked to by a signal, and its pod stays,
	// with its log.
	StopAnnotation = Group + "/stop"
)

// PlacementGate is the scheduling gate of every pod until it is placed, unless the
// manager binds it itself. A gated pod holds nothing.
const PlacementGate = Group + "/placement"

// SchedulerName is the schedulerName of pods that the manager binds itself. One that
// is not bound waits to be placed, and holds nothing.
const SchedulerName = "flux-elastic"

// Names of the replicated jobs of a MiniCluster's JobSet. The lead's is "0" so
// that its host name begins with `<name>-0`, as the Flux Operator's does.
const (
	LeadJob    = "0"
	WorkersJob = "w"
	// ServicesJob is the one of the pod with the services, which is no broker.
	ServicesJob = "services"
)
