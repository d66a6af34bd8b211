// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// repelling is a term of the required anti-affinity of pods of others, with the number of such pods on each node.
type repelling struct {
	*state.Repulsion
	id int
	on map[string]int
}

// repulsions are the terms of the anti-affinity of pods of others.
type repulsions struct {
	// terms are by the namespace whose pods they select, "" for those that may select pods of others, and by key.
	terms map[string]map[string]*repelling
	// from is how many terms the pods of a namespace have, and last the number of the last term.
	from map[string]int
	last int
}

// These bound the terms that are kept: those of the pods of a namespace, and those that may select pods of other namespaces.
// state.Overlooked stands for further terms.
const (
	maxRepelling            = 1024
	maxRepellingOfNamespace = 64
)

func newRepulsions() *repulsions {
	return &repulsions{terms: map[string]map[string]*repelling{}, from: map[string]int{}}
}

// add counts the terms of a pod, and leaves the pod with the terms that are counted.
func (s *repulsions) add(p *Pod) {
	for i, term := range p.repels {
		r := s.of(term)
		r.on[p.node]++
		p.repels[i] = r.Repulsion // many pods share one
	}
}

// of is the count of a term, or of those that are overlooked if there are too many.
func (s *repulsions) of(term *state.Repulsion) *repelling {
	among := s.terms[term.Within()]
	if r := among[term.Key]; r != nil {
		return r
	}
	if term.Key != "" {
		if s.from[term.From] >= maxRepellingOfNamespace || term.Within() == "" && len(among) >= maxRepelling {
			return s.of(state.Overlooked(term.Within()))
		}
		s.from[term.From]++
	}
	if among == nil {
		among = map[string]*repelling{}
		s.terms[term.Within()] = among
	}
	s.last++
	among[term.Key] = &repelling{Repulsion: term, id: s.last, on: map[string]int{}}
	return among[term.Key]
}

// overlooks reports whether terms do not count that may select pods of a namespace.
func (s *repulsions) overlooks(namespace string) bool {
	return s.terms[""][""] != nil || s.terms[namespace][""] != nil
}

// isSameTerm reports whether a term counts as before. There may be room now for a term that was overlooked.
func isSameTerm(a, b *state.Repulsion) bool { return a.Key == b.Key }

// remove no longer counts the terms of a pod that was added.
func (s *repulsions) remove(p *Pod) {
	for _, term := range p.repels {
		among := s.terms[term.Within()]
		r := among[term.Key]
		if r.on[p.node]--; r.on[p.node] == 0 {
			delete(r.on, p.node)
		}
		if len(r.on) > 0 {
			continue
		}
		if delete(among, term.Key); len(among) == 0 {
			delete(s.terms, term.Within())
		}
		if term.Key == "" {
			continue
		}
		if s.from[term.From]--; s.from[term.From] == 0 {
			delete(s.from, term.From)
		}
	}
}

// Overlooks reports whether only kube-scheduler knows all nodes that pods of others keep free from the pods of a namespace.
func (l *layout) Overlooks(namespace string) bool { return l.repels.overlooks(namespace) }

// repellingOf are the terms that select the pods of a gang.
func (l *layout) repellingOf(ask *state.Ask) []*repelling {
	var out []*repelling
	for _, among := range []map[string]*repelling{l.repels.terms[""], l.repels.terms[ask.Namespace]} {
		for _, r := range among {
			if r.Repels(ask.Namespace, l.NamespaceLabels, ask.Labels) {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b *repelling) int { return cmp.Compare(a.id, b.id) })
	return out
}

// repelled are the nodes that pods of others keep from a gang by their anti-affinity, in the terms of the graph.
func (l *layout) repelled(graph *fluxion.Graph, ask *state.Ask) []fluxion.Exclusion {
	terms := l.repellingOf(ask)
	if len(terms) == 0 {
		return nil
	}
	out := fluxion.Exclusion{Reason: "kept free by pods with anti-affinity"}
	set := func(name string) {
		if node, ok := graph.Index(name); ok {
			out.Nodes.Set(node)
		}
	}
	domains := map[string]map[string]bool{} // by topology key
	for _, term := range terms {
		for name := range term.on {
			n := l.nodes[name]
			switch {
			case term.TopologyKey == corev1.LabelHostname:
				set(name)
			case n != nil && n.Labels[term.TopologyKey] != "":
				if domains[term.TopologyKey] == nil {
					domains[term.TopologyKey] = map[string]bool{}
				}
				domains[term.TopologyKey][n.Labels[term.TopologyKey]] = true
			}
		}
	}
	for key, values := range domains {
		for name, n := range l.nodes {
			if values[n.Labels[key]] {
				set(name)
			}
		}
	}
	return []fluxion.Exclusion{out}
}

// Class is what distinguishes the class of a gang (queue.Gang.Class) by the nodes: their architectures, the reservations
// that keep some from it, and the pods of others that do.
func (l *Ledger) Class(ask *state.Ask) string {
	class := l.archClass(ask)
	if barred := l.Barred(*ask); barred != "" {
		class += " without " + barred
	}
	terms := l.repellingOf(ask)
	if len(terms) == 0 {
		return class
	}
	ids := fnv.New64a()
	for _, term := range terms {
		_, _ = fmt.Fprintln(ids, term.id) // a hash never fails
	}
	return class + fmt.Sprintf(" repelled %x", ids.Sum64())
}
