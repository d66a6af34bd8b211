// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// A gang for which the cluster was large enough in the last hour waits for the nodes that went away.
func TestNodesAway(t *testing.T) {
	n3 := func() *fixture.NodeWrapper { return fixture.Node("n3").Label("rack", "1").Label("kind", "1") }
	taint := func(c *Ledger) { c.SetNode(n3().Taint("maintenance", corev1.TaintEffectNoSchedule).Obj()) }
	remove := func(c *Ledger) { c.DeleteNode("n3") }
	another := func(cpus string) func(*Ledger) {
		return func(c *Ledger) { c.SetNode(fixture.Node("n4").Has(corev1.ResourceCPU, cpus).Obj()) }
	}
	comeBack := func(c *Ledger) { c.SetNode(n3().Obj()) }
	later := func(after time.Duration) func(*Ledger) {
		return func(c *Ledger) { c.Lapse(fixture.Noon.Add(after)) }
	}
	for name, tc := range map[string]struct {
		events []func(*Ledger)
		could  bool // four brokers
		why    string
	}{
		"all are there":                 {nil, true, ""},
		"deleted":                       {[]func(*Ledger){remove}, true, "; the whole cluster of 3 nodes has room for 3; nodes that went away"},
		"deleted less than an hour ago": {[]func(*Ledger){remove, later(0), later(time.Hour - 1)}, true, "nodes that went away"},
		"deleted an hour ago":           {[]func(*Ledger){remove, later(0), later(time.Hour)}, false, "; the whole cluster of 3 nodes has room for 3"},
		"tainted":                       {[]func(*Ledger){taint}, true, "1 tainted maintenance; nodes that went away"},
		"tainted an hour ago":           {[]func(*Ledger){taint, later(0), later(time.Hour)}, false, "1 tainted maintenance"},
		"tainted, then deleted":         {[]func(*Ledger){taint, later(0), remove, later(time.Hour)}, false, "of 3 nodes"},
		"deleted, then back":            {[]func(*Ledger){remove, later(0), comeBack}, true, ""},
		"deleted, back with a taint":    {[]func(*Ledger){remove, later(0), taint}, true, "1 tainted maintenance; nodes that went away"},
		"deleted, then replaced":        {[]func(*Ledger){remove, another("8")}, true, ""},
		"deleted, and a smaller one":    {[]func(*Ledger){remove, another("4")}, true, "nodes that went away"},
		"deleted twice":                 {[]func(*Ledger){remove, later(0), comeBack, later(time.Hour), remove}, true, "nodes that went away"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fourNodes(t)
			for _, event := range tc.events {
				event(c)
			}
			r := roomOf(t, c, fixture.MiniCluster("next"))
			if r.CouldHold("uid-next", []int{4}) != tc.could {
				t.Errorf("four could be held: %v, want %v", !tc.could, tc.could)
			}
			if r.CouldHold("uid-next", []int{5}) {
				t.Error("five could be held")
			}
			why := r.Why("uid-next", []int{4})
			if !strings.Contains(why, tc.why) || strings.Contains(why, "went away") != strings.Contains(tc.why, "went away") {
				t.Errorf("why: %s", why)
			}
		})
	}
}

// The next look is when a node no longer counts.
func TestNodesAwayLapse(t *testing.T) {
	c := fourNodes(t)
	c.DeleteNode("n3")
	if next := c.Lapse(fixture.Noon); !next.Equal(fixture.Noon.Add(awayFor)) {
		t.Errorf("the next look is at %s", next)
	}
	if next := c.Lapse(fixture.Noon.Add(awayFor)); !next.IsZero() {
		t.Errorf("then it is at %s", next)
	}
}

// A node that went away has no room for what its daemons took.
func TestNodesAwayWithDaemons(t *testing.T) {
	c := fourNodes(t)
	pod := daemon("daemon", "1").On("n3").Obj()
	tell(c, pod)
	c.DeleteNode("n3")
	c.DeletePod(pod.UID)
	if roomOf(t, c, fixture.MiniCluster("next")).CouldHold("uid-next", []int{4}) {
		t.Error("the node could not hold a broker with 8 CPUs")
	}
}

// The cluster with the nodes that went away is made again after changes that may let a gang fit, and not
// after each sign of life of a node.
func TestNodesAwayAreRemembered(t *testing.T) {
	n2 := func() *fixture.NodeWrapper { return fixture.Node("n2").Label("rack", "1").Label("kind", "0") }
	for name, tc := range map[string]struct {
		change func(*Ledger)
		anew   bool
		could  bool // four brokers
	}{
		"a sign of life": {func(c *Ledger) { c.SetNode(n2().Obj()) }, false, true},
		"a cordon":       {func(c *Ledger) { c.SetNode(n2().Cordoned().Obj()) }, false, true},
		"a smaller node": {func(c *Ledger) { c.SetNode(n2().Has(corev1.ResourceCPU, "4").Obj()) }, true, false},
		"a label":        {func(c *Ledger) { c.SetNode(n2().Label("new", "x").Obj()) }, true, true},
		"a daemon":       {func(c *Ledger) { tell(c, daemon("d", "1").On("n2").Obj()) }, true, false},
		"a further node": {func(c *Ledger) { c.SetNode(fixture.Node("n4").Has(corev1.ResourceCPU, "4").Obj()) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := fourNodes(t)
			c.DeleteNode("n3")
			if !roomOf(t, c, fixture.MiniCluster("next")).CouldHold("uid-next", []int{4}) {
				t.Error("four could not be held before")
			}
			before := c.earlier
			tc.change(c)
			if could := roomOf(t, c, fixture.MiniCluster("next")).CouldHold("uid-next", []int{4}); could != tc.could {
				t.Errorf("four could be held: %v", could)
			}
			if (c.earlier != before) != tc.anew {
				t.Errorf("made anew: %v, want %v", !tc.anew, tc.anew)
			}
		})
	}
}
