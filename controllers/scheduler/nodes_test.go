// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// MiniClusters use the selected nodes alone, as long as these are selected.
func TestSchedulerNodes(t *testing.T) {
	q := newQueue(t)
	q.UseNodes(labels.SelectorFromSet(labels.Set{"batch": "flux"}), false)
	first := fixture.MiniCluster("first").Size(1)
	q.ledger.SetNode(fixture.Node("a").Obj())
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.NeverFits)
	q.ledger.SetNode(fixture.Node("b").Label("batch", "flux").Obj())
	q.cycle()
	q.expect(first, elastic.Admitted, "b")
	q.ledger.SetNode(fixture.Node("b").Obj())
	second := fixture.MiniCluster("second").Size(1)
	q.offer(second)
	q.cycle()
	q.expect(second, elastic.NeverFits)
	if total := q.ledger.Total(); total["cpu"] != 0 {
		t.Errorf("nodes of others count: %v", total)
	}
}
