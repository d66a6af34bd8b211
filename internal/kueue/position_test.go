// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	visibility "sigs.k8s.io/kueue/apis/visibility/v1beta2"
)

func TestPositions(t *testing.T) {
	for _, tc := range []struct {
		local, cluster int32 // as Kueue counts
		want           string
	}{
		{0, 0, " (position 1)"},
		{9, 9, " (position 10)"},
		{10, 10, " (among the first 20)"},
		{19, 19, " (among the first 20)"},
		{20, 20, " (among the first 30)"},
		{99, 99, " (among the first 100)"},
		{100, 100, " (among the first 200)"},
		{346, 2345, " (among the first 400; in its ClusterQueue among the first 3000)"},
		{0, 1, " (position 1; in its ClusterQueue position 2)"},
		{11, 12, " (among the first 20)"}, // the same, rounded
	} {
		pending := []visibility.PendingWorkload{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "wl"}, PositionInLocalQueue: tc.local, PositionInClusterQueue: tc.cluster,
		}}
		if got := Positions(pending)[types.NamespacedName{Namespace: "ns", Name: "wl"}].String(); got != tc.want {
			t.Errorf("%d, %d: %q, want %q", tc.local, tc.cluster, got, tc.want)
		}
	}
}

// A queue of a thousand that moves by one place changes few positions.
func TestFewPositionsChange(t *testing.T) {
	changed := 0
	for place := 1; place < 1000; place++ {
		if roundUp(place) != roundUp(place+1) {
			changed++
		}
	}
	if changed != 27 {
		t.Errorf("%d positions change", changed)
	}
}
