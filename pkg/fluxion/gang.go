// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Policy says which of the nodes that would do are taken.
type Policy int

const (
	// Spread puts the brokers of a gang on as many nodes as it can.
	Spread Policy = iota
	// Pack puts them on as few nodes as it can.
	Pack
)

// Gang is a request for brokers that start together.
type Gang struct {
	// Requests are what one broker takes.
	Requests Resources
	// Sizes are the numbers of brokers that it may start with.
	Sizes []int
	// Excluded are nodes that it cannot use, each with the reason.
	Excluded map[string]string
	Policy   Policy
}

// MatchGang finds nodes for the largest allowed size that fits now: all of it or
// nothing. It changes nothing; what is taken has to be occupied.
//
// The nodes are in the order of ranks, which is the order of the graph, so that
// neighbours in rank are neighbours. Of the nodes that would do, those with the
// least room are taken first: the empty ones are left to others. Where there is
// no room, it says why.
func (g *Graph) MatchGang(gang Gang) ([]string, *Refusal) {
	room := g.room(gang, func(v *vertex) Resources { return v.free }, true)
	total := sum(room)
	size := 0
	for _, allowed := range gang.Sizes {
		if allowed <= total {
			size = max(size, allowed)
		}
	}
	if size == 0 {
		return nil, g.refuse(gang, total)
	}
	counts := take(room, size, gang.Policy)
	nodes := make([]string, 0, size)
	for i, n := range counts {
		for range n {
			nodes = append(nodes, g.nodes[i].Name)
		}
	}
	return nodes, nil
}

// CouldHold reports whether the gang would fit the graph if nobody else held any
// of it and every node were up. If not, it says why.
func (g *Graph) CouldHold(gang Gang) *Refusal {
	if g.capacity(gang) >= slices.Min(gang.Sizes) {
		return nil
	}
	return g.refuse(gang, 0)
}

func (g *Graph) capacity(gang Gang) int {
	return sum(g.room(gang, func(v *vertex) Resources { return v.Capacity }, false))
}

// room is how many brokers each node could take of what `left` says is left.
func (g *Graph) room(gang Gang, left func(*vertex) Resources, upOnly bool) []int {
	room := make([]int, len(g.nodes))
	for i := range g.nodes {
		v := &g.nodes[i]
		if _, excluded := gang.Excluded[v.Name]; excluded || (upOnly && v.Down != "") {
			continue
		}
		room[i] = left(v).holds(gang.Requests)
	}
	return room
}

// take chooses how many of `size` brokers each node gets. room holds at least
// that many.
func take(room []int, size int, policy Policy) []int {
	order := make([]int, 0, len(room))
	for i, n := range room {
		if n > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(room[a], room[b]) })
	counts := make([]int, len(room))
	if policy == Pack {
		// Fewest nodes: the roomiest ones, but the last of them the tightest that
		// takes what is left.
		for left := size; left > 0; {
			i, _ := slices.BinarySearchFunc(order, left, func(node, n int) int { return cmp.Compare(room[node], n) })
			i = min(i, len(order)-1)
			node := order[i]
			order = slices.Delete(order, i, i+1)
			counts[node] = min(room[node], left)
			left -= counts[node]
		}
		return counts
	}
	for left := size; left > 0; {
		for _, node := range order {
			if left > 0 && counts[node] < room[node] {
				counts[node]++
				left--
			}
		}
	}
	return counts
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// Refusal says why a gang does not fit.
type Refusal struct {
	// Never is true where it would not fit even if nobody else held anything.
	Never bool
	// Least is the smallest size that would do, Fits the number of brokers that
	// would fit now, Capacity the number that the empty graph could hold.
	Least, Fits, Capacity int
	// Requests are what one broker takes.
	Requests Resources
	// Nodes is the number of nodes there are.
	Nodes int
	// Reasons tell of the nodes that cannot take one more broker why not, or, where
	// it would never fit, of those that never can; the reason of most nodes first.
	Reasons []Reason
}

// Reason is why some nodes cannot take a broker.
type Reason struct {
	Text  string
	Nodes int
}

func (g *Graph) refuse(gang Gang, fits int) *Refusal {
	r := &Refusal{
		Least: slices.Min(gang.Sizes), Fits: fits, Capacity: g.capacity(gang),
		Requests: gang.Requests, Nodes: len(g.nodes),
	}
	r.Never = r.Capacity < r.Least
	counts := map[string]int{}
	for i := range g.nodes {
		text := g.nodes[i].lastingReason(gang)
		if text == "" && !r.Never {
			text = g.nodes[i].passingReason(gang)
		}
		if text != "" {
			counts[text]++
		}
	}
	for text, n := range counts {
		r.Reasons = append(r.Reasons, Reason{text, n})
	}
	slices.SortFunc(r.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Text, b.Text))
	})
	return r
}

// lastingReason is why the node cannot take a broker of the gang, whoever else is
// there; "" if it can.
func (v *vertex) lastingReason(gang Gang) string {
	if text, excluded := gang.Excluded[v.Name]; excluded {
		return text
	}
	if name := v.Capacity.lacking(gang.Requests); name != "" {
		return "too little " + name
	}
	return ""
}

// passingReason is why it cannot take one now.
func (v *vertex) passingReason(gang Gang) string {
	if v.Down != "" {
		return v.Down
	}
	if v.free.lacking(gang.Requests) != "" {
		return "in use"
	}
	return ""
}

// String says it in one sentence.
func (r *Refusal) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "needs room for %s", plural(r.Least, "broker"))
	if requests := r.Requests.String(); requests != "" {
		fmt.Fprintf(&out, " of %s each", requests)
	}
	switch {
	case r.Never:
		fmt.Fprintf(&out, "; the whole cluster of %s has room for %d", plural(r.Nodes, "node"), r.Capacity)
	case r.Fits == 0:
		fmt.Fprintf(&out, "; none of %s has room now", plural(r.Nodes, "node"))
	default:
		free, verb := r.Nodes-r.refusing(), "have"
		if free == 1 {
			verb = "has"
		}
		fmt.Fprintf(&out, "; %d of %s %s room now for %d", free, plural(r.Nodes, "node"), verb, r.Fits)
	}
	for i, reason := range r.Reasons {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&out, "%s%d %s", separator, reason.Nodes, reason.Text)
	}
	return out.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (r *Refusal) refusing() int {
	total := 0
	for _, reason := range r.Reasons {
		total += reason.Nodes
	}
	return total
}
