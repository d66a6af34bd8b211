// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Shape is a kind of nodes that could come.
type Shape struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Open are the labels that have one of several values. Labels that clouds set may have any value.
	Open []corev1.NodeSelectorRequirement
	// Any is true if the nodes may have any labels.
	Any bool
	// Capacity is what a node has for brokers; nil if it is as large as one broker.
	Capacity fluxion.Resources
	// Most is how many such nodes there can be in all; 0 if there is no limit. Left is what further ones may have
	// together; a resource that is not named has no limit.
	Most int
	Left fluxion.Resources
}

// Shapes are the kinds of nodes that could come for a queue: those that the queue lists, or else those of node pools, or
// else any.
func Shapes(q *v1alpha2.MiniClusterQueue, pools []Shape) []Shape {
	var shapes []Shape
	for i := range q.Spec.ScaleUp.Shapes {
		from := &q.Spec.ScaleUp.Shapes[i]
		shape := Shape{Name: from.Name, Labels: from.Labels, Most: int(from.MaxNodes)}
		for _, taint := range from.Taints {
			shape.Taints = append(shape.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
		if len(from.Capacity) > 0 {
			shape.Capacity = Amounts(from.Capacity)
			if shape.Capacity[fluxion.Pods] == 0 {
				shape.Capacity[fluxion.Pods] = usualPods
			}
		}
		shapes = append(shapes, shape)
	}
	switch {
	case len(shapes) > 0:
		return shapes
	case len(pools) > 0:
		return pools
	}
	return []Shape{{Name: "any", Any: true}}
}

// usualPods is the kubelet's default for the pods of a node.
const usualPods = 110

// Sized are shapes whose nodes have a capacity. Nodes that are as large as one broker come in the sizes of given requests.
func Sized(shapes []Shape, requests []fluxion.Resources) []Shape {
	var sized []Shape
	for _, shape := range shapes {
		if shape.Capacity != nil {
			sized = append(sized, shape)
			continue
		}
		for _, request := range requests {
			of := shape
			of.Capacity = maps.Clone(request)
			of.Capacity[fluxion.Pods] = 1
			delete(of.Capacity, fluxion.WholeNode)
			sized = append(sized, of)
		}
	}
	return sized
}

// MostMore is how many more nodes of a shape with a capacity there can be if there are some.
func (s *Shape) MostMore(there int) int {
	most := int64(queue.MaxAmount)
	if s.Most > 0 {
		most = int64(max(s.Most-there, 0))
	}
	for name, left := range s.Left {
		if amount := s.Capacity[name]; amount > 0 {
			most = min(most, max(left, 0)/amount)
		}
	}
	return int(min(most, 1<<30))
}

// IsA reports whether a node has the labels of a shape.
func (s *Shape) IsA(node *corev1.Node) bool {
	for name, value := range s.Labels {
		if is, has := node.Labels[name]; !has || is != value {
			return false
		}
	}
	return true
}

// mayHave reports whether nodes of a shape may have a label that the shape does not name: one that Kubernetes, a cloud or
// Karpenter sets, but none that only one node has.
func (s *Shape) mayHave(label string) bool {
	domain, _, prefixed := strings.Cut(label, "/")
	switch {
	case label == corev1.LabelHostname:
		return false
	case s.Any:
		return true
	case !prefixed:
		return false
	}
	if strings.HasPrefix(domain, "karpenter.") {
		return true
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "google.com", "amazonaws.com", "azure.com"}, func(owner string) bool {
		return domain == owner || strings.HasSuffix(domain, "."+owner)
	})
}

// Domain is the domain of the nodes of a shape on a level of the topology. If the shape leaves that open, they can all be
// in one, and are in none of other nodes.
func (s *Shape) Domain(level TopologyLevel) string {
	if value := s.Labels[level.Label]; value != "" || !s.mayHave(level.Label) {
		return value
	}
	return "(" + s.Name + ")"
}

// Admits reports whether a node of the shape can have the labels that a pod selects.
func (s *Shape) Admits(pod *corev1.Pod) bool {
	var selected []corev1.NodeSelectorRequirement
	for _, name := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		selected = append(selected, corev1.NodeSelectorRequirement{Key: name, Operator: corev1.NodeSelectorOpIn, Values: []string{pod.Spec.NodeSelector[name]}})
	}
	terms := []corev1.NodeSelectorTerm{{}}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			terms = required.NodeSelectorTerms
		}
	}
	return s.admits(selected, terms)
}

// Reaches reports whether a node of the shape can have the labels that a selector selects.
func (s *Shape) Reaches(selector *corev1.NodeSelector) bool {
	return selector == nil || s.admits(nil, selector.NodeSelectorTerms)
}

// admits reports whether a node of the shape can have the labels of some requirements and of one of some terms.
func (s *Shape) admits(selected []corev1.NodeSelectorRequirement, terms []corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchFields) == 0 && s.has(slices.Concat(selected, term.MatchExpressions))
	})
}

// has reports whether a node of the shape can fulfil all requirements.
func (s *Shape) has(requirements []corev1.NodeSelectorRequirement) bool {
	byLabel := map[string][]corev1.NodeSelectorRequirement{}
	for _, r := range requirements {
		byLabel[r.Key] = append(byLabel[r.Key], r)
	}
	for label, wanted := range byLabel {
		value, fixed := s.Labels[label]
		open := slices.DeleteFunc(slices.Clone(s.Open), func(r corev1.NodeSelectorRequirement) bool { return r.Key != label })
		switch {
		case fixed && fulfills(map[string]string{label: value}, wanted):
		case fixed:
			return false
		case (len(open) > 0 || s.mayHave(label)) && canHave(label, slices.Concat(open, wanted)):
		case !fulfills(nil, wanted):
			return false
		}
	}
	return true
}

// canHave reports whether a value of a label fulfils all of some requirements. It tries the values that they name, the
// neighbours of numbers, and one that nobody names.
func canHave(label string, requirements []corev1.NodeSelectorRequirement) bool {
	values := []string{"any-other"}
	for _, r := range requirements {
		values = append(values, r.Values...)
		for _, value := range r.Values {
			if number, err := strconv.Atoi(value); err == nil {
				values = append(values, fmt.Sprint(number+1), fmt.Sprint(number-1))
			}
		}
	}
	return slices.ContainsFunc(values, func(value string) bool { return fulfills(map[string]string{label: value}, requirements) })
}

// fulfills reports whether labels fulfil all requirements.
func fulfills(labels map[string]string, requirements []corev1.NodeSelectorRequirement) bool {
	selector := nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}})
	node := &corev1.Node{}
	node.Labels = labels
	matches, err := selector.Match(node)
	return err == nil && matches
}
