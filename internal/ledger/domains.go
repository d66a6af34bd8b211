// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// domains are the domains of a gang on a graph (state.Domains), in the order of the graph.
type domains struct {
	// of is the domain of each node; -1 for a node that is in none.
	of []int
	// nodes are those of each domain, and most is the number of pods that it takes at most.
	nodes [][]int
	most  []int
	// outside are the nodes that are in no domain.
	outside fluxion.Exclusion
}

// domainsOf are the domains of a gang in the terms of the graph; nil if it has none. They are cached
// until nodes change.
func (l *layout) domainsOf(graph *fluxion.Graph, asked *state.Domains) *domains {
	if asked == nil {
		return nil
	}
	if known := l.domains[asked.Key]; known != nil {
		return known
	}
	if len(l.domains) >= maxExclusions || l.domains == nil {
		l.domains = map[string]*domains{}
	}
	d := &domains{of: make([]int, graph.Len())}
	index := map[string]int{}
	for node := range d.of {
		d.of[node] = -1
		name, most := asked.Of(l.nodes[graph.Name(node)].Labels)
		if most == 0 {
			continue
		}
		i, known := index[name]
		if !known {
			i = len(d.most)
			index[name], d.most, d.nodes = i, append(d.most, most), append(d.nodes, nil)
		}
		d.of[node], d.nodes[i] = i, append(d.nodes[i], node)
	}
	d.outside = d.allBut("not where Kueue counts the brokers", func(domain int) bool { return domain >= 0 })
	l.domains[asked.Key] = d
	return d
}

// allBut are the nodes of other domains than some.
func (d *domains) allBut(reason string, some func(domain int) bool) fluxion.Exclusion {
	out := fluxion.Exclusion{Reason: reason}
	for node, domain := range d.of {
		if !some(domain) {
			out.Nodes.Set(node)
		}
	}
	return out
}

// in is a gang whose pods are in one domain.
func (d *domains) in(domain int, gang fluxion.Gang) fluxion.Gang {
	others := d.allBut("in another domain", func(other int) bool { return other == domain })
	gang.Pods.Infeasible = append(slices.Clip(gang.Pods.Infeasible), others)
	return gang
}

// room is the number of pods of a gang that each domain can take now.
func (d *domains) room(graph *fluxion.Graph, gang fluxion.Gang) []int {
	room := make([]int, len(d.most))
	for _, r := range graph.Rooms(gang) {
		if i := d.of[r.Node]; i >= 0 {
			room[i] = min(room[i]+r.Pods, d.most[i])
		}
	}
	return room
}

// place finds nodes for the largest size that fits; nil if none does. A gang that is smaller than the
// domains allow gets the fewest of them. Ranks follow the order of the graph.
func (d *domains) place(graph *fluxion.Graph, gang fluxion.Gang) []string {
	room := d.room(graph, gang)
	size := 0
	for _, allowed := range gang.Sizes {
		if allowed <= sum(room) {
			size = max(size, allowed)
		}
	}
	left, get := size, make([]int, len(room))
	for _, i := range byRoom(room) {
		get[i] = min(room[i], left)
		left -= get[i]
	}
	var nodes []string
	for i, n := range get {
		switch {
		case n == 0:
		case len(d.nodes[i]) == 1:
			nodes = append(nodes, slices.Repeat([]string{graph.Name(d.nodes[i][0])}, n)...)
		default:
			part := d.in(i, gang)
			part.Sizes = []int{n}
			placement, refusal := graph.MatchGang(part)
			if refusal != nil {
				return nil
			}
			nodes = append(nodes, placement.Nodes...)
		}
	}
	return nodes
}

// byRoom are the indexes of domains, the roomiest first.
func byRoom(room []int) []int {
	order := make([]int, len(room))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(room[b], room[a]) })
	return order
}

// grow gives a job up to n more pods in its domains.
func (d *domains) grow(graph *fluxion.Graph, gang fluxion.Gang, n int) []elastic.Pod {
	left := slices.Clone(d.most)
	for _, pod := range graph.Pods(gang.Job) {
		if node, ok := graph.Index(pod.Node); ok && d.of[node] >= 0 {
			left[d.of[node]]--
		}
	}
	var out []elastic.Pod
	for i := range left {
		if left[i] <= 0 || len(out) == n || graph.Respecify(gang.Job, d.in(i, gang)) != nil {
			continue
		}
		pods, _, err := graph.Grow(gang.Job, min(left[i], n-len(out)))
		if err != nil {
			return out
		}
		for _, pod := range pods {
			out = append(out, elastic.Pod(pod))
		}
	}
	return out
}

// why says that the domains have too little room for a gang; "" if they have enough.
func (d *domains) why(graph *fluxion.Graph, gang fluxion.Gang) string {
	room, least := sum(d.room(graph, gang)), slices.Min(gang.Sizes)
	if room >= least {
		return ""
	}
	return fmt.Sprintf("needs room for %d brokers where Kueue counts them; there is room for %d now", least, room)
}

func sum(numbers []int) int {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return sum
}
