// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/test/world/models/contract"
)

// The model of the Job controller does what the real one does. TestModels of test/e2e plays the same scenarios there.
func TestJobContract(t *testing.T) {
	for _, scenario := range contract.Jobs {
		t.Run(scenario.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				inBubble(t, seed, 0, func(p *play) {
					c := &contract.Play{Client: p.Client, Namespace: fixture.Namespace, Node: "no-node"}
					if err := c.Begin(p.ctx, scenario); err != nil {
						t.Fatal(err)
					}
					if err := c.Steps(p.ctx, scenario, p.await); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// await repeats an attempt until it succeeds, for two minutes.
func (p *play) await(attempt func() error) error {
	end := time.Now().Add(2 * time.Minute)
	for {
		err := attempt()
		if err == nil || time.Now().After(end) {
			return err
		}
		if !p.step() && !p.sleep() {
			return err
		}
	}
}

// The model of kube-scheduler does what the real one does.
func TestSchedulerContract(t *testing.T) {
	for _, scenario := range contract.Placements {
		t.Run(scenario.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				inBubble(t, seed, 4, func(p *play) {
					site := &contract.Site{Client: p.Client, Namespace: fixture.Namespace, Nodes: []string{"node-0", "node-1"}, Label: map[string]string{"site": "a"}}
					for _, name := range site.Nodes {
						node := fixture.Node(name).Obj()
						if err := p.Patch(p.ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"site":"a"}}}`))); err != nil {
							t.Fatal(err)
						}
					}
					if err := site.Steps(p.ctx, scenario, p.await); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
