// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"errors"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// errNoRoom does not happen: the graph has room for the gang.
var errNoRoom = errors.New("there is no room after all")

// place chooses the nodes of a gang, of a size that fits.
func (e *Engine) place(graph *fluxion.Graph, gang *fluxion.Gang, size int) (fluxion.Placement, error) {
	rooms, err := e.narrow(graph, gang, size)
	if err != nil {
		return fluxion.Placement{}, err
	}
	choose := e.chooseFewest
	if gang.Distinct || gang.Policy == fluxion.Spread {
		choose = e.chooseDistinct
	}
	counts, err := choose(rooms, size)
	if err != nil {
		return fluxion.Placement{}, err
	}
	nodes := make([]string, 0, size)
	for i, count := range counts {
		nodes = append(nodes, slices.Repeat([]string{graph.Name(rooms[i].Node)}, count)...)
	}
	return fluxion.Placement{Nodes: nodes}, nil
}

// narrow returns the rooms of one domain of the gang's level, if a domain takes all pods. If no
// domain does, and the pods need not be in one, narrow returns all rooms.
func (e *Engine) narrow(graph *fluxion.Graph, gang *fluxion.Gang, size int) ([]fluxion.Room, error) {
	rooms, level := graph.Rooms(*gang), slices.Index(graph.Levels(), gang.Topology.Level)
	if level < 0 {
		return rooms, nil
	}
	var domains []place // Fluxion takes each domain for a node
	var inside [][]fluxion.Room
	for from := 0; from < len(rooms); {
		to := from + 1
		for to < len(rooms) && rooms[to].Domains[level] == rooms[from].Domains[level] {
			to++
		}
		if rooms[from].Domains[level] >= 0 && sum(rooms[from:to]) >= size {
			domains = append(domains, place{above: rooms[from].Domains[:level]})
			inside = append(inside, rooms[from:to])
		}
		from = to
	}
	if len(domains) == 0 && !gang.Topology.Required {
		return rooms, nil
	}
	counts, err := e.choose(nodeType, domains, 1)
	if err != nil {
		return nil, err
	}
	return inside[slices.Index(counts, 1)], nil
}

// sum is the number of pods that rooms take.
func sum(rooms []fluxion.Room) int {
	sum := 0
	for i := range rooms {
		sum += rooms[i].Pods
	}
	return sum
}

// chooseFewest chooses how many of the pods each room gets.
func (e *Engine) chooseFewest(rooms []fluxion.Room, pods int) ([]int, error) {
	places := make([]place, len(rooms))
	for i := range rooms {
		places[i] = place{rooms[i].Domains, min(rooms[i].Pods, pods)}
	}
	return e.choose(coreType, places, pods)
}

// chooseDistinct is chooseFewest in rounds. In each round a node gets at most one pod.
func (e *Engine) chooseDistinct(rooms []fluxion.Room, pods int) ([]int, error) {
	counts := make([]int, len(rooms))
	for round := 0; pods > 0; round++ {
		var next []int
		for i := range rooms {
			if round < rooms[i].Pods {
				next = append(next, i)
			}
		}
		switch {
		case len(next) == 0:
			return nil, errNoRoom
		case len(next) >= pods:
			return counts, e.chooseAmong(rooms, next, pods, counts)
		}
		for _, room := range next {
			counts[room]++
		}
		pods -= len(next)
	}
	return counts, nil
}

// chooseAmong gives one more pod to each of so many of the rooms.
func (e *Engine) chooseAmong(rooms []fluxion.Room, among []int, pods int, counts []int) error {
	places := make([]place, len(among))
	for i, room := range among {
		places[i].above = rooms[room].Domains
	}
	more, err := e.choose(nodeType, places, pods)
	for i := range more {
		counts[among[i]] += more[i]
	}
	return err
}
