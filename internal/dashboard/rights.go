// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"slices"
)

// Rights are what a viewer may see.
type Rights struct {
	// User is the viewer's name.
	User string
	// Nodes, Queues and Reservations: the viewer may list these objects.
	Nodes, Queues, Reservations bool
	// All: the viewer may list the MiniClusters of all namespaces. Otherwise Namespaces are those whose
	// MiniClusters the viewer may list.
	All        bool
	Namespaces map[string]bool
}

// sees reports whether the viewer may see the MiniClusters of a namespace.
func (r *Rights) sees(namespace string) bool { return r.All || r.Namespaces[namespace] }

// For returns what a viewer may see of the view. A MiniCluster of another namespace has no name: on the map, a
// node is in use.
func (v *View) For(r *Rights) *View {
	viewer := Viewer{Name: r.User, Nodes: r.Nodes, Queues: r.Queues, Reservations: r.Reservations, All: r.All, Levels: v.Viewer[0].Levels}
	for namespace := range v.Namespaces() {
		if r.sees(namespace) {
			viewer.Namespaces++
		}
	}
	out := &View{Viewer: []Viewer{viewer}}
	if r.All {
		out.MiniClusters = v.MiniClusters
	} else {
		hidden := func(mc MiniCluster) bool { return !r.sees(mc.Namespace) }
		out.MiniClusters = slices.DeleteFunc(slices.Clone(v.MiniClusters), hidden)
	}
	if r.Nodes {
		out.Nodes = r.nodes(v.Nodes)
	}
	if r.Reservations {
		out.Reservations = v.Reservations
	}
	switch {
	case !r.Queues:
		out.Queues = countedQueues(out.MiniClusters)
	case r.All:
		out.Queues, out.Samples = v.Queues, v.Samples
	default:
		out.Queues, out.Samples = withNamed(v.Queues, out.MiniClusters), v.Samples
	}
	return out
}

// nodes returns nodes with the names that the viewer may see.
func (r *Rights) nodes(all []Node) []Node {
	if r.All && r.Reservations {
		return all
	}
	out := slices.Clone(all)
	for i := range out {
		if !r.Reservations {
			out[i].Reservation = ""
		}
		if !r.All {
			out[i].Holders = r.holders(out[i].Holders)
		}
	}
	return out
}

// holders returns the holders of a node, with one for all those that the viewer may not see.
func (r *Rights) holders(all []Holder) []Holder {
	var out []Holder
	hidden := Holder{}
	for _, holder := range all {
		if r.sees(namespaceOf(holder.Of)) {
			out = append(out, holder)
		} else {
			hidden.Pods += holder.Pods
		}
	}
	if hidden.Pods > 0 {
		out = append(out, hidden)
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Compare(a.Of, b.Of) })
	return out
}
