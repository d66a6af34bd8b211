// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// BenchmarkTaking measures a cycle in which a head takes all nodes of gangs of one node each, or most nodes of malleable gangs
// of ten, by preemption. From n to 4 n nodes, it may take six times as long at most.
func BenchmarkTaking(b *testing.B) {
	for _, tc := range []struct {
		name        string
		each, least int // of the gangs that run
		part        int // of the nodes that the head takes, in tenths
	}{{"rigid", 1, 1, 10}, {"malleable", 10, 1, 8}} {
		for _, nodes := range []int{1000, 4000} {
			b.Run(fmt.Sprintf("%s/%d", tc.name, nodes), func(b *testing.B) {
				room, snapshot := taking(b, nodes, tc.each, tc.least, nodes*tc.part/10)
				for b.Loop() {
					got := queue.Schedule(snapshot, room, fixture.Noon.Add(1000*time.Hour))
					if len(got.Evictions)+len(got.Drains) == 0 {
						b.Fatal("nothing is taken")
					}
				}
			})
		}
	}
}

// taking is a cluster in which gangs have all nodes, and a gang of higher priority waits for some.
func taking(b *testing.B, nodes, each, least, wants int) (queue.Room, queue.Snapshot) {
	b.Helper()
	l, asks := ledger.New(nil, nil), map[string]state.Ask{}
	requests := fluxion.Resources{"cpu": 8000, fluxion.Pods: 1}
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%05d", i)
		l.SetNode(fixture.Node(names[i]).Obj())
	}
	gang := func(id string, least, size int, priority int32) queue.Gang {
		asks[id] = state.Ask{Gang: fluxion.Gang{Job: id, Pods: fluxion.Shape{Requests: requests}, Distinct: true}, Least: least, Queue: "default"}
		g := queue.Gang{ID: id, Name: id, Queue: "default", Priority: priority, Requests: queue.Resources(requests), Class: "one", Created: fixture.Noon}
		g.Sizing.Min, g.Sizing.Size, g.Sizing.Operand = least, size, 1
		return g
	}
	s := queue.Snapshot{
		Queues: []queue.Queue{{Name: "default", Weight: 1, Ordering: queue.ByPriority, Backfill: queue.EASY, Patience: time.Minute}},
		Total:  l.Total(), Waiting: []queue.Gang{gang("head", wants, wants, 10)},
	}
	for first := 0; first < nodes; first += each {
		r := queue.Running{
			Gang: gang(names[first], least, each, 0), Max: each, Malleable: least < each, Admitted: fixture.Noon.Add(time.Duration(first) * time.Second),
		}
		for rank := range each {
			r.Ranks = append(r.Ranks, rank)
		}
		s.Running = append(s.Running, r)
		l.Confirm(types.UID(r.ID), &state.Promise{Nodes: names[first : first+each], Requests: requests})
	}
	room, err := l.Room(func(id string) (state.Ask, bool) { ask, known := asks[id]; return ask, known })
	if err != nil {
		b.Fatal(err)
	}
	return room, s
}
