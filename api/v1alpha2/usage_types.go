// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Usage is for how long a MiniCluster had nodes. One broker that has its node for one second uses one
// node-second. Whole seconds count, from the admission of an attempt to its end.
type Usage struct {
	// usefulNodeSeconds are those of the attempt that succeeded, while the command ran.
	// +required
	UsefulNodeSeconds int64 `json:"usefulNodeSeconds"`

	// lostNodeSeconds are all others: those of attempts that ended without success, and those
	// before the command of the successful attempt began.
	// +required
	LostNodeSeconds int64 `json:"lostNodeSeconds"`
}

// AttemptUsage is what an attempt has used so far, in node-seconds.
type AttemptUsage struct {
	// nodeSeconds are those until `until`.
	// +required
	NodeSeconds int64 `json:"nodeSeconds"`

	// startingNodeSeconds is the part of nodeSeconds before the command began to run.
	// +required
	StartingNodeSeconds int64 `json:"startingNodeSeconds"`

	// until is the time of the last decision about the attempt. What it has used since then is not
	// part of nodeSeconds yet.
	// +required
	Until metav1.Time `json:"until"`
}

// Accounting adds up the usage of MiniClusters, also of those that were deleted since.
type Accounting struct {
	// These are the node-seconds of all users.
	Usage `json:",inline"`

	// until is when the last attempt ended that counts.
	// +required
	Until metav1.Time `json:"until"`

	// users are the 200 users who used most, the most first.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Users []UserUsage `json:"users,omitempty"`
}

// UserUsage is the usage of one user.
type UserUsage struct {
	// name is the value of the label of spec.users, or a namespace.
	// +required
	Name string `json:"name"`

	// These are the node-seconds of the user.
	Usage `json:",inline"`
}
