// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRooms(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 11))
		w := randomWorld(random)
		g := w.graph(t, random)
		gang := w.randomGang(random, "job")
		p := w.puzzle(gang, false)
		rooms := g.Rooms(gang)
		at := make([]*Room, len(w.nodes))
		for i := range rooms {
			at[rooms[i].Node] = &rooms[i]
		}
		if !slices.IsSortedFunc(rooms, func(a, b Room) int { return a.Node - b.Node }) {
			t.Fatalf("seed %d: not in the order of the graph: %v", seed, rooms)
		}
		for i := range w.nodes {
			room := Room{Node: i}
			if at[i] != nil {
				room = *at[i]
			}
			if room.Pods != p.room[i] {
				t.Fatalf("seed %d: node %d has %+v, want %d", seed, i, room, p.room[i])
			}
		}
		usable, empty := g.Usable(gang), w.puzzle(gang, true)
		for i := range w.nodes {
			closed := slices.ContainsFunc(gang.Pods.Closed, func(e Exclusion) bool { return e.Nodes.Has(i) })
			if usable.Has(i) != (empty.room[i] > 0 && !closed) {
				t.Fatalf("seed %d: node %d is usable: %t, empty it has room for %d, it is closed: %t", seed, i, usable.Has(i), empty.room[i], closed)
			}
		}
		for level, name := range g.Levels() {
			if slices.Contains(w.levels, name) {
				checkDomains(t, w, at, level)
			}
		}
	}
}

// checkDomains checks that nodes have the same number where they are in one domain.
func checkDomains(t *testing.T, w *world, at []*Room, level int) {
	t.Helper()
	of := map[int]string{}
	for key, nodes := range w.domains(w.levels[level], w.all()) {
		for _, i := range nodes {
			if at[i] == nil {
				continue
			}
			number := at[i].Domains[level]
			if isNone(key) != (number < 0) || (number >= 0 && of[number] != "" && of[number] != key) {
				t.Fatalf("node %d, of %q, is in domain %d", i, key, number)
			}
			of[number] = key
		}
	}
}
