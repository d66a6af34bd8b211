// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
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
		{queue.AnyGang, "", 6000, 25000},
		{queue.AnyGang, "uid-plain", 1000, 1000},
		{"uid-plain", queue.AnyGang, 0, 0},
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
		id, other, without string
		want               bool
	}{
		{"uid-plain", "uid-zero", "", true}, {"uid-zero", "uid-one", "", false}, {queue.AnyGang, "uid-one", "", true}, {"uid-plain", "unknown", "", false},
		{"uid-plain", queue.AnyGang, "uid-zero", true}, {"uid-plain", "uid-zero", "uid-zero", false}, {queue.AnyGang, queue.AnyGang, "uid-plain", true}, {"uid-plain", "uid-plain", queue.AnyGang, false}, {"uid-zero", "uid-zero", "uid-plain", false},
	} {
		if got := r.Meet(tc.id, tc.other, tc.without); got != tc.want {
			t.Errorf("%s and %s meet without %s: %t", tc.id, tc.other, tc.without, got)
		}
	}
}

// What is free changes with each room, and only there.
func TestAmountsOfRooms(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b", "c", "d"), nil, nil)
	l.CouldCome(map[string][]Could{"default": {{Shape: of16(), Nodes: 2}}})
	l.Confirm("uid-lmp", &state.Promise{Nodes: []string{"a", "b", "c"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	r := roomOf(t, l, fixture.MiniCluster("next"))
	check := func(what string, r queue.Room, want int64) {
		t.Helper()
		for range 2 { // the second time it is remembered
			if free, _ := r.Amount("cpu", "uid-next", ""); free != want {
				t.Errorf("%s: %d are free, want %d", what, free, want)
			}
		}
	}
	check("at first", r, 8000)
	changed := r.Snapshot()
	check("a copy", changed, 8000)
	changed.Shrink("uid-lmp", []int{2})
	check("a rank leaves", changed, 16000)
	if nodes := changed.Place("uid-next", []int{1}); nodes == nil {
		t.Error("it has no room")
	}
	check("a gang starts", changed, 8000)
	changed.Release("uid-lmp")
	check("a gang ends", changed, 24000)
	check("a node comes", changed.With("default", []int{1}), 40000)
	check("two nodes come", changed.With("default", []int{2}), 56000)
	check("as it was", r, 8000)
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

// Nodes that are closed to a gang, or avoided, are nodes that it could use. So what a gang could use and what another gang could
// use beside it is what both could use together.
func TestKindsOfClosedNodes(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b", "c", "d"), nil, nil)
	c.Reserve([]Reservation{maintenance("c", "d")}, at(0))
	ask := func(mc *fixture.MiniClusterWrapper) state.Ask {
		return requestOf(c, mc.Defaulted(), fixture.Pod("p").Obj()).At(at(0))
	}
	avoids := fixture.MiniCluster("next").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Avoid = &v1alpha2.Avoid{Nodes: "a", Until: metav1.NewTime(at(60))}
	})
	r, err := c.Room(asks{"plain": ask(fixture.MiniCluster("next")), "short": ask(limited(58)), "avoids": ask(avoids)}.of)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"plain", "short", "avoids"} {
		if free, all := r.Amount("cpu", id, ""); free != 32000 || all != 32000 {
			t.Errorf("%s: %d of %d", id, free, all)
		}
		for _, other := range []string{"plain", "short", "avoids"} {
			if free, all := r.Amount("cpu", id, other); free != 0 || all != 0 {
				t.Errorf("%s without %s: %d of %d", id, other, free, all)
			}
		}
	}
}

// No rank leaves a node for a gang that the node is closed to.
func TestVictimsOnClosedNodes(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b", "c"), nil, nil)
	c.Reserve([]Reservation{research("c")}, at(60))
	c.Confirm("uid-lmp", &state.Promise{Nodes: []string{"a", "b", "c"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	if got := roomOf(t, c, fixture.MiniCluster("next")).Victims("uid-lmp", 1, "uid-next"); !slices.Equal(got, []int{1}) {
		t.Errorf("%v leave", got)
	}
}

// A gang that may get nodes of one architecture or of another could use both, whatever is free and wherever it is placed.
func TestKindsOfArchitectures(t *testing.T) {
	c := mixed("linux/amd64/4", "linux/arm64/2")
	c.Confirm("uid-lmp", &state.Promise{Nodes: []string{"linux-arm64-0", "linux-arm64-1"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	ask := func(arch string) state.Ask {
		ask := requestOf(c, fixture.MiniCluster("next").Size(2).Defaulted(), fixture.Pod("p").Obj())
		ask.Arch = arch
		return ask
	}
	r, err := c.Room(asks{"any": ask(""), "later": ask(""), "arm": ask("arm64"), "amd": ask("amd64")}.of)
	if err != nil {
		t.Fatal(err)
	}
	r.Place("later", []int{2})
	for _, id := range []string{"any", "later"} {
		if got := r.Elsewhere(id, "uid-lmp"); got != nil {
			t.Errorf("%s: elsewhere are %v", id, got)
		}
		if !r.Meet(id, "arm", "") || !r.Meet(id, "amd", "") {
			t.Errorf("%s meets no gangs of one architecture", id)
		}
	}
	if free, all := r.Amount("cpu", "any", "amd"); free != 0 || all != 16000 {
		t.Errorf("%d of %d are beside amd64", free, all)
	}
	if r.Meet("arm", "amd", "") {
		t.Error("gangs of different architectures meet")
	}
}
