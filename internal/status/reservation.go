// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// ReservationReport is what the last cycle found out about a reservation.
type ReservationReport struct {
	// Generation is that of the spec for which the report is.
	Generation int64
	Phase      v1alpha2.ReservationPhase
	// Nodes are the reserved nodes that exist, by name, and Wanted is how many the spec asks for.
	Nodes  []string
	Wanted int
	// Problem says what is wrong with the selector; "" if nothing is.
	Problem string
	// Staying are the MiniClusters of others that may be there when it begins, by namespace and name.
	Staying []v1alpha2.StayingMiniCluster
}

// Reservation returns the status of a reservation. The nodes of one that is over stay in the status.
func Reservation(r *v1alpha2.MiniClusterReservation, report ReservationReport, now time.Time) v1alpha2.MiniClusterReservationStatus {
	s := *r.Status.DeepCopy()
	s.Phase, s.ObservedGeneration = report.Phase, report.Generation
	s.Staying, s.StayingMiniClusters = 0, nil
	if report.Phase == v1alpha2.ReservationOver {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha2.ConditionClear)
		return s
	}
	s.Nodes, s.Size = hostlist.Encode(report.Nodes), int32(len(report.Nodes))
	s.Staying = int32(len(report.Staying))
	s.StayingMiniClusters = slices.Clone(report.Staying[:min(len(report.Staying), v1alpha2.MostStaying)])
	set := func(kind, reason, message string, is bool) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: report.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	switch found := len(report.Nodes); {
	case report.Problem != "":
		set(v1alpha2.ConditionNodesFound, v1alpha2.ReasonBadSelector, report.Problem, false)
	case found < report.Wanted:
		set(v1alpha2.ConditionNodesFound, v1alpha2.ReasonTooFewNodes, fmt.Sprintf("%d of %d nodes are found", found, report.Wanted), false)
	default:
		set(v1alpha2.ConditionNodesFound, v1alpha2.ReasonNodesFound, fmt.Sprintf("%s reserved", number(found, "node is", "nodes are")), true)
	}
	if len(report.Staying) == 0 {
		set(v1alpha2.ConditionClear, v1alpha2.ReasonClear, "No MiniCluster of others can be on the nodes", true)
	} else {
		set(v1alpha2.ConditionClear, v1alpha2.ReasonStaying, staying(report), false)
	}
	return s
}

// staying says which MiniClusters may be on the nodes.
func staying(report ReservationReport) string {
	first := report.Staying[0]
	until := "it has no time limit"
	if first.Until != nil {
		until = "it ends by " + first.Until.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("%s on the nodes when the reservation begins", number(len(report.Staying), "MiniCluster may still be", "MiniClusters may still be"))
	if report.Phase == v1alpha2.ReservationActive {
		text = fmt.Sprintf("%s on the nodes", number(len(report.Staying), "MiniCluster is still", "MiniClusters are still"))
	}
	return fmt.Sprintf("%s. The first is %s/%s: %s", text, first.Namespace, first.Name, until)
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
