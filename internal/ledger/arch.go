// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// The brokers of a gang have one image, and MPI wants the same layout of data everywhere. So a gang has nodes of one
// architecture, unless its pods name several. A node without the label may be of any.

func (n *node) arch() string { return n.Labels[corev1.LabelArchStable] }

// isForeignOS reports whether a node runs another operating system than Linux, for which all pods of the project are.
func isForeignOS(n *node) bool {
	system := n.Labels[corev1.LabelOSStable]
	return system != "" && system != string(corev1.Linux)
}

// architectures are those of the nodes that brokers may use, the one with the most nodes first.
func (l *layout) architectures() []string {
	if l.archs == nil {
		count := map[string]int{}
		for _, n := range l.nodes {
			if n.arch() != "" && !n.others && !isForeignOS(n) {
				count[n.arch()]++
			}
		}
		l.archs = slices.AppendSeq([]string{}, maps.Keys(count)) // not nil
		slices.SortFunc(l.archs, func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	}
	return l.archs
}

// needsOneArch reports whether it matters to a gang which architectures the nodes have.
func (l *layout) needsOneArch(ask *state.Ask) bool {
	return (ask.Arch != "" || len(l.architectures()) > 1) && !ask.Places.NamesArch && ask.Domains == nil
}

// archsFor are the architectures of which a gang may get one, the best one first; none if that does not matter. A gang that
// runs keeps its architecture, and one that waits gets that of its queue, if the queue has one. An architecture is avoided if
// the gang avoids as many of its nodes as the gang needs: the image did not start there.
func (l *layout) archsFor(graph *fluxion.Graph, ask *state.Ask) (archs, avoided []string) {
	if !l.needsOneArch(ask) {
		return nil, nil
	}
	if ask.Arch != "" {
		return []string{ask.Arch}, nil
	}
	for _, pod := range graph.Pods(ask.Job) {
		if n := l.nodes[pod.Node]; n != nil && n.arch() != "" {
			return []string{n.arch()}, nil
		}
	}
	avoids := map[string]int{}
	for _, name := range ask.Avoid {
		if n := l.nodes[name]; n != nil {
			avoids[n.arch()]++
		}
	}
	for _, arch := range l.architectures() {
		if avoids[arch] >= max(ask.Least, 1) {
			avoided = append(avoided, arch)
		} else {
			archs = append(archs, arch)
		}
	}
	return archs, avoided
}

// ofArch is a gang without the nodes of other architectures.
func (l *layout) ofArch(graph *fluxion.Graph, gang fluxion.Gang, arch string) fluxion.Gang {
	gang.Pods.Infeasible = slices.Concat(gang.Pods.Infeasible, l.cached(graph, "architecture "+arch, func(yield func(node, reason string) bool) {
		for name, n := range l.nodes {
			if n.arch() != "" && n.arch() != arch && !yield(name, "of another architecture than "+arch) {
				return
			}
		}
	}))
	return gang
}

// ofOneArch is a gang in the first architecture where it fits now at its smallest size, or else could fit. It waits for an
// architecture rather than that it gets one that it avoids.
func (l *layout) ofOneArch(graph *fluxion.Graph, gang fluxion.Gang, ask *state.Ask) fluxion.Gang {
	archs, avoided := l.archsFor(graph, ask)
	for _, some := range [][]string{archs, avoided} {
		for _, arch := range some {
			if of := l.ofArch(graph, gang, arch); graph.Fits(of) >= ask.Least {
				return of
			}
		}
		for _, arch := range some {
			if of := l.ofArch(graph, gang, arch); couldHold(graph, of, []int{ask.Least}) {
				return of
			}
		}
	}
	if all := slices.Concat(archs, avoided); len(all) > 0 {
		return l.ofArch(graph, gang, all[0])
	}
	return gang
}

// couldHoldInOne reports whether some architecture could hold a gang at one of some sizes if nothing was held.
func (l *layout) couldHoldInOne(graph *fluxion.Graph, gang fluxion.Gang, ask *state.Ask, sizes []int) bool {
	archs, avoided := l.archsFor(graph, ask)
	archs = slices.Concat(archs, avoided)
	return len(archs) == 0 && couldHold(graph, gang, sizes) ||
		slices.ContainsFunc(archs, func(arch string) bool { return couldHold(graph, l.ofArch(graph, gang, arch), sizes) })
}

func couldHold(graph *fluxion.Graph, gang fluxion.Gang, sizes []int) bool {
	gang.Sizes = sizes
	return graph.CouldHold(gang) == nil
}

// archClass is what distinguishes the class of a gang to which the architecture of its nodes matters.
func (l *Ledger) archClass(ask *state.Ask) string {
	if !l.needsOneArch(ask) {
		return ""
	}
	arch := ask.Arch
	if a := l.accounts[types.UID(ask.Job)]; a != nil && a.promise != nil {
		for _, name := range a.promise.Nodes {
			if n := l.nodes[name]; n != nil {
				arch = cmp.Or(arch, n.arch())
			}
		}
	}
	return fmt.Sprintf(" %s %d", arch, ask.Least)
}
