// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import "testing"

// TestMatchAllocatesItsResultAlone: the Match, its output, and the job with its holds are
// five allocations. All other memory is used again.
func TestMatchAllocatesItsResultAlone(t *testing.T) {
	for _, policy := range policyNames {
		m, err := NewMatcher(cluster(t, 1000), Options{Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		spec := nodeSlots(t, 64)
		id := uint64(0)
		cycle := func() {
			id++
			if _, err := m.Match(Allocate, spec, id, 0); err != nil {
				t.Fatal(err)
			}
			if err := m.Cancel(id); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 { // until every vertex has had its first job
			cycle()
		}
		if got := testing.AllocsPerRun(100, cycle); got > 5 {
			t.Errorf("policy %s: a match makes %v allocations", policy, got)
		}
	}
}
