// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
	"time"
)

// Tenants are told the names of MiniClusters of their own namespaces alone. The names of the others are for the log.
func TestNamesOfOthers(t *testing.T) {
	for name, tc := range map[string]struct{ taker, told string }{
		"of the same namespace":  {"default/urgent", "default/urgent of queue gold"},
		"of another":             {"other-tenant/secret-project", "a MiniCluster of queue gold"},
		"whose name begins so":   {"default-2/urgent", "a MiniCluster of queue gold"},
		"whose name ends in one": {"x-default/urgent", "a MiniCluster of queue gold"},
	} {
		g, b := easy("gold"), easy("b")
		b.Reclaimable, g.Guarantee = true, Resources{"cpu": 4}
		head := with(gang("urgent", 4, 100), inQueue("gold"))
		head.Name = tc.taker
		c := newCluster(8, g, b).run(with(gang("x", 8, 0), inQueue("b")), 8, 0).wait(head, with(gang("y", 2, 200), inQueue("b")))
		r := Schedule(c.snap, c.room, noon.Add(720*time.Hour))
		if len(r.Evictions) != 1 || r.Evictions[0].Taker != tc.taker || !strings.HasPrefix(r.Evictions[0].Message, "gave its nodes to "+tc.told+",") {
			t.Errorf("%s: evictions %+v", name, r.Evictions)
		}
	}
}
