// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// What runs now, and which nodes are up, does not matter. Each node has 8 CPUs and room for 110 pods.
func TestMostPods(t *testing.T) {
	ours, err := labels.Parse("!others")
	if err != nil {
		t.Fatal(err)
	}
	taint := func(l *Ledger) { l.SetNode(fixture.Node("a").Taint("maintenance", corev1.TaintEffectNoSchedule).Obj()) }
	lapse := func(change func(*Ledger)) func(*Ledger) {
		return func(l *Ledger) {
			change(l)
			l.Lapse(fixture.Noon)
			l.MostPods(state.Requests(fixture.Pod("p").CPU("3").Obj()))
			l.Lapse(fixture.Noon.Add(awayFor))
		}
	}
	small, large := fixture.Pod("p").CPU("3"), fixture.Pod("p").CPU("9")
	for name, tc := range map[string]struct {
		change func(l *Ledger)
		pod    *corev1.Pod
		alone  bool
		want   int
	}{
		"as often as they fit on each":   {pod: small.Obj(), want: 4},
		"as many as pods may be on each": {pod: fixture.Pod("p").CPU("0").Obj(), want: 220},
		"larger than a node":             {pod: large.Obj(), want: 0},
		"one for each node":              {pod: small.Obj(), alone: true, want: 2},
		"a node that is down":            {pod: small.Obj(), change: func(l *Ledger) { l.SetNode(fixture.Node("a").NotReady().Obj()) }, want: 4},
		"a node that went away":          {pod: small.Obj(), change: func(l *Ledger) { l.DeleteNode("a") }, want: 4},
		"one that brokers may not use went away": {pod: small.Obj(), change: func(l *Ledger) {
			l.SetNode(fixture.Node("a").Label("others", "").Obj())
			l.DeleteNode("a")
		}, want: 2},
		"a node that is too long away": {pod: small.Obj(), change: lapse(func(l *Ledger) { l.DeleteNode("a") }), want: 2},
		"a node that got a taint":      {pod: small.Obj(), change: taint, want: 4},
		"one with a taint for long":    {pod: small.Obj(), change: lapse(taint), want: 4},
		"a node that was replaced":     {pod: small.Obj(), change: func(l *Ledger) { l.DeleteNode("a"); l.SetNode(fixture.Node("c").Obj()) }, want: 4},
		"a further node":               {pod: small.Obj(), change: func(l *Ledger) { l.SetNode(fixture.Node("c").Obj()) }, want: 6},
		"a smaller node":               {pod: small.Obj(), change: func(l *Ledger) { l.SetNode(fixture.Node("a").Has(corev1.ResourceCPU, "4").Obj()) }, want: 3},
		"a node that is in use":        {pod: small.Obj(), change: func(l *Ledger) { tell(l, small.On("a").Up().Obj()) }, want: 4},
		"a daemon on a node":           {pod: small.Obj(), change: func(l *Ledger) { tell(l, daemon("d", "6").On("a").Up().Obj()) }, want: 2},
		"a daemon that ended": {pod: small.Obj(), change: func(l *Ledger) {
			tell(l, daemon("d", "6").On("a").Up().Obj())
			l.MostPods(state.Requests(small.Obj()))
			tell(l, daemon("d", "6").On("a").Ended(0).Obj())
		}, want: 4},
		"nodes that brokers may not use": {pod: small.Obj(), change: func(l *Ledger) { l.SetNode(fixture.Node("a").Label("others", "").Obj()) }, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(nil, nil)
			l.Nodes = ours
			for _, node := range fixture.Nodes("a", "b") {
				l.SetNode(node)
			}
			requests := state.Requests(tc.pod)
			if tc.alone {
				requests[fluxion.WholeNode] = 1
			}
			if tc.change != nil {
				l.MostPods(requests) // an answer that is not right any more
				tc.change(l)
			}
			if got := l.MostPods(requests); got != tc.want {
				t.Errorf("they could hold %d, want %d", got, tc.want)
			}
		})
	}
}

// A sign of life of a node forgets no answer. However many kinds of pods ask, few answers are kept.
func TestMostPodsIsRemembered(t *testing.T) {
	l := New(nil, nil)
	l.SetNode(fixture.Node("a").Obj())
	ask := func(cpu int64) { l.MostPods(fluxion.Resources{"cpu": cpu, "pods": 1}) }
	ask(1)
	ask(2)
	ask(1)
	l.SetNode(fixture.Node("a").Obj())
	if len(l.most) != 2 {
		t.Errorf("%d answers are kept, want 2", len(l.most))
	}
	for i := range int64(2 * maxMost) {
		ask(i + 1)
	}
	if len(l.most) > maxMost {
		t.Errorf("%d answers are kept", len(l.most))
	}
}

// An answer costs no memory for each node.
func TestMostPodsAllocates(t *testing.T) {
	l := manyNodes(1000)
	requests := state.Requests(fixture.Pod("p").CPU("3").Obj())
	if n := testing.AllocsPerRun(10, func() {
		l.most = nil
		l.MostPods(requests)
	}); n > 10 {
		t.Errorf("it allocates %v times", n)
	}
}

func manyNodes(n int) *Ledger {
	l := New(nil, nil)
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		l.SetNode(fixture.Node(name).Obj())
		tell(l, daemon("d-"+name, "1").On(name).Up().Obj())
	}
	return l
}

// BenchmarkMostPods measures the question of a waiting gang, with 5,000 nodes: the first time since nodes changed, and
// again.
func BenchmarkMostPods(b *testing.B) {
	l := manyNodes(5000)
	requests := state.Requests(fixture.Pod("p").CPU("3").Obj())
	for name, forget := range map[string]bool{"first": true, "again": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					l.most = nil
				}
				l.MostPods(requests)
			}
		})
	}
}
