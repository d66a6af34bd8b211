// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// defect is a defect of the product that the world has found. What leads to it is left out, except with Options.Known, so
// that the test finds others.
type defect struct {
	// leftOut is what is left out, and what is what follows from it.
	leftOut, what string
	// seed finds it with -known, in a world of this size.
	seed uint64
	size int
}

// known are all known defects.
var known = []defect{
	{
		leftOut: "a JobSet is deleted by hand with its Jobs",
		what:    "the manager makes another one while pods of the first still end, here on a node that is cut off: a rank has two pods",
		seed:    6016, size: 4,
	},
}

// leavesOut reports whether the removal of objects of a kind is left out.
func (o *Options) leavesOut(kind client.ObjectList, how metav1.DeletionPropagation) bool {
	_, isJobSet := kind.(*jobsetapi.JobSetList)
	return isJobSet && !o.Known && how != metav1.DeletePropagationOrphan
}
