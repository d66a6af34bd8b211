// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/harness"
	"github.com/flux-elastic/flux-elastic/test/world/models/contract"
)

// The real Job controller and kube-scheduler do what their models in test/world do: the tests of the models play the same
// scenarios.
func TestModels(t *testing.T) {
	t.Parallel()
	t.Run("jobs", func(t *testing.T) {
		for _, scenario := range contract.Jobs {
			t.Run(scenario.Name, func(t *testing.T) {
				t.Parallel()
				nodes := 0
				if scenario.Bound {
					nodes = 1
				}
				s := env.cluster.NewSite(t, nodes)
				t.Cleanup(s.Close)
				play := &contract.Play{Client: env.client, Namespace: s.Namespace, Node: strings.Join(s.Nodes, "")}
				s.AtClose(func() {
					if err := play.End(s.Ctx); err != nil {
						t.Error(err)
					}
				})
				if err := play.Begin(s.Ctx, scenario); err != nil {
					t.Fatal(err)
				}
				if err := play.Steps(s.Ctx, scenario, poll); err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Run("placements", func(t *testing.T) {
		for _, scenario := range contract.Placements {
			t.Run(scenario.Name, func(t *testing.T) {
				t.Parallel()
				s := env.cluster.NewSite(t, 2)
				t.Cleanup(s.Close)
				site := &contract.Site{
					Client: env.client, Namespace: s.Namespace, Nodes: s.Nodes, Label: map[string]string{harness.SiteLabel: s.Namespace},
				}
				if err := site.Steps(s.Ctx, scenario, poll); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
