// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// defect is a defect of the product that the world has found. The faults that lead to it are left out, except with
// Options.Known, so that the test finds others.
type defect struct {
	// fault is what is left out, and what is what follows from it.
	fault, what string
	// seed finds it with -known, in a world of the size 16.
	seed uint64
}

// known are all known defects.
var known = []defect{
	{
		fault: "a Job or a JobSet is deleted by hand, and its pods stay (--cascade=orphan)",
		what:  "the fresh Job makes a second lead beside the first, which the API server binds to the same node; the orphaned pods are never deleted",
		seed:  16,
	},
}

// leavesOut reports whether the removal of objects of a kind is left out.
func (o *Options) leavesOut(kind client.ObjectList, how metav1.DeletionPropagation) bool {
	switch kind.(type) {
	case *batchv1.JobList, *jobsetapi.JobSetList:
		return !o.Known && how == metav1.DeletePropagationOrphan
	}
	return false
}

// leavesOutStart reports whether containers that do not start for a reason are left out.
func (o *Options) leavesOutStart(string) bool { return false }

// Known are the faults that are left out, and why.
func Known() []string {
	var out []string
	for _, d := range known {
		out = append(out, d.fault+": "+d.what)
	}
	return slices.Clone(out)
}
