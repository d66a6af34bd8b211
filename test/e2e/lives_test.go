// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
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
			if err := life.Play(s.ctx, env.client, mc, poll); err != nil {
				t.Error(err)
			}
			admitted := 0
			for _, told := range life.Told {
				if told == "Admitted" {
					admitted++
				}
			}
			// An attempt that does not start in time may end before its lead is up.
			tooLate := life.End.Reason == v1alpha2.ReasonStartLimit
			if n := s.leadsOf(mc); n > admitted || (n < admitted && !tooLate) {
				t.Errorf("%d leads have run, want %d", n, admitted)
			}
		})
	}
}
