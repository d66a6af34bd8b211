// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func TestReservationStatus(t *testing.T) {
	stays := func(n int, until *metav1.Time) (out []v1alpha2.StayingMiniCluster) {
		for i := range n {
			out = append(out, v1alpha2.StayingMiniCluster{Namespace: "team", Name: fmt.Sprint("mc-", i), Until: until})
		}
		return out
	}
	for name, tc := range map[string]struct {
		report       ReservationReport
		nodes        string
		found, clear string // reason and message
	}{
		"all is well": {
			ReservationReport{Phase: v1alpha2.ReservationPending, Nodes: []string{"n1", "n2"}, Wanted: 2}, "n[1-2]",
			"NodesFound: 2 nodes are reserved", "Clear: No MiniCluster of others can be on the nodes",
		},
		"too few": {
			ReservationReport{Phase: v1alpha2.ReservationActive, Nodes: []string{"n1"}, Wanted: 2}, "n1",
			"TooFewNodes: 1 of 2 nodes are found", "Clear: No MiniCluster of others can be on the nodes",
		},
		"a wrong selector": {
			ReservationReport{Phase: v1alpha2.ReservationActive, Problem: "nodeSelector is wrong"}, "",
			"BadSelector: nodeSelector is wrong", "Clear: No MiniCluster of others can be on the nodes",
		},
		"one stays": {
			ReservationReport{Phase: v1alpha2.ReservationPending, Nodes: []string{"n1"}, Wanted: 1, Staying: stays(1, nil)}, "n1", "NodesFound: 1 node is reserved",
			"MiniClustersStay: 1 MiniCluster may still be on the nodes when the reservation begins. The first is team/mc-0: it has no time limit",
		},
		"many are there": {
			ReservationReport{Phase: v1alpha2.ReservationActive, Nodes: []string{"n1"}, Wanted: 1, Staying: stays(60, &metav1.Time{Time: fixture.Noon})}, "n1", "NodesFound: 1 node is reserved",
			"MiniClustersStay: 60 MiniClusters are still on the nodes. The first is team/mc-0: it ends by 2026-11-21T12:00:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := fixture.Reservation("r", fixture.Noon, fixture.Noon.Add(time.Hour)).Obj()
			r.Generation, tc.report.Generation = 3, 2 // it was edited after the cycle
			r.Status = Reservation(r, tc.report, fixture.Noon)
			if seen := r.Status.ObservedGeneration; seen != 2 {
				t.Errorf("the report is for generation %d", seen)
			}
			said := func(kind string) string {
				c := meta.FindStatusCondition(r.Status.Conditions, kind)
				return c.Reason + ": " + c.Message
			}
			if r.Status.Nodes != tc.nodes || int(r.Status.Size) != len(tc.report.Nodes) || said(v1alpha2.ConditionNodesFound) != tc.found || said(v1alpha2.ConditionClear) != tc.clear {
				t.Errorf("it says %+v", r.Status)
			}
			if int(r.Status.Staying) != len(tc.report.Staying) || len(r.Status.StayingMiniClusters) != min(len(tc.report.Staying), v1alpha2.MostStaying) {
				t.Errorf("%d stay, %d are listed", r.Status.Staying, len(r.Status.StayingMiniClusters))
			}
			over := Reservation(r, ReservationReport{Phase: v1alpha2.ReservationOver}, fixture.Noon)
			if over.Phase != v1alpha2.ReservationOver || over.Nodes != tc.nodes || over.Staying != 0 || over.StayingMiniClusters != nil || len(over.Conditions) != 1 {
				t.Errorf("once it is over it says %+v", over)
			}
		})
	}
}
