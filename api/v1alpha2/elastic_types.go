// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ElasticSpec says how long a MiniCluster waits for what, which sizes it may
// start at and how its tasks follow its size.
//
// +kubebuilder:validation:XValidation:rule="!has(self.quorumTimeout) || duration(self.quorumTimeout) > duration('0s')",message="quorumTimeout must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.startTimeout) || duration(self.startTimeout) > duration('0s')",message="startTimeout must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.quorumTimeout) || !has(self.startTimeout) || duration(self.quorumTimeout) <= duration(self.startTimeout)",message="quorumTimeout must not be longer than startTimeout (default 10m)"
type ElasticSpec struct {
	// waitForSize is how long the MiniCluster holds out in the queue for `size`
	// before it takes the largest allowed size that fits. Default 0s: it takes
	// at once what fits, or up to two seconds later where nodes are being freed.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	WaitForSize *metav1.Duration `json:"waitForSize,omitempty"`

	// quorumTimeout is how long, from its admission, the MiniCluster waits for all
	// the brokers that were placed before it starts with those that are up, if they
	// are at least minSize. Default 2m.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	QuorumTimeout *metav1.Duration `json:"quorumTimeout,omitempty"`

	// startTimeout is how long, from its admission, the MiniCluster waits for
	// minSize brokers before the attempt is given up: its pods are removed, its
	// nodes freed, and it is queued again after a pause. Default 10m.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`

	// sizes are the sizes allowed between minSize and size. Default: any.
	// +optional
	Sizes *Sizes `json:"sizes,omitempty"`

	// tasks says how the number of tasks follows the size.
	// +optional
	Tasks TaskPolicy `json:"tasks,omitzero"`

	// recreate says how often and after which pause a MiniCluster that did not
	// start is tried again.
	// +optional
	Recreate Recreate `json:"recreate,omitzero"`

	// onLoss says what becomes of a MiniCluster that loses a broker while its command
	// runs: Fail (it has half a minute to end by itself, and then fails), Continue (it
	// goes on with those that are left, and the lost one joins again once its pod is made
	// anew) or Recreate (all pods go, and the command is run again as recreate says). The
	// lead's loss is always the end, or with Recreate a new attempt. Default: Continue for
	// launchers, batches and interactive MiniClusters, else Fail.
	// +optional
	OnLoss LossPolicy `json:"onLoss,omitempty"`
}

// LossPolicy says what becomes of a MiniCluster that loses a broker while it runs.
// +kubebuilder:validation:Enum=Fail;Continue;Recreate
type LossPolicy string

const (
	// LossFail ends the MiniCluster: it has failed.
	LossFail LossPolicy = "Fail"
	// LossContinue leaves it to the command, which goes on with the others.
	LossContinue LossPolicy = "Continue"
	// LossRecreate ends the attempt, and begins another.
	LossRecreate LossPolicy = "Recreate"
)

// Sizes are the sizes minSize, minSize op operand, (minSize op operand) op
// operand, ... up to size, as a count range of Flux's jobspec (RFC 14) has them;
// size itself is always allowed.
//
// +kubebuilder:validation:XValidation:rule="self.operator == '+' || self.operand >= 2",message="operand must be at least 2 for the operators * and ^"
type Sizes struct {
	// operator takes one allowed size to the next: "+", "*" or "^". Default "+".
	// +kubebuilder:default="+"
	// +kubebuilder:validation:Enum="+";"*";"^"
	// +optional
	Operator string `json:"operator,omitempty"`

	// operand is the operator's right side. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Operand int32 `json:"operand,omitempty"`
}

// TaskScaling says whether tasks follow the size.
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

// TaskPolicy says how the number of tasks follows the size. At `size` brokers it
// is always `tasks`.
//
// +kubebuilder:validation:XValidation:rule="(has(self.constraint) && self.constraint == 'MultipleOf') == has(self.multipleOf)",message="multipleOf belongs to constraint: MultipleOf"
type TaskPolicy struct {
	// scaling is PerNode (tasks in proportion to the brokers) or Fixed (always
	// `tasks`; a size whose cores are fewer is not allowed, unless those of `size`
	// are too). Default PerNode.
	// +kubebuilder:default=PerNode
	// +optional
	Scaling TaskScaling `json:"scaling,omitempty"`

	// constraint is the kind of numbers that the application can run with: Any,
	// PowerOfTwo, Cube or MultipleOf. A scaled number is lowered to the next
	// such number; a size that leaves none is not allowed. Default Any.
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
	// SizeShrink allows only smaller ones, down to minSize.
	SizeShrink SizePolicy = "Shrink"
)

// Recreate says how often and after which pause a MiniCluster that did not start
// is tried again. Nodes on which single brokers did not start are avoided for ten
// minutes, as long as others would do. The pause before attempt n+1 is backoffBase *
// 2^(n-1), at most backoffMax, lengthened by up to a tenth so that neighbours do not
// all return at the same moment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.backoffBase) || duration(self.backoffBase) > duration('0s')",message="backoffBase must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffMax) || duration(self.backoffMax) > duration('0s')",message="backoffMax must be longer than 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffBase) || !has(self.backoffMax) || duration(self.backoffBase) <= duration(self.backoffMax)",message="backoffBase must not be longer than backoffMax (default 30m)"
type Recreate struct {
	// limit is how often a MiniCluster that did not start is tried again; then it
	// fails. Default 5.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Limit *int32 `json:"limit,omitempty"`

	// backoffBase is the pause after the first attempt. Default 30s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	BackoffBase *metav1.Duration `json:"backoffBase,omitempty"`

	// backoffMax is the longest pause. Default 30m.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	BackoffMax *metav1.Duration `json:"backoffMax,omitempty"`

	// sizePolicy is Same (it is tried again at any allowed size) or Shrink (only at sizes
	// smaller than the one at which it did not start, if there are any). Default Same.
	// +kubebuilder:default=Same
	// +optional
	SizePolicy SizePolicy `json:"sizePolicy,omitempty"`
}
