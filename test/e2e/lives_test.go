// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/lives"
)

// What is the same on real nodes, where TestMiniClusters/Lives has the same lives.
func TestLives(t *testing.T) {
	t.Parallel()
	for _, life := range lives.All() {
		t.Run(life.MiniCluster.Obj().Name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			mc := s.here(life.MiniCluster).New()
			mc.Namespace = s.namespace
			if err := life.Play(s.ctx, env.client, mc, poll); err != nil {
				t.Error(err)
			}
			// An attempt runs one lead, or none where it is given up before the lead was up.
			admitted, started := 0, 0
			for _, told := range life.Told {
				switch {
				case told == "Admitted":
					admitted++
				case strings.HasPrefix(told, "Started "):
					started++
				}
			}
			if n := s.leadsOf(mc); n < started || n > admitted {
				t.Errorf("%d leads have run", n)
			}
		})
	}
}
