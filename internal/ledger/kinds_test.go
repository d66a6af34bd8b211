// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Of four nodes of 8 CPUs a taint keeps plain pods off the last, and the first are of different kinds. Other nodes are down, or
// too small.
func TestKinds(t *testing.T) {
	c := fourNodes(t)
	c.SetNode(fixture.Node("n3").Label("kind", "1").Taint("gpu", corev1.TaintEffectNoSchedule).Obj())
	c.SetNode(fixture.Node("down").Label("kind", "1").Cordoned().Obj())
	c.SetNode(fixture.Node("small").Has("cpu", "1").Obj())
	c.SetPod(fixture.Pod("foreign").CPU("3").On("n2").Obj())
	of := func(name, kind string) *fixture.MiniClusterWrapper {
		w := fixture.MiniCluster(name)
		if kind != "" {
			w.Spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.NodeSelector = map[string]string{"kind": kind} })
		}
		return w
	}
	r := roomOf(t, c, of("plain", ""), of("zero", "0"), of("one", "1"))
	for _, tc := range []struct {
		id, other string
		free, all int64
	}{
		{"uid-plain", "", 5000, 24000},
		{"uid-zero", "", 5000, 16000},
		{"uid-one", "", 0, 8000},
		{"uid-plain", "uid-zero", 0, 8000},
		{"uid-zero", "uid-plain", 0, 0},
		{"", "", 6000, 25000},
		{"", "uid-plain", 1000, 1000},
		{"unknown", "", 0, 0},
	} {
		if free, all := r.Amount("cpu", tc.id, tc.other); free != tc.free || all != tc.all {
			t.Errorf("%s without %s: %d of %d, want %d of %d", tc.id, tc.other, free, all, tc.free, tc.all)
		}
	}
	if free, all := r.Amount("gpu", "uid-plain", ""); free != 0 || all != 0 {
		t.Errorf("%d of %d gpu", free, all)
	}
	for id, want := range map[string][]int{"uid-plain": nil, "uid-zero": {1}, "uid-one": {0}, "unknown": {0, 1}} {
		if got := r.Elsewhere(id, "uid-lmp"); !slices.Equal(got, want) {
			t.Errorf("%s: elsewhere are %v, want %v", id, got, want)
		}
	}
	for _, tc := range []struct {
		id, other string
		want      bool
	}{{"uid-plain", "uid-zero", true}, {"uid-zero", "uid-one", false}, {"", "uid-one", true}, {"uid-plain", "unknown", false}} {
		if got := r.Meet(tc.id, tc.other); got != tc.want {
			t.Errorf("%s and %s meet: %t", tc.id, tc.other, got)
		}
	}
}

// Nothing is free of a node that a pod has alone.
func TestKindsOfWholeNodes(t *testing.T) {
	c := New(nil, nil)
	for _, n := range fixture.Nodes("a", "b") {
		c.SetNode(n)
	}
	c.Confirm("uid-lmp", &state.Promise{Nodes: []string{"a"}, Requests: fluxion.Resources{"cpu": 1000, "pods": 1, fluxion.WholeNode: 1}})
	r := roomOf(t, c, fixture.MiniCluster("next"))
	if free, all := r.Amount("cpu", "uid-next", ""); free != 8000 || all != 16000 {
		t.Errorf("%d of %d are free", free, all)
	}
}
