// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// A MiniCluster with quota of Kueue, for which the autoscaler has no nodes, gives the quota back each time, and asks the autoscaler
// again only after pauses of 2, 4 and 8 minutes. Once there are nodes, the MiniCluster gets them.
func TestCooldownWithQuota(t *testing.T) {
	const barren = 15 * time.Minute
	result, asked := &Result{}, 0
	synctest.Test(t, func(*testing.T) {
		w := newWorld(Options{Seed: 2}, result)
		w.busy = barren
		l := &life{name: "gang", namespace: namespaces[0]}
		l.wrapper = fixture.MiniCluster(l.name).In(l.namespace).Size(int32(w.nodes+1)).CPU("8").PodAnnotation(simulator.Runtime, "60s")
		joinKueue(w, nil, l)
		w.autoscaler.Refuse(true)
		l.deeds = []deed{
			{w.began.Add(time.Minute), "create gang", func() { w.makeLife(l) }},
			{w.began.Add(barren), "there are nodes", func() { w.autoscaler.Refuse(false) }},
		}
		w.lives = append(w.lives, l)
		w.plan(part{name: "life gang", deeds: l.deeds})
		w.exist()
		for _, entry := range w.server.Log(0) {
			if entry.Verb == "create" && entry.Kind == string(v1alpha2.ProvideByRequest) && entry.Time.Before(w.began.Add(barren)) {
				asked++
			}
		}
	})
	if result.Violation != nil {
		t.Fatal(result.Violation)
	}
	if asked != 3 {
		t.Errorf("the autoscaler was asked %d times within %s, want 3", asked, barren)
	}
}
