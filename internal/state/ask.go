// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Ask is what a MiniCluster requests of the cluster. It depends on the MiniCluster, its pod and the
// volumes of the pod, not on the nodes.
type Ask struct {
	// Gang is the request without its sizes and without the nodes that its pods cannot use.
	fluxion.Gang
	// Places says which nodes the pods can use.
	Places Places
	// Reach says which nodes can reach the volumes of the pods. Request leaves it empty.
	Reach Reach
	// Domains are where Kueue counts the pods; nil if that may be anywhere.
	Domains *Domains
	// Avoid are nodes that are avoided until AvoidUntil, as long as the other nodes could hold
	// the gang at its smallest size.
	Avoid      []string
	AvoidUntil time.Time
	Least      int
}

// Places is what a pod says about the nodes that it can use.
type Places struct {
	// Pod has just those fields. Key is the same for pods with the same fields.
	Pod *corev1.Pod
	Key string
}

// At is the request at a time: after AvoidUntil no node is avoided.
func (a Ask) At(now time.Time) Ask {
	if !now.Before(a.AvoidUntil) {
		a.Avoid, a.AvoidUntil = nil, time.Time{}
	}
	return a
}

// Request is what the MiniCluster, with its defaults, requests of a cluster with these topology
// levels. pod is one of its pods after admission by the API server, and quota is that of Kueue, or nil.
// Where Kueue has assigned domains, no other topology counts.
func Request(mc *v1alpha2.MiniCluster, pod *corev1.Pod, quota *v1alpha2.Quota, levels []TopologyLevel) Ask {
	ask := Ask{
		Gang: fluxion.Gang{
			Job:      string(mc.UID),
			Pods:     fluxion.Shape{Requests: Requests(pod)},
			Distinct: !mc.Spec.Network.DisableAffinity,
			Topology: topology(mc, levels),
			Policy:   placementPolicy(mc),
		},
		Places: placesOf(pod),
		Least:  int(mc.Spec.LeastSize()),
	}
	if quota != nil && quota.Topology != nil {
		ask.Domains, ask.Topology = domainsOf(quota.Topology), fluxion.Topology{}
	}
	if avoid := mc.Status.Avoid; avoid != nil {
		ask.Avoid, ask.AvoidUntil = avoided(avoid), avoid.Until.Time
	}
	return ask
}

// avoided are the nodes to avoid; none if the field cannot be read.
func avoided(avoid *v1alpha2.Avoid) []string {
	nodes, _ := hostlist.Decode(avoid.Nodes, v1alpha2.MostAvoided)
	return nodes
}

// placesOf returns the fields of a pod that choose nodes.
func placesOf(pod *corev1.Pod) Places {
	p := Places{Pod: &corev1.Pod{}}
	to, from := &p.Pod.Spec, &pod.Spec
	to.NodeSelector, to.Tolerations = from.NodeSelector, from.Tolerations
	if from.Affinity != nil && from.Affinity.NodeAffinity != nil {
		required := from.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		to.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	key, err := json.Marshal(&p.Pod.Spec)
	if err == nil { // it always is
		p.Key = string(key)
	}
	return p
}

func placementPolicy(mc *v1alpha2.MiniCluster) fluxion.Policy {
	if mc.Spec.Placement.Policy == v1alpha2.PlacementSpread {
		return fluxion.Spread
	}
	return fluxion.Pack
}
