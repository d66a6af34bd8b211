// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// places is what a pod says about where it can be.
type places struct {
	pod *corev1.Pod // with nothing else
	key string
}

// placesOf are the places that a pod can be at.
func placesOf(pod *corev1.Pod) *places {
	p := &places{pod: &corev1.Pod{}}
	to, from := &p.pod.Spec, &pod.Spec
	to.NodeSelector, to.Tolerations = from.NodeSelector, from.Tolerations
	if from.Affinity != nil && from.Affinity.NodeAffinity != nil {
		required := from.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		to.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	key, err := json.Marshal(&p.pod.Spec)
	if err == nil { // as it always is
		p.key = string(key)
	}
	return p
}

// maxExclusions is how many answers are kept: more than the kinds of pods there are.
const maxExclusions = 4096

// excluded are the nodes that a pod cannot use whoever holds them, by reason, in the
// terms of Graph. They are kept until nodes change.
func (c *Cluster) excluded(p *places) []fluxion.Exclusion {
	graph, err := c.Graph()
	if err != nil {
		return nil // there is nothing to exclude from
	}
	if known, ok := c.exclusions[p.key]; ok {
		return known
	}
	if len(c.exclusions) >= maxExclusions || c.exclusions == nil {
		c.exclusions = map[string][]fluxion.Exclusion{}
	}
	nodes := make([]*corev1.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		nodes = append(nodes, n.Node)
	}
	out := slices.Clip(graph.Exclusions(Excluded(p.pod, nodes)))
	c.exclusions[p.key] = out
	return out
}
