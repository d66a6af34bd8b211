// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Node is a machine on which brokers run.
type Node struct {
	Name     string
	Capacity Resources
	// Down is the reason why nothing can be placed on the node for the time being ("not
	// ready", "cordoned"); "" if the node is up.
	Down string
	// Topology has the names of the node's domains, outermost first (zone, rack). A name
	// is missing or empty if the node is in no domain of that level. Domains of the same
	// name in two different outer domains are different.
	Topology []string
}

// nodes is a table of nodes: what each has, what is left of it, and whether it is up. A
// copy is cheap: it shares each page with its original until one of them changes it.
type nodes struct {
	*layout
	owner *owner
	pages []*page
}

// layout is the part of the table that all copies share: the nodes, their topology and their
// capacities. A change of a capacity makes another layout.
//
// Nodes are in the order of their topology and then of their names, so each domain of
// each level is a range of nodes. A page has nodes of one innermost domain only, so a
// domain is also a range of pages.
type layout struct {
	names []string
	index map[string]int32
	// resources are the names of the resources, sorted, and WholeNode is one of them. A slice
	// of amounts has one number for each of them.
	resources []string
	// models are the amounts of all different capacities, one capacity after the other.
	models []int64
	// empty are the pages as they are when all nodes are up and nothing is held.
	empty []*page
	// pageOf is the page of each node, and first is the first node of each page.
	pageOf, first []int32
	// levels are the levels of the topology, outermost first; there is at least one.
	levels []level
	// topology has the names of the domains of each page, by level.
	topology [][]string
}

// level is a level of the topology.
type level struct {
	name string
	// domain is the domain of each page. Pages in no domain of the level have a number
	// too, one for each domain of the level above; placed is false for them.
	domain []int32
	placed []bool
}

// model is the capacity of an index.
func (l *layout) model(m int32) []int64 {
	width := int32(len(l.resources))
	return l.models[m*width : (m+1)*width]
}

// levelOf is the index of a level; -1 if there is none of the name.
func (l *layout) levelOf(name string) int {
	return slices.IndexFunc(l.levels, func(level level) bool { return level.name == name })
}

// locate finds a node: its page, and its bit there.
func (l *layout) locate(node int32) (page int32, mask uint64) {
	page = l.pageOf[node]
	return page, bit(node - l.first[page])
}

// newNodes makes a table of nodes of which nothing is held.
func newNodes(specs []Node, levels []string) (nodes, error) {
	l := &layout{
		names: make([]string, len(specs)), index: make(map[string]int32, len(specs)), pageOf: make([]int32, len(specs)),
		resources: resourceNames(specs),
	}
	specs = slices.Clone(specs)
	if err := l.nameLevels(specs, levels); err != nil {
		return nodes{}, err
	}
	slices.SortFunc(specs, compareNodes)
	t := nodes{layout: l, owner: &owner{}}
	models := map[string]int32{}
	var capacity demand
	for i := range specs {
		spec := &specs[i]
		if _, twice := l.index[spec.Name]; twice {
			return nodes{}, fmt.Errorf("making a resource graph: two nodes are named %q", spec.Name)
		}
		l.names[i] = spec.Name
		l.index[spec.Name] = int32(i)
		if i == 0 {
			l.addPage(0, spec.Topology, nil)
		} else if before := specs[i-1].Topology; l.isFull(i) || !slices.Equal(spec.Topology, before) {
			l.addPage(i, spec.Topology, before)
		}
		page := len(l.empty) - 1
		l.pageOf[i] = int32(page)
		capacity.capacity(l.resources, spec.Capacity)
		model := l.addModel(models, capacity.amounts)
		l.empty[page].add(bit(int32(i)-l.first[page]), model, capacity.amounts)
	}
	t.pages = slices.Clone(l.empty)
	for i := range specs {
		if specs[i].Down != "" {
			t.setDown(int32(i), specs[i].Down)
		}
	}
	return t, nil
}

// compareNodes orders nodes by their topology, then by their names.
func compareNodes(a, b Node) int {
	for i := range a.Topology {
		if a.Topology[i] != b.Topology[i] {
			return hostlist.Compare(a.Topology[i], b.Topology[i])
		}
	}
	return hostlist.Compare(a.Name, b.Name)
}

func resourceNames(specs []Node) []string {
	names := map[string]bool{WholeNode: true}
	for i := range specs {
		for name := range specs[i].Capacity {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// nameLevels makes the levels of the topology. A level without a name is "level 1" and
// so on. Each node gets a name for every level, "" for a level in which it has no domain.
func (l *layout) nameLevels(specs []Node, names []string) error {
	depth := max(1, len(names))
	for i := range specs {
		depth = max(depth, len(specs[i].Topology))
	}
	for i := range depth {
		name := fmt.Sprintf("level %d", i+1)
		if i < len(names) {
			name = names[i]
		}
		if l.levelOf(name) >= 0 {
			return fmt.Errorf("making a resource graph: two levels are named %q", name)
		}
		l.levels = append(l.levels, level{name: name})
	}
	for i := range specs {
		topology := &specs[i].Topology
		*topology = append(slices.Clip(*topology), make([]string, depth-len(*topology))...)
	}
	return nil
}

// isFull reports whether the last page has no place for a node.
func (l *layout) isFull(i int) bool { return int32(i)-l.first[len(l.first)-1] == pageSize }

// addPage begins a page with a node. Before is the topology of the node before it; nil for
// the first node.
func (l *layout) addPage(i int, topology, before []string) {
	l.first = append(l.first, int32(i))
	l.empty = append(l.empty, &page{})
	l.topology = append(l.topology, topology)
	same := before != nil // whether all domains so far are those of the page before
	for j := range l.levels {
		level := &l.levels[j]
		same = same && topology[j] == before[j]
		domain := int32(0)
		if before != nil {
			domain = level.domain[len(level.domain)-1]
			if !same {
				domain++
			}
		}
		level.domain = append(level.domain, domain)
		level.placed = append(level.placed, topology[j] != "")
	}
}

// addModel is the index of a capacity, new or known.
func (l *layout) addModel(known map[string]int32, capacity []int64) int32 {
	var key [256]byte
	text := key[:0]
	for _, amount := range capacity {
		text = binary.AppendVarint(text, amount)
	}
	model, ok := known[string(text)]
	if !ok {
		model = int32(len(known))
		known[string(text)] = model
		l.models = append(l.models, capacity...)
	}
	return model
}

// capacity compiles the capacity of a node, whose amounts may be below zero.
func (d *demand) capacity(resources []string, capacity Resources) {
	d.amounts = d.amounts[:0]
	for _, name := range resources {
		amount := min(max(capacity[name], -MaxAmount), MaxAmount)
		if name == WholeNode {
			amount = allShares
		}
		d.amounts = append(d.amounts, amount)
	}
}

// add puts a node on a new page.
func (p *page) add(node uint64, model int32, free []int64) {
	for i := range p.classes {
		if p.classes[i].model == model {
			p.classes[i].nodes |= node
			return
		}
	}
	p.classes = append(p.classes, class{nodes: node, model: model})
	p.free = append(p.free, free...)
}

// copy is a table that is the same now and changes independently.
func (t *nodes) copy() nodes {
	t.owner = &owner{} // from now on neither table owns the pages
	return nodes{layout: t.layout, owner: &owner{}, pages: slices.Clone(t.pages)}
}

// writable is a page that may be changed.
func (t *nodes) writable(i int32) *page {
	if t.pages[i].owner != t.owner {
		t.pages[i] = t.pages[i].clone(t.owner)
	}
	return t.pages[i]
}

// left is what is left of a node. The caller must not change it, and must read it before
// the table changes.
func (t *nodes) left(node int32) []int64 {
	i, mask := t.locate(node)
	return t.pages[i].left(t.pages[i].of(mask))
}

// down is the reason why nothing can be placed on a node; "" if the node is up.
func (t *nodes) down(node int32) string {
	i, mask := t.locate(node)
	return t.pages[i].classes[t.pages[i].of(mask)].down
}

// take takes amounts of each of the nodes, once for each time that the node is named.
// What is left may become less than nothing.
func (t *nodes) take(nodes []int32, amounts []int64) { t.change(nodes, amounts, -1) }

// give gives back what was taken.
func (t *nodes) give(nodes []int32, amounts []int64) { t.change(nodes, amounts, 1) }

// change adds n times the amounts to what is left of the nodes, of a whole page at a
// time if possible. Indexes below zero are no nodes.
func (t *nodes) change(nodes []int32, amounts []int64, n int64) {
	page, mask := int32(0), uint64(0)
	for _, node := range nodes {
		if node < 0 {
			continue
		}
		at, bit := t.locate(node)
		if mask != 0 && (at != page || mask&bit != 0) {
			t.writable(page).change(mask, amounts, n)
			mask = 0
		}
		page, mask = at, mask|bit
	}
	if mask != 0 {
		t.writable(page).change(mask, amounts, n)
	}
}

// setCapacity gives a node another capacity, unless there are too many capacities.
func (t *nodes) setCapacity(node int32, capacity []int64) bool {
	own := *t.layout // copies of the table keep theirs
	model, ok := own.modelOf(capacity)
	if !ok {
		return false
	}
	i, mask := t.locate(node)
	empty := own.empty[i].clone(nil)
	before := slices.Clone(empty.left(empty.of(mask)))
	set := func(p *page) {
		p.alter(mask, func(c int) {
			p.classes[c].model = model
			left := p.left(c)
			for r := range left {
				left[r] += capacity[r] - before[r]
			}
		})
	}
	set(empty)
	own.empty = slices.Clone(own.empty)
	own.empty[i] = empty
	t.layout = &own
	set(t.writable(i))
	return true
}

// modelOf is the index of a capacity, new or known. ok is false if there would be more than two
// capacities for each node.
func (l *layout) modelOf(capacity []int64) (model int32, ok bool) {
	width := len(l.resources)
	count := 0
	if width > 0 {
		count = len(l.models) / width
	}
	for m := range count {
		if slices.Equal(l.model(int32(m)), capacity) {
			return int32(m), true
		}
	}
	if count >= 2*len(l.names) {
		return 0, false
	}
	l.models = append(slices.Clip(l.models), capacity...)
	return int32(count), true
}

// setDown gives the reason why nothing can be placed on a node; "" brings the node up.
func (t *nodes) setDown(node int32, why string) {
	i, mask := t.locate(node)
	t.writable(i).setDown(mask, why)
}
