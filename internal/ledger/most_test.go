// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// What runs now, and which nodes are up, does not matter. Each node has 8 CPUs and room for 110 pods.
func TestMostPods(t *testing.T) {
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
		"a node that is in use":          {pod: small.Obj(), change: func(l *Ledger) { tell(l, small.On("a").Up().Obj()) }, want: 4},
		"a daemon on a node":             {pod: small.Obj(), change: func(l *Ledger) { tell(l, daemon("d", "6").On("a").Up().Obj()) }, want: 2},
		"nodes that brokers may not use": {pod: small.Obj(), change: func(l *Ledger) {
			l.Nodes = labels.Nothing()
			l.SetNode(fixture.Node("a").Obj())
		}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(nil, nil)
			for _, node := range fixture.Nodes("a", "b") {
				l.SetNode(node)
			}
			if tc.change != nil {
				tc.change(l)
			}
			requests := state.Requests(tc.pod)
			if tc.alone {
				requests[fluxion.WholeNode] = 1
			}
			if got := l.MostPods(requests); got != tc.want {
				t.Errorf("they could hold %d, want %d", got, tc.want)
			}
		})
	}
}
