// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// held is what one MiniCluster has on a node: how many pods, and what they request together.
type held struct {
	pods  int
	takes fluxion.Resources
}

// holders are the MiniClusters on a node, by key.
type holders map[string]*held

func (h holders) add(key string, requests fluxion.Resources) {
	one := h[key]
	if one == nil {
		one = &held{takes: fluxion.Resources{}}
		h[key] = one
	}
	one.pods++
	for name, amount := range requests {
		one.takes[name] += amount
	}
}

// onNodes are the MiniClusters on each node.
type onNodes map[string]holders

func (n onNodes) add(node, key string, requests fluxion.Resources) {
	if n[node] == nil {
		n[node] = holders{}
	}
	n[node].add(key, requests)
}

// holdersOf are the MiniClusters on each node. A MiniCluster is on the nodes that it was given, and where
// its pods are bound that have not ended: whoever makes pods writes any node into their affinity.
func holdersOf(o *Objects) onNodes {
	nodes := onNodes{}
	promises := make(map[string]*state.Promise, len(o.MiniClusters))
	uids := make(map[string]types.UID, len(o.MiniClusters))
	for i := range o.MiniClusters {
		mc := &o.MiniClusters[i]
		key := keyOf(mc.Namespace, mc.Name)
		uids[key] = mc.UID
		promise, err := state.PromiseOf(mc)
		if err != nil || promise == nil {
			continue // of an unreadable status the pods show the nodes
		}
		promises[key] = promise
		for _, rank := range promise.Ranks() {
			nodes.add(promise.Nodes[rank], key, promise.Requests)
		}
	}
	for i := range o.Pods {
		pod := &o.Pods[i]
		key, node := keyOf(pod.Namespace, protocol.MiniClusterOf(pod)), pod.Spec.NodeName
		if uid, known := uids[key]; !known || pod.Labels[v1alpha2.UIDLabel] != string(uid) || node == "" || protocol.Ended(pod) {
			continue
		}
		if !isPromised(promises[key], pod, node) {
			nodes.add(node, key, state.Requests(pod))
		}
	}
	return nodes
}

// isPromised reports whether a pod is on the node that was promised to its rank, and so counts already.
func isPromised(promise *state.Promise, pod *corev1.Pod, node string) bool {
	rank, broker := protocol.Rank(pod)
	return promise != nil && broker && promise.Holds(rank) && promise.Nodes[rank] == node
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

func nodeOf(from *corev1.Node, o *Objects, held holders) Node {
	node := Node{Name: from.Name, Down: state.Down(from)}
	for _, level := range o.Levels {
		node.In = append(node.In, from.Labels[level.Label])
	}
	if i := slices.IndexFunc(from.Spec.Taints, func(taint corev1.Taint) bool { return state.Lasting(&taint) }); i >= 0 {
		node.Taint = from.Spec.Taints[i].Key
	}
	takes := fluxion.Resources{}
	for _, key := range slices.Sorted(maps.Keys(held)) {
		node.Holders = append(node.Holders, Holder{Of: key, Pods: held[key].pods})
		for name, amount := range held[key].takes {
			takes[name] += amount
		}
	}
	if len(held) > 0 {
		node.Part = partOf(takes, state.Amounts(from.Status.Allocatable))
	}
	return node
}

// partOf is the part of a node that is taken, in percent, of the resource of which least is left.
func partOf(takes, capacity fluxion.Resources) int {
	if takes[fluxion.WholeNode] > 0 {
		return 100
	}
	part := 1 // so that it is seen
	for name, amount := range takes {
		if capacity[name] > 0 {
			part = max(part, int(amount*100/capacity[name]))
		}
	}
	return min(part, 100)
}

// reserve marks the nodes of active reservations.
func reserve(nodes []Node, reservations []v1alpha2.MiniClusterReservation) {
	by := map[string]string{}
	for i := range reservations {
		r := &reservations[i]
		if r.Status.Phase != v1alpha2.ReservationActive {
			continue
		}
		names, _ := hostlist.Decode(r.Status.Nodes, len(nodes)) // unreadable: none
		for _, name := range names {
			by[name] = r.Name
		}
	}
	for i := range nodes {
		nodes[i].Reservation = by[nodes[i].Name]
		nodes[i].Reserved = nodes[i].Reservation != ""
	}
}

// reservationsOf are the reservations that are not over.
func reservationsOf(all []v1alpha2.MiniClusterReservation) []Reservation {
	var out []Reservation
	for i := range all {
		if r := &all[i]; r.Status.Phase != v1alpha2.ReservationOver {
			out = append(out, Reservation{
				Name: r.Name, Phase: string(cmp.Or(r.Status.Phase, v1alpha2.ReservationPending)), Queue: r.Spec.Queue,
				Size: r.Status.Size, Staying: r.Status.Staying, From: r.Spec.From.Unix(), Until: r.Spec.Until.Unix(),
			})
		}
	}
	return out
}
