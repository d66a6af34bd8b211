// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
