// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func TestIsLive(t *testing.T) {
	nodes := func(n int32) func(*v1alpha2.MiniClusterStatus) {
		return func(s *v1alpha2.MiniClusterStatus) { s.Nodes = n }
	}
	finished := func(is metav1.ConditionStatus, n int32) *v1alpha2.MiniCluster {
		return fixture.MiniCluster("x").Condition(v1alpha2.ConditionFinished, is, "Any").Status(nodes(n)).Obj()
	}
	for name, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		want bool
	}{
		"new":                      {fixture.MiniCluster("x").Obj(), true},
		"unfinished":               {finished(metav1.ConditionFalse, 0), true},
		"finished, and holds some": {finished(metav1.ConditionTrue, 2), true},
		"finished":                 {finished(metav1.ConditionTrue, 0), false},
	} {
		if got := slices.Contains(isLive(tc.mc), "true"); got != tc.want {
			t.Errorf("%s: live is %v", name, got)
		}
	}
}

// indexes are functions by the kind that they index.
type indexes map[string]client.IndexerFunc

func (i indexes) IndexField(_ context.Context, object client.Object, _ string, of client.IndexerFunc) error {
	i[fmt.Sprintf("%T", object)] = of
	return nil
}

// Slices are found by their labels, and pods only if a Job of the MiniCluster is their controller, too.
func TestPodsOf(t *testing.T) {
	all := indexes{}
	if err := Setup(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha2.MiniClusterLabel: "lmp"}}}
	for name, tc := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a pod":              {fixture.BrokerPod("lmp", 1).Obj(), []string{"lmp"}},
		"a forged pod":       {fixture.BrokerPod("lmp", 1).Controller("", "", "").Obj(), nil},
		"a slice":            {slice, []string{"lmp"}},
		"a slice of no name": {&discoveryv1.EndpointSlice{}, nil},
	} {
		if got := all[fmt.Sprintf("%T", tc.object)](tc.object); !slices.Equal(got, tc.want) {
			t.Errorf("%s is of %v, want %v", name, got, tc.want)
		}
	}
}
