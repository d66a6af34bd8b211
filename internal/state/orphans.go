// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"

	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// orphaned reports whether nobody deletes a pod of the MiniCluster although its JobSet was deleted: its Job was kept
// (--cascade=orphan).
func (v View) orphaned(pod *protocol.Pod) bool {
	return v.JobSet == nil && v.owns(pod) && pod.DeletionTimestamp == nil
}

// Orphaned are the UIDs of JobSets whose pods are orphaned, sorted.
func (v View) Orphaned() []string {
	var sets []string
	for i := range v.Pods {
		if set := v.Pods[i].Labels[jobsetapi.JobSetUIDKey]; set != "" && v.orphaned(&v.Pods[i]) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// admitted reports whether a pod was placed by the current admission, or made since.
func (v View) admitted(pod *protocol.Pod) bool {
	a := v.MiniCluster.Status.Admission
	return a != nil && (!pod.Broker.Placed.Before(a.Time.Time) || !pod.CreationTimestamp.Time.Before(a.Time.Time))
}

// leadHasEnded reports whether the lead's pod has ended.
func leadHasEnded(v View) bool {
	lead := v.Brokers()[0]
	return lead != nil && lead.Ended
}
