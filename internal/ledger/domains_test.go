// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// racked is a cluster of nodes n0 to n7 with room for two pods each: four racks in two blocks.
func racked(t *testing.T) *Ledger {
	t.Helper()
	l := New([]state.TopologyLevel{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}, nil)
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		l.SetNode(fixture.Node(name).Has(corev1.ResourceCPU, "16").Has(corev1.ResourcePods, "110").
			Label("block", fmt.Sprint("b", i/4)).Label("rack", fmt.Sprint("r", i/2%2)).Label("host", name).Obj())
	}
	return l
}

// quotaIn is a quota in domains, each "rack[0-1]=2" or "b0/rack1=2".
func quotaIn(levels string, domains ...string) *v1alpha2.Quota {
	q := &v1alpha2.QuotaTopology{Levels: strings.Split(levels, ",")}
	for _, domain := range domains {
		var d v1alpha2.QuotaDomains
		name, count, _ := strings.Cut(domain, "=")
		if within, values, deep := strings.Cut(name, "/"); deep {
			d.Within, name = []string{within}, values
		}
		_, _ = fmt.Sscan(count, &d.Brokers)
		d.Values = name
		q.Domains = append(q.Domains, d)
	}
	return &v1alpha2.Quota{Topology: q}
}

// withQuota is the room for a MiniCluster with quota, whose pods take 8 CPUs.
func withQuota(t *testing.T, l *Ledger, mc *v1alpha2.MiniCluster, quota *v1alpha2.Quota) queue.Room {
	t.Helper()
	ask := state.Request(mc, fixture.Pod("p").CPU("8").Obj(), quota, l.levels)
	r, err := l.Room(asks{string(mc.UID): ask}.of)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A gang is in the domains that Kueue assigned, with at most as many pods in each as were assigned.
func TestDomains(t *testing.T) {
	required := func(s *v1alpha2.MiniClusterSpec) {
		s.Placement = v1alpha2.PlacementSpec{TopologyKey: "rack", Topology: v1alpha2.TopologyRequired}
	}
	shared := func(s *v1alpha2.MiniClusterSpec) { s.Network.DisableAffinity = true }
	none := func(*v1alpha2.MiniClusterSpec) {}
	for name, tc := range map[string]struct {
		quota *v1alpha2.Quota
		spec  func(*v1alpha2.MiniClusterSpec)
		sizes []int
		taken string // nodes with one pod of another
		fits  int
		want  string
	}{
		"nodes":                              {quotaIn("host", "n[3,5]=1", "n6=2"), none, []int{4}, "", 4, "n3 n5 n6 n6"},
		"nodes, whatever the spec asks for":  {quotaIn("host", "n[3,5]=1"), required, []int{2}, "", 2, "n3 n5"},
		"a node in use":                      {quotaIn("host", "n[3,5]=1", "n6=2"), none, []int{4}, "n6", 3, ""},
		"a node in use, with fewer brokers":  {quotaIn("host", "n[3,5]=1", "n6=2"), none, []int{1, 2, 4}, "n3", 4, "n3 n5 n6 n6"},
		"fewer brokers in the fewest nodes":  {quotaIn("host", "n[3,5]=1", "n6=2"), none, []int{2}, "", 4, "n6 n6"},
		"racks":                              {quotaIn("block,rack", "b0/r1=2", "b1/r0=1"), none, []int{3}, "", 3, "n2 n3 n4"},
		"racks, with as few nodes as can be": {quotaIn("block,rack", "b0/r1=2", "b1/r0=1"), shared, []int{3}, "", 3, "n2 n2 n4"},
		"racks with nodes in use":            {quotaIn("block,rack", "b0/r1=3", "b1/r0=1"), none, []int{4}, "n2", 4, "n2 n3 n3 n4"},
		"racks with too many nodes in use":   {quotaIn("block,rack", "b0/r1=4", "b1/r0=1"), none, []int{5}, "n2", 4, ""},
		"a rack of each block":               {quotaIn("rack", "r1=5"), none, []int{5}, "", 5, "n2 n3 n6 n7"},
		"the limit, though there is room":    {quotaIn("block,rack", "b0/r1=2"), none, []int{2, 3, 4}, "", 2, "n2 n3"},
		"a node that is not there":           {quotaIn("host", "n[3,9]=1"), none, []int{2}, "", 1, ""},
		"a list that cannot be read":         {quotaIn("host", "n[3=1"), none, []int{1}, "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := racked(t)
			if tc.taken != "" {
				l.Confirm("other", &state.Promise{Nodes: strings.Fields(tc.taken), Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
			}
			r := withQuota(t, l, fixture.MiniCluster("lmp").Spec(tc.spec).Defaulted(), tc.quota)
			if fits := r.Fits("uid-lmp", 100); fits != tc.fits {
				t.Errorf("%d fit, want %d", fits, tc.fits)
			}
			if why := r.Why("uid-lmp", tc.sizes); (why == "") != (tc.want != "") {
				t.Errorf("it says %q", why)
			}
			got := r.Place("uid-lmp", tc.sizes)
			slices.Sort(got)
			if tc.want == "n2 n3 n6 n7" { // five pods on these four nodes
				got = slices.Compact(got)
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
}

// A refusal says where the gang has to be, and what is there.
func TestWhyInDomains(t *testing.T) {
	l := racked(t)
	l.Confirm("other", &state.Promise{Nodes: []string{"n2"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	r := withQuota(t, l, fixture.MiniCluster("lmp").Defaulted(), quotaIn("block,rack", "b0/r1=4"))
	if why := r.Why("uid-lmp", []int{4}); why != "needs room for 4 brokers of 8 cpu each; 2 of 8 nodes have room now for 3: 6 not where Kueue counts the brokers; it fits once 1 job has ended" {
		t.Errorf("it says %q", why)
	}
	r = withQuota(t, l, fixture.MiniCluster("lmp").Defaulted(), quotaIn("block,rack", "b0/r1=2", "b1/r0=1"))
	if why := r.Why("uid-lmp", []int{5}); why != "needs room for 5 brokers where Kueue counts them; there is room for 3 now" {
		t.Errorf("it says %q", why)
	}
	if !r.CouldHold("uid-lmp", []int{3}) {
		t.Error("the domains could not hold it")
	}
}

// Kueue may assign more brokers to a domain than whole nodes.
func TestWholeNodesInDomains(t *testing.T) {
	ask := func(l *Ledger, quota *v1alpha2.Quota) queue.Room {
		r, err := l.Room(asks{"q": state.Request(fixture.MiniCluster("q").Defaulted(), alonePod("q", 0).CPU("8").Obj(), quota, l.levels)}.of)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	l := racked(t)
	if nodes := ask(l, quotaIn("host", "n[3,5]=1")).Place("q", []int{2}); !slices.Equal(nodes, []string{"n3", "n5"}) {
		t.Errorf("got %v", nodes)
	}
	l.Confirm("other", onNodes("n3"))
	r := ask(l, quotaIn("block,rack", "b0/r1=2"))
	if fits := r.Fits("q", 9); fits != 1 || !r.CouldHold("q", []int{2}) {
		t.Errorf("beside another there is room for %d of 2", fits)
	}
	r = ask(l, quotaIn("host", "n6=2"))
	want := "needs room for 2 brokers of 8 cpu, a whole node each; the whole cluster of 8 nodes has room for 1: 7 not where Kueue counts the brokers"
	if why := r.Why("q", []int{2}); why != want || r.CouldHold("q", []int{2}) || r.Place("q", []int{2}) != nil {
		t.Errorf("two on one node: %q", why)
	}
}

// A rank whose node is gone gets another one in a domain that takes a pod more.
func TestMovesInDomains(t *testing.T) {
	l := racked(t)
	mc := fixture.MiniCluster("lmp").Defaulted()
	quota := quotaIn("block,rack", "b0/r1=2", "b1/r0=1")
	l.Confirm("uid-lmp", &state.Promise{Nodes: []string{"n2", "n3", "n4"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	if grown := withQuota(t, l, mc, quota).Grow("uid-lmp", 2); len(grown) > 0 {
		t.Errorf("beyond what Kueue counts it got %v", grown)
	}
	l.DeleteNode("n4")
	moved := withQuota(t, l, mc, quota).Grow("uid-lmp", 1)
	if len(moved) != 1 || moved[0].Rank != 2 || moved[0].Node != "n5" {
		t.Errorf("it got %v", moved)
	}
	if moved := withQuota(t, l, mc, quotaIn("host", "n[2-4]=1")).Grow("uid-lmp", 1); len(moved) > 0 {
		t.Errorf("beside the nodes that Kueue assigned it got %v", moved)
	}
}

// A node that changes its labels is in other domains.
func TestDomainsFollowLabels(t *testing.T) {
	l := racked(t)
	mc, quota := fixture.MiniCluster("lmp").Defaulted(), quotaIn("kind", "gpu=9")
	if fits := withQuota(t, l, mc, quota).Fits("uid-lmp", 9); fits != 0 {
		t.Errorf("%d fit", fits)
	}
	l.SetNode(fixture.Node("n0").Has(corev1.ResourceCPU, "16").Has(corev1.ResourcePods, "110").Label("block", "b0").Label("rack", "r0").Label("kind", "gpu").Obj())
	if fits := withQuota(t, l, mc, quota).Fits("uid-lmp", 9); fits != 2 {
		t.Errorf("%d fit on a node that has the label now", fits)
	}
}

// Placing a gang of 1,000 brokers on the nodes that Kueue named takes a moment.
func BenchmarkDomains(b *testing.B) {
	l := New([]state.TopologyLevel{{Name: "rack", Label: "rack"}}, nil)
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		l.SetNode(fixture.Node(name).Label("rack", fmt.Sprint(i/32)).Label("host", name).Obj())
	}
	mc := fixture.MiniCluster("lmp").Size(1000).Defaulted()
	ask := state.Request(mc, fixture.Pod("p").CPU("8").Obj(), quotaIn("host", "n[0000-0999]=1"), l.levels)
	for b.Loop() {
		r, err := l.Room(asks{"uid-lmp": ask}.of)
		if err != nil {
			b.Fatal(err)
		}
		if nodes := r.Place("uid-lmp", []int{1000}); len(nodes) != 1000 {
			b.Fatalf("%d nodes", len(nodes))
		}
	}
}
