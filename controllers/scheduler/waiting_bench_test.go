// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// BenchmarkWaiting measures a cycle with 5,000 MiniClusters that wait for 10,000 nodes: all are in use, or
// 100 are free, which the first that waits needs and more.
func BenchmarkWaiting(b *testing.B) {
	for _, backfill := range []v1alpha2.Backfill{v1alpha2.BackfillEASY, v1alpha2.BackfillConservative} {
		for _, free := range []int{0, 100} {
			b.Run(fmt.Sprintf("%s/%d", backfill, free), func(b *testing.B) { benchmarkWaiting(b, backfill, free) })
		}
	}
}

func benchmarkWaiting(b *testing.B, backfill v1alpha2.Backfill, free int) {
	b.Helper()
	const nodes, waiting, each = 10000, 5000, 20
	s := New(nil, clock.RealClock{}, nil, nil)
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%05d", i)
	}
	for _, node := range fixture.Nodes(names...) {
		s.ledger.SetNode(node)
	}
	seen := &clusterState{quotas: quota.New(nil), queues: []*v1alpha2.MiniClusterQueue{fixture.Queue("default").Backfill(backfill).Obj()}}
	now := fixture.Noon.Add(time.Hour)
	for first := 0; first < nodes-free; first += each {
		name := fmt.Sprintf("runs-%05d", first)
		list := hostlist.Encode(names[first : first+each])
		mc := fixture.MiniCluster(name).Size(each).Deadline(int64(7200+first)).CPU("8").Admitted(1, each, list)
		seen.miniClusters = append(seen.miniClusters, mc.Obj())
	}
	for i := range waiting {
		size := int32(100 + i%50)
		mc := fixture.MiniCluster(fmt.Sprintf("waits-%05d", i)).Size(2 * size).MinSize(size).Deadline(int64(3600 + i)).CPU("8").Created(fixture.Noon.Add(time.Duration(i) * time.Second / 4))
		seen.miniClusters = append(seen.miniClusters, mc.Obj())
		s.Report(mc.Defaulted(), state.Wants{Want: state.NodesNow, Pod: wholeNode})
	}
	cycle := func() {
		if _, err := s.cycle(b.Context(), seen, now); err != nil {
			b.Fatal(err)
		}
	}
	cycle()
	for b.Loop() {
		cycle()
	}
}
