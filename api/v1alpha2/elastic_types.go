// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ElasticSpec are the time limits of a start, the allowed sizes, how the number of tasks follows the
// size, and how the command follows a change of the size while it runs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.expectedRuntime) || duration(self.expectedRuntime) > duration('0s')",message="expectedRuntime must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.quorumTimeout) || duration(self.quorumTimeout) >= duration('1s')",message="quorumTimeout must be at least 1s"
// +kubebuilder:validation:XValidation:rule="!has(self.startTimeout) || duration(self.startTimeout) >= duration('1s')",message="startTimeout must be at least 1s"
// +kubebuilder:validation:XValidation:rule="!has(self.onDeadline) || self.onDeadline != 'Requeue' || has(self.checkpoint)",message="onDeadline: Requeue needs checkpoint: without one the command would begin anew each time"
// +kubebuilder:validation:XValidation:rule="!has(self.quorumTimeout) || !has(self.startTimeout) || duration(self.quorumTimeout) <= duration(self.startTimeout)",message="quorumTimeout must not be longer than startTimeout (default 10m)"
type ElasticSpec struct {
	// waitForSize is how long the MiniCluster waits in the queue for `size`, before it
	// starts at the largest allowed size that fits. Default 0s: the MiniCluster starts at
	// once at a size that fits, or up to two seconds later while nodes are being freed.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	WaitForSize *metav1.Duration `json:"waitForSize,omitempty"`

	// expectedRuntime is how long the command is expected to run with `size` brokers. Unlike
	// deadlineSeconds, it ends nothing: the scheduler uses it to tell which nodes become free
	// first, and whether the MiniCluster ends sooner if it waits for more brokers. Default: how
	// long others of the same user and a similar size took, if these times are known and similar.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	ExpectedRuntime *metav1.Duration `json:"expectedRuntime,omitempty"`

	// quorumTimeout is how long the MiniCluster waits for all placed brokers, from its
	// admission. After that it starts with the brokers that are up, if these are at least
	// minSize. At least 1s. Default 2m.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	QuorumTimeout *metav1.Duration `json:"quorumTimeout,omitempty"`

	// startTimeout is how long the MiniCluster waits for minSize brokers, from its admission.
	// After that the attempt is given up: its pods are removed, and its nodes are freed. The
	// MiniCluster is queued again after a pause. Of a MiniCluster with a deadline, the start may take
	// as long as the deadline, or 10m if that is longer: a longer startTimeout is cut. At least 1s.
	// Default 10m.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`

	// grow lets the scheduler grow a malleable MiniCluster (see size) that runs above size, up to
	// maxSize, on nodes that nobody waits for. The scheduler never changes size. If somebody sets
	// another size while the MiniCluster has nodes, that size is the limit until the next start.
	// With false, the MiniCluster gets no more than size, and brokers above size leave. A change
	// counts at once. Default false.
	// +optional
	Grow bool `json:"grow,omitempty"`

	// sizes are the allowed sizes between minSize and size. Default: any size.
	// +optional
	Sizes *Sizes `json:"sizes,omitempty"`

	// tasks says how the number of tasks follows the size.
	// +optional
	Tasks TaskPolicy `json:"tasks,omitzero"`

	// recreate says how often, and after which pause, a MiniCluster that did not start is
	// tried again.
	// +optional
	Recreate Recreate `json:"recreate,omitzero"`

	// resize says how the command follows when brokers join or leave while it runs. None: the
	// command keeps its brokers until it ends. Flux: the command goes on, because it submits jobs of
	// its own, or users do. Restart: the command writes a checkpoint (see checkpoint), ends, and runs
	// again with the other brokers; the Flux instance stays up. Flux is for launchers and interactive
	// MiniClusters, Restart for launchers and commands that are one job. A change counts from the
	// next admission. Default: Flux for launchers and interactive MiniClusters, else None.
	// +optional
	Resize ResizePolicy `json:"resize,omitempty"`

	// checkpoint says how the command writes checkpoints, and how it goes on from one. Commands that
	// are one job, and launchers, can have checkpoints. A change counts from the next admission.
	// +optional
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`

	// onLoss says what happens when the MiniCluster loses a broker while its command runs.
	// Fail: the command has half a minute to end by itself, and then the MiniCluster fails.
	// Continue: the command goes on with the other brokers, and the lost broker joins again
	// when it has a new pod. Recreate: all pods are removed, and the command runs again as
	// recreate says; with resize: Restart and at least minSize brokers left, these stay, and the
	// command runs again at once. The loss of the lead always ends the MiniCluster, or with Recreate
	// the attempt. Default: Recreate with a checkpoint, Continue for launchers, batches and
	// interactive MiniClusters, else Fail.
	// +optional
	OnLoss LossPolicy `json:"onLoss,omitempty"`

	// onDeadline says what happens at the deadline of the command (deadlineSeconds, or that of the
	// queue). Fail: the MiniCluster fails. Requeue: the command is asked for a checkpoint so long
	// before the deadline as writing it may take (checkpoint.wait, and 15 s), at most half of the
	// deadline. Then the MiniCluster is queued again, and the command goes on in a further attempt,
	// with the whole deadline again. Requeue needs checkpoint, and a deadline above 30 s. Interactive
	// MiniClusters fail. A change counts until the command is asked. Default Fail.
	// +optional
	OnDeadline DeadlinePolicy `json:"onDeadline,omitempty"`

	// requeueLimit is how often onDeadline: Requeue does that before the MiniCluster fails.
	// Default 10.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	RequeueLimit *int32 `json:"requeueLimit,omitempty"`
}

// DeadlinePolicy says what happens at the deadline of a command.
// +kubebuilder:validation:Enum=Fail;Requeue
type DeadlinePolicy string

const (
	// DeadlineFail fails the MiniCluster.
	DeadlineFail DeadlinePolicy = "Fail"
	// DeadlineRequeue ends the attempt after a checkpoint, and queues the MiniCluster again.
	DeadlineRequeue DeadlinePolicy = "Requeue"
)

// ResizePolicy says how the command follows when brokers join or leave while it runs.
// +kubebuilder:validation:Enum=None;Flux;Restart
type ResizePolicy string

const (
	// ResizeNone keeps the brokers of the command until it ends.
	ResizeNone ResizePolicy = "None"
	// ResizeFlux lets the command go on: new jobs of the Flux instance use the brokers that are there.
	ResizeFlux ResizePolicy = "Flux"
	// ResizeRestart ends the command, and runs it again with the other brokers.
	ResizeRestart ResizePolicy = "Restart"
)

// Checkpoint says how the command writes checkpoints, and how it goes on from one. With signal or
// command, the command is asked for a checkpoint before it has to end: when it is run again with
// other brokers, when the scheduler evicts it, and when it is suspended. With neither, the program
// writes checkpoints by itself. Then the command gets SIGTERM, and may still write one.
//
// +kubebuilder:validation:XValidation:rule="!has(self.signal) || !has(self.command)",message="signal and command exclude each other: both ask for a checkpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || has(self.signal) || has(self.command)",message="interval needs signal or command: without them nobody can ask for a checkpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || duration(self.interval) >= duration('1m')",message="interval must be at least 1m"
// +kubebuilder:validation:XValidation:rule="!has(self.wait) || duration(self.wait) >= duration('1s')",message="wait must be at least 1s"
type Checkpoint struct {
	// signal asks for a checkpoint. All tasks of the command get the signal; a launcher needs
	// command instead. The checkpoint is written when the program ends by itself, or when it makes the file that the
	// variable FLUX_MINICLUSTER_CHECKPOINT_WRITTEN names (see path). Otherwise nobody knows, and
	// the program is ended after wait.
	// +kubebuilder:validation:Enum=SIGHUP;SIGINT;SIGTERM;SIGUSR1;SIGUSR2;SIGALRM;SIGURG;SIGXCPU
	// +optional
	Signal string `json:"signal,omitempty"`

	// command asks for a checkpoint: shell that runs on the lead, in the Flux instance. The
	// checkpoint is written when it ends with exit code 0. If it fails, it runs once more.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Command string `json:"command,omitempty"`

	// wait is how long writing a checkpoint may take, from when the command is asked for it. Then
	// the command gets SIGTERM if it still runs, and SIGKILL after 15 s more. Without signal and
	// command it is the time from SIGTERM to SIGKILL. At least 1s. Default 2m.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Wait *metav1.Duration `json:"wait,omitempty"`

	// interval asks for a checkpoint every so often while the command runs, so that a lost node
	// costs at most that. At least 1m. Default: never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// path is the directory with the checkpoints, on a volume that all brokers have. The command
	// finds it in FLUX_MINICLUSTER_CHECKPOINT. FLUX_MINICLUSTER_CHECKPOINT_WRITTEN names a file in
	// it by which the program tells that it has written a checkpoint. Default: none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +optional
	Path string `json:"path,omitempty"`

	// restartCommand is run in place of the command once there may be a checkpoint: the command was
	// begun before, in this attempt or an earlier one, and path, if it is set, is not empty.
	// Default: the command, which finds out by itself (FLUX_MINICLUSTER_RESTART).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	RestartCommand string `json:"restartCommand,omitempty"`
}

// LossPolicy says what happens when a MiniCluster loses a broker while its command runs.
// +kubebuilder:validation:Enum=Fail;Continue;Recreate
type LossPolicy string

const (
	// LossFail fails the MiniCluster.
	LossFail LossPolicy = "Fail"
	// LossContinue lets the command go on with the other brokers.
	LossContinue LossPolicy = "Continue"
	// LossRecreate ends the attempt and begins another one.
	LossRecreate LossPolicy = "Recreate"
)

// Sizes are the allowed sizes: minSize, minSize op operand, (minSize op operand) op operand,
// ... up to size. A count range of Flux's jobspec (RFC 14) is defined in the same way. The
// size itself is always allowed.
//
// +kubebuilder:validation:XValidation:rule="self.operator == '+' || self.operand >= 2",message="operand must be at least 2 for the operators * and ^"
type Sizes struct {
	// operator is the operation that gives the next allowed size: "+", "*" or "^". Default "+".
	// +kubebuilder:default="+"
	// +kubebuilder:validation:Enum="+";"*";"^"
	// +optional
	Operator string `json:"operator,omitempty"`

	// operand is the right operand of the operator. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Operand int32 `json:"operand,omitempty"`
}

// TaskScaling says whether the number of tasks follows the size.
// +kubebuilder:validation:Enum=PerNode;Fixed
type TaskScaling string

const (
	// TasksPerNode keeps the number of tasks per broker.
	TasksPerNode TaskScaling = "PerNode"
	// TasksFixed keeps the number of tasks.
	TasksFixed TaskScaling = "Fixed"
)

// TaskConstraint says which numbers of tasks the application can run with.
// +kubebuilder:validation:Enum=Any;PowerOfTwo;Cube;MultipleOf
type TaskConstraint string

const (
	// TasksAny allows every number.
	TasksAny TaskConstraint = "Any"
	// TasksPowerOfTwo allows 1, 2, 4, 8, ...
	TasksPowerOfTwo TaskConstraint = "PowerOfTwo"
	// TasksCube allows 1, 8, 27, 64, ...
	TasksCube TaskConstraint = "Cube"
	// TasksMultipleOf allows the multiples of multipleOf.
	TasksMultipleOf TaskConstraint = "MultipleOf"
)

// TaskPolicy says how the number of tasks follows the size. At the size for which `tasks` was set the
// number of tasks is always `tasks`.
//
// +kubebuilder:validation:XValidation:rule="(has(self.constraint) && self.constraint == 'MultipleOf') == has(self.multipleOf)",message="multipleOf belongs to constraint: MultipleOf"
type TaskPolicy struct {
	// scaling is PerNode (tasks in proportion to the brokers) or Fixed (always `tasks`). With
	// Fixed, a size with fewer cores than tasks is not allowed, unless `size` has fewer too.
	// Default PerNode.
	// +kubebuilder:default=PerNode
	// +optional
	Scaling TaskScaling `json:"scaling,omitempty"`

	// constraint says which numbers of tasks the application can run with: Any, PowerOfTwo,
	// Cube or MultipleOf. A scaled number is lowered to the next such number. A size for
	// which there is no such number is not allowed. Default Any.
	// +kubebuilder:default=Any
	// +optional
	Constraint TaskConstraint `json:"constraint,omitempty"`

	// multipleOf is the number for constraint: MultipleOf.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MultipleOf *int32 `json:"multipleOf,omitempty"`
}

// SizePolicy says at which sizes a MiniCluster is tried again.
// +kubebuilder:validation:Enum=Same;Shrink
type SizePolicy string

const (
	// SizeSame allows the same sizes as before.
	SizeSame SizePolicy = "Same"
	// SizeShrink allows only smaller sizes, down to minSize.
	SizeShrink SizePolicy = "Shrink"
)

// Recreate says how often, and after which pause, a MiniCluster that did not start is tried
// again. The pause before attempt n+1 is backoffBase * 2^(n-1), at most backoffMax. Up to a
// tenth is added at random, so that MiniClusters do not all return at the same moment. Nodes
// on which single brokers did not start are avoided for ten minutes, as long as other nodes
// have room.
//
// +kubebuilder:validation:XValidation:rule="!has(self.backoffBase) || duration(self.backoffBase) >= duration('1s')",message="backoffBase must be at least 1s"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffMax) || duration(self.backoffMax) >= duration('1s')",message="backoffMax must be at least 1s"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffBase) || !has(self.backoffMax) || duration(self.backoffBase) <= duration(self.backoffMax)",message="backoffBase must not be longer than backoffMax (default 30m)"
type Recreate struct {
	// limit is how often a MiniCluster that did not start is tried again before it fails.
	// Default 5.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Limit *int32 `json:"limit,omitempty"`

	// backoffBase is the pause after the first attempt, at least 1s. Default 30s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	BackoffBase *metav1.Duration `json:"backoffBase,omitempty"`

	// backoffMax is the longest pause, at least 1s. Default 30m.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	BackoffMax *metav1.Duration `json:"backoffMax,omitempty"`

	// sizePolicy is Same or Shrink. With Same, the next attempt may have any allowed size.
	// With Shrink, the next attempt has a smaller size than the one that did not start, if
	// there is a smaller one. Default Same.
	// +kubebuilder:default=Same
	// +optional
	SizePolicy SizePolicy `json:"sizePolicy,omitempty"`
}
