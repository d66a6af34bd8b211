// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import corev1 "k8s.io/api/core/v1"

// MiniClusterContainer is one container of every pod (or of the services pod).
//
// +kubebuilder:validation:XValidation:rule="!(has(self.batchRaw) && self.batchRaw) || (has(self.batch) && self.batch)",message="batchRaw needs batch: true"
type MiniClusterContainer struct {
	// name is the container's name. The Flux container is always named after the
	// MiniCluster; every other container needs a name.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// image is the container image. Default ghcr.io/rse-ops/accounting:app-latest.
	// +kubebuilder:default="ghcr.io/rse-ops/accounting:app-latest"
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// imagePullSecret names a Secret of the namespace to pull the image with.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// pullAlways: true pulls the image at every start; it wins over
	// imagePullPolicy. Default false.
	// +optional
	PullAlways bool `json:"pullAlways,omitempty"`

	// imagePullPolicy is Always, IfNotPresent or Never. Default IfNotPresent.
	// +kubebuilder:validation:Enum="";Always;IfNotPresent;Never
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// workingDir is the directory in which the command runs. Default: the image's.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// command is the shell command that Flux runs: quotes, $, && and pipes mean what
	// they mean in a shell. Without a command, Flux starts and waits for users. In a
	// container beside Flux, command is what that container runs. It may have 208 KiB. A longer
	// one belongs into a ConfigMap, which the container mounts and the command reads.
	// +kubebuilder:validation:MaxLength=212992
	// +optional
	Command string `json:"command,omitempty"`

	// commands are pieces of shell that run before, around and after the command.
	// +optional
	Commands Commands `json:"commands,omitzero"`

	// runFlux: true marks the container in which Flux and the command run. Exactly one
	// container has this mark. A single container needs no mark.
	// +optional
	RunFlux bool `json:"runFlux,omitempty"`

	// launcher: true runs the command once, on the lead broker, and the command submits
	// its own jobs. Default false: the command is submitted as one job.
	// +optional
	Launcher bool `json:"launcher,omitempty"`

	// batch: true submits every line of the command as a job of its own. The jobs run in
	// one batch job, which has the nodes and tasks of the MiniCluster and waits for all of
	// them. The exit code is the highest one of the jobs. A line has the arguments of
	// `flux submit`, as a shell reads them: the options of the job, then its command. So
	// `a && b` submits a, and runs b at once without a job; `sh -c "a && b"` is one job.
	// Empty lines and lines that begin with # are skipped. Job <i>, counted from 0, writes
	// to job-<i>.out and job-<i>.err in `logs`. Default false.
	// +optional
	Batch bool `json:"batch,omitempty"`

	// batchRaw: true runs the lines of a batch as a script that submits its own jobs. The
	// batch job waits for these jobs. The exit code is the highest one of the jobs and the
	// script. Default false.
	// +optional
	BatchRaw bool `json:"batchRaw,omitempty"`

	// logs is the directory for the output of batch jobs, FLUX_OUTPUT_DIR in the
	// Flux container. Default /tmp/fluxout.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Logs string `json:"logs,omitempty"`

	// noWrapEntrypoint: true runs the image's own entry point in a container beside Flux,
	// rather than `command` with Flux on its path. Default false. A container with neither
	// command nor commands runs the entry point in any case. So does a service without a
	// command.
	// +optional
	NoWrapEntrypoint bool `json:"noWrapEntrypoint,omitempty"`

	// ports are TCP ports of the container. A container beside Flux that has ports gets a
	// Service with the container's name.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +listType=atomic
	// +optional
	Ports []int32 `json:"ports,omitempty"`

	// environment are environment variables.
	// +kubebuilder:validation:MaxProperties=1024
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 32768)",message="a value of environment may have 32768 characters"
	// +optional
	Environment map[string]string `json:"environment,omitempty"`

	// secrets are environment variables that are read from Secrets, by variable.
	// +kubebuilder:validation:MaxProperties=1024
	// +optional
	Secrets map[string]Secret `json:"secrets,omitempty"`

	// volumes are mounted into this container, by name.
	// +kubebuilder:validation:MaxProperties=128
	// +optional
	Volumes map[string]ContainerVolume `json:"volumes,omitempty"`

	// lifeCycle are commands after start and before stop.
	// +optional
	LifeCycle LifeCycle `json:"lifeCycle,omitzero"`

	// resources are the container's requests and limits. They decide which nodes have room.
	// +kubebuilder:validation:XValidation:rule="(!has(self.requests) || size(self.requests) <= 64) && (!has(self.limits) || size(self.limits) <= 64)",message="a container may have 64 resources"
	// +kubebuilder:validation:XValidation:rule="!has(self.claims) || size(self.claims) == 0",message="resource claims (DRA) cannot be used yet"
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// securityContext is the security context of the container.
	// +kubebuilder:validation:XValidation:rule="!has(self.capabilities) || ((!has(self.capabilities.add) || size(self.capabilities.add) <= 64) && (!has(self.capabilities.drop) || size(self.capabilities.drop) <= 64))",message="a container may add 64 capabilities, and drop 64"
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}

// Commands are pieces of shell around the command. In the Flux container they run in this
// order: init, pre, then brokerPre on the lead or workerPre on a follower, the command,
// post. A container beside Flux, and a service that has a command, runs init, servicePre,
// the command and post.
//
// All of these pieces see FLUX_MINICLUSTER_SIZE, FLUX_MINICLUSTER_MIN_SIZE and
// FLUX_MINICLUSTER_ATTEMPT. The command that Flux runs sees FLUX_MINICLUSTER_NODES and
// FLUX_MINICLUSTER_TASKS too, which are not known before the brokers are up.
type Commands struct {
	// init runs first, before Flux is on the path.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Init string `json:"init,omitempty"`

	// pre runs in every pod, before the broker starts.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Pre string `json:"pre,omitempty"`

	// brokerPre runs on the lead, before its broker starts.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	BrokerPre string `json:"brokerPre,omitempty"`

	// workerPre runs on a follower, before its broker starts.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	WorkerPre string `json:"workerPre,omitempty"`

	// prefix is a wrapper: it is put before the command line that submits the command.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// script is a command of several lines, in place of `command`. A backslash before `$`, a
	// backquote, a backslash or the end of a line is removed first, as in the Flux Operator.
	// It may have 208 KiB.
	// +kubebuilder:validation:MaxLength=212992
	// +optional
	Script string `json:"script,omitempty"`

	// post runs in every pod after the broker has ended. In a container beside Flux it runs
	// after the command of that container.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Post string `json:"post,omitempty"`

	// servicePre runs before the command of a container beside Flux, or of a service.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	ServicePre string `json:"servicePre,omitempty"`
}

// Secret is a key of a Secret.
type Secret struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// LifeCycle are commands that run in a container after it has started and before
// it is stopped.
type LifeCycle struct {
	// postStartExec runs after the container has started, in a shell.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	PostStartExec string `json:"postStartExec,omitempty"`

	// preStopExec runs before the container is stopped, in a shell.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	PreStopExec string `json:"preStopExec,omitempty"`
}

// ContainerVolume is a volume, and the path at which it is mounted. Its source is the first
// one that is set of csiDriver, secretName, emptyDir, hostPath, configMapName and claimName.
// A volume without a source is an empty directory.
//
// +kubebuilder:validation:XValidation:rule="!((has(self.claimName) && size(self.claimName) > 0) || (has(self.hostPath) && size(self.hostPath) > 0)) || (has(self.path) && size(self.path) > 0)",message="a volume with claimName or hostPath needs path, the place it is mounted at"
type ContainerVolume struct {
	// path is where the volume is mounted. Default: /dev/shm for an emptyDir, and
	// /<name of the volume> for any other volume.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`

	// readOnly: true mounts the volume read-only. Default false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// hostPath is a directory of the node.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	HostPath string `json:"hostPath,omitempty"`

	// configMapName names a ConfigMap.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`

	// items are the keys of the ConfigMap or Secret to mount, with the paths of their files.
	// Default: all keys.
	// +kubebuilder:validation:MaxProperties=1024
	// +optional
	Items map[string]string `json:"items,omitempty"`

	// claimName names a PersistentVolumeClaim.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClaimName string `json:"claimName,omitempty"`

	// secretName names a Secret.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// emptyDir: true mounts an empty directory that exists as long as the pod.
	// +optional
	EmptyDir bool `json:"emptyDir,omitempty"`

	// emptyDirMedium is "" (the node's disk) or "Memory", in upper or lower
	// case.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	EmptyDirMedium string `json:"emptyDirMedium,omitempty"`

	// emptyDirSizeLimit is how much may be written to the empty directory, e.g. 64Gi.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,30}(\.[0-9]{0,30})?([KMGTPE]i|[mkMGTPE]|[eE][0-9]{1,2})?)?$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	EmptyDirSizeLimit string `json:"emptyDirSizeLimit,omitempty"`

	// csiDriver is the driver of an inline CSI volume.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	CSIDriver string `json:"csiDriver,omitempty"`

	// csiDriverAttributes are the attributes of the CSI volume.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	CSIDriverAttributes map[string]string `json:"csiDriverAttributes,omitempty"`
}
