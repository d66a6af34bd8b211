// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	visibility "sigs.k8s.io/kueue/apis/visibility/v1beta2"
)

// Position is the place of a Workload among those that wait in its LocalQueue, and among those that
// wait in its ClusterQueue. The first place is 1, and 0 means that the place is not known. Places
// above 10 are rounded up to one digit and zeros. So a place changes nine times for each power of
// ten, and not with every Workload that leaves the queue.
type Position struct{ LocalQueue, ClusterQueue int }

// Positions returns the positions of the Workloads of a LocalQueue, given what Kueue's visibility API
// says about that LocalQueue.
func Positions(pending []visibility.PendingWorkload) map[types.NamespacedName]Position {
	positions := make(map[types.NamespacedName]Position, len(pending))
	for i := range pending {
		p := &pending[i] // Kueue counts from 0
		positions[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = Position{
			LocalQueue: roundUp(int(p.PositionInLocalQueue) + 1), ClusterQueue: roundUp(int(p.PositionInClusterQueue) + 1),
		}
	}
	return positions
}

func roundUp(place int) int {
	unit := 1
	for place > 10*unit {
		unit *= 10
	}
	return (place + unit - 1) / unit * unit
}

// String says the position for users; "" if the position is not known.
func (p Position) String() string {
	say := func(place int) string {
		if place > 10 {
			return fmt.Sprintf("among the first %d", place)
		}
		return fmt.Sprintf("position %d", place)
	}
	switch p.LocalQueue {
	case 0:
		return ""
	case p.ClusterQueue:
		return " (" + say(p.LocalQueue) + ")"
	}
	return fmt.Sprintf(" (%s; in its ClusterQueue %s)", say(p.LocalQueue), say(p.ClusterQueue))
}

// WaitsForQuota reports whether a Workload waits for quota.
func WaitsForQuota(wl *kueueapi.Workload) bool {
	return wl.DeletionTimestamp == nil && ptr.Deref(wl.Spec.Active, true) && !reserved(wl) && !isTrue(wl, kueueapi.WorkloadFinished)
}
