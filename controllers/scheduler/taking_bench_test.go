// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
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

// BenchmarkBackfilling measures a cycle in which 20 gangs of one to three nodes pass the head of each of some queues. From 10 to
// 40 queues, it may take six times as long at most.
func BenchmarkBackfilling(b *testing.B) {
	for _, backfill := range []queue.Backfill{queue.EASY, queue.Conservative} {
		for _, queues := range []int{10, 40} {
			b.Run(fmt.Sprintf("%s/%d", backfill, queues), func(b *testing.B) {
				room, snapshot := backfilling(b, queues, backfill)
				for b.Loop() {
					got := queue.Schedule(snapshot, room, fixture.Noon.Add(time.Hour))
					waits := slices.DeleteFunc(got.Decisions, func(d queue.Decision) bool { return len(d.Nodes) > 0 })
					if starts := len(snapshot.Waiting) - len(waits); starts < 10*queues {
						b.Fatalf("%d pass a head", starts)
					}
				}
			})
		}
	}
}

// backfilling is a cluster with a head and small gangs in each queue, of which 500 nodes are free.
func backfilling(b *testing.B, queues int, backfill queue.Backfill) (queue.Room, queue.Snapshot) {
	b.Helper()
	const nodes, each = 2000, 15
	s := newScene(b, nodes)
	for i := range queues {
		name := fmt.Sprintf("queue-%02d", i)
		s.Queues = append(s.Queues, queue.Queue{Name: name, Weight: 1, Ordering: queue.ByPriority, Backfill: backfill, Patience: time.Hour})
		for j := range 21 {
			g := s.gang(fmt.Sprintf("%s-%02d", name, j), name, 1, 1+j%3)
			if g.Limit = 10 * time.Minute; j == 0 {
				g.Sizing.Min, g.Sizing.Size = 600, 600
			}
			s.Waiting = append(s.Waiting, g)
		}
	}
	for first := 0; first < 100*each; first += each {
		r := s.run(first, s.Queues[first/each%queues].Name, each, each)
		r.End = fixture.Noon.Add(2*time.Hour + time.Duration(first)*time.Minute)
	}
	return s.room(), s.Snapshot
}

// taking is a cluster in which gangs have all nodes, and a gang of higher priority waits for some.
func taking(b *testing.B, nodes, each, least, wants int) (queue.Room, queue.Snapshot) {
	b.Helper()
	s := newScene(b, nodes)
	s.Queues = []queue.Queue{{Name: "default", Weight: 1, Ordering: queue.ByPriority, Backfill: queue.EASY, Patience: time.Minute}}
	head := s.gang("head", "default", wants, wants)
	head.Priority = 10
	s.Waiting = []queue.Gang{head}
	for first := 0; first < nodes; first += each {
		s.run(first, "default", least, each)
	}
	return s.room(), s.Snapshot
}

// scene is a cluster of nodes with 8 cores for gangs of one pod for each node.
type scene struct {
	queue.Snapshot
	b      *testing.B
	ledger *ledger.Ledger
	nodes  []string
	asks   map[string]state.Ask
}

func newScene(b *testing.B, nodes int) *scene {
	b.Helper()
	s := &scene{b: b, ledger: ledger.New(nil, nil), asks: map[string]state.Ask{}}
	for i := range nodes {
		s.nodes = append(s.nodes, fmt.Sprintf("node-%05d", i))
		s.ledger.SetNode(fixture.Node(s.nodes[i]).Obj())
	}
	s.Total = s.ledger.Total()
	return s
}

var sceneRequests = fluxion.Resources{"cpu": 8000, fluxion.Pods: 1}

// gang is a gang of a queue.
func (s *scene) gang(id, in string, least, size int) queue.Gang {
	s.asks[id] = state.Ask{Gang: fluxion.Gang{Job: id, Pods: fluxion.Shape{Requests: sceneRequests}, Distinct: true}, Least: least, Queue: in}
	g := queue.Gang{ID: id, Name: id, Queue: in, Requests: queue.Resources(sceneRequests), Class: "one", Created: fixture.Noon}
	g.Sizing.Min, g.Sizing.Size, g.Sizing.Operand = least, size, 1
	return g
}

// run lets a gang of a queue run on nodes from a first one on.
func (s *scene) run(first int, in string, least, size int) *queue.Running {
	r := queue.Running{
		Gang: s.gang(s.nodes[first], in, least, size), Max: size, Malleable: least < size,
		Admitted: fixture.Noon.Add(time.Duration(first) * time.Second),
	}
	for rank := range size {
		r.Ranks = append(r.Ranks, rank)
	}
	s.Running = append(s.Running, r)
	s.ledger.Confirm(types.UID(r.ID), &state.Promise{Nodes: s.nodes[first : first+size], Requests: sceneRequests})
	return &s.Running[len(s.Running)-1]
}

func (s *scene) room() queue.Room {
	s.b.Helper()
	room, err := s.ledger.Room(func(id string) (state.Ask, bool) { ask, known := s.asks[id]; return ask, known })
	if err != nil {
		s.b.Fatal(err)
	}
	return room
}
