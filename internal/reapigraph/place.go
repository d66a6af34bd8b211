// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"errors"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// errNoRoom cannot be: the graph says that there is room.
var errNoRoom = errors.New("there is no room after all")

// place chooses the nodes of a gang, of a size that fits.
func (g *Graph) place(gang *fluxion.Gang, size int) (fluxion.Placement, error) {
	rooms, err := g.narrow(gang, g.Rooms(*gang), size)
	if err != nil {
		return fluxion.Placement{}, err
	}
	nodes, pods := make([]string, 0, size), size
	lead := -1
	if gang.Lead != nil {
		pods--
		if lead, err = g.engine.chooseLead(rooms, pods); err != nil {
			return fluxion.Placement{}, err
		}
		nodes = append(nodes, g.Name(rooms[lead].Node))
	}
	var counts []int
	if gang.Distinct || gang.Policy == fluxion.Spread {
		counts, err = g.engine.chooseDistinct(rooms, lead, pods)
	} else {
		counts, err = g.engine.chooseFewest(rooms, pods)
	}
	if err != nil {
		return fluxion.Placement{}, err
	}
	for i, count := range counts {
		nodes = append(nodes, slices.Repeat([]string{g.Name(rooms[i].Node)}, count)...)
	}
	return fluxion.Placement{Nodes: nodes}, nil
}

// narrow leaves the rooms of one domain of the gang's level, if one takes all pods. If
// none does, and they need not be in one, it leaves all rooms.
func (g *Graph) narrow(gang *fluxion.Gang, rooms []fluxion.Room, size int) ([]fluxion.Room, error) {
	level := slices.Index(g.Levels(), gang.Topology.Level)
	if level < 0 {
		return rooms, nil
	}
	var domains []place // which Fluxion takes for nodes
	var inside [][]fluxion.Room
	for from := 0; from < len(rooms); {
		to := from + 1
		for to < len(rooms) && rooms[to].Domains[level] == rooms[from].Domains[level] {
			to++
		}
		if rooms[from].Domains[level] >= 0 && holds(gang, rooms[from:to], size) {
			domains = append(domains, place{above: rooms[from].Domains[:level]})
			inside = append(inside, rooms[from:to])
		}
		from = to
	}
	if len(domains) == 0 && !gang.Topology.Required {
		return rooms, nil
	}
	counts, err := g.engine.choose(nodeType, domains, 1)
	if err != nil {
		return nil, err
	}
	return inside[slices.Index(counts, 1)], nil
}

// holds reports whether rooms take a gang.
func holds(gang *fluxion.Gang, rooms []fluxion.Room, size int) bool {
	if gang.Lead == nil {
		return sum(rooms) >= size
	}
	return len(leads(rooms, size-1)) > 0
}

// sum is how many pods rooms take.
func sum(rooms []fluxion.Room) int {
	sum := 0
	for i := range rooms {
		sum += rooms[i].Pods
	}
	return sum
}

// leads are the rooms, by index, for the lead: those that leave room for so many others.
func leads(rooms []fluxion.Room, others int) []int {
	var leads []int
	all := sum(rooms)
	for i := range rooms {
		if beside := rooms[i].BesideLead; beside >= 0 && all-rooms[i].Pods+beside >= others {
			leads = append(leads, i)
		}
	}
	return leads
}

// chooseLead chooses the room of the lead, and leaves there what is left beside it.
func (e *Engine) chooseLead(rooms []fluxion.Room, others int) (int, error) {
	counts := make([]int, len(rooms))
	if err := e.chooseAmong(rooms, leads(rooms, others), 1, counts); err != nil {
		return 0, err
	}
	lead := slices.Index(counts, 1)
	rooms[lead].Pods = rooms[lead].BesideLead
	return lead, nil
}

// chooseFewest chooses how many of the pods each room gets.
func (e *Engine) chooseFewest(rooms []fluxion.Room, pods int) ([]int, error) {
	places := make([]place, len(rooms))
	for i := range rooms {
		places[i] = place{rooms[i].Domains, min(rooms[i].Pods, pods)}
	}
	return e.choose(coreType, places, pods)
}

// chooseDistinct is chooseFewest in rounds, in each of which a node gets one pod at
// most. The lead is one that its node has already.
func (e *Engine) chooseDistinct(rooms []fluxion.Room, lead, pods int) ([]int, error) {
	counts := make([]int, len(rooms))
	for round := 1; pods > 0; round++ {
		var next []int
		open := false
		for i := range rooms {
			has := counts[i]
			if i == lead {
				has++
			}
			if counts[i] < rooms[i].Pods {
				open = true
				if has < round {
					next = append(next, i)
				}
			}
		}
		switch {
		case !open:
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
