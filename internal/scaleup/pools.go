// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// NodePools are those of Karpenter.
var NodePools = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

// NodePoolsResource is the name of their resource.
const NodePoolsResource = "nodepools"

// nodePoolLabel is on each node of a NodePool. The value is the name of the NodePool.
const nodePoolLabel = "karpenter.sh/nodepool"

// nodesLimit is the limit of a NodePool for the number of its nodes.
const nodesLimit = "nodes"

// nodePool has the fields of a NodePool that say which nodes could come.
type nodePool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              struct {
				Taints       []corev1.Taint                   `json:"taints"`
				Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
			} `json:"spec"`
		} `json:"template"`
		Limits   corev1.ResourceList `json:"limits"`
		Weight   int32               `json:"weight"`
		Replicas *int64              `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Resources corev1.ResourceList `json:"resources"`
	} `json:"status"`
}

// Shapes are the nodes that could come by NodePools, those of the largest weight first. The sizes of the nodes are not
// known: Karpenter chooses them for the pods. A NodePool that cannot be read, or that has a fixed number of nodes, has none.
func Shapes(pools []*unstructured.Unstructured) []state.Shape {
	var read []*nodePool
	for _, object := range pools {
		pool := &nodePool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pool); err == nil && pool.Spec.Replicas == nil && pool.DeletionTimestamp == nil {
			read = append(read, pool)
		}
	}
	slices.SortFunc(read, func(a, b *nodePool) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), cmp.Compare(a.Name, b.Name))
	})
	var shapes []state.Shape
	for _, pool := range read {
		shapes = append(shapes, pool.shape())
	}
	return shapes
}

func (p *nodePool) shape() state.Shape {
	shape := state.Shape{Name: p.Name, Labels: map[string]string{}, Taints: p.Spec.Template.Spec.Taints, Left: fluxion.Resources{}}
	maps.Copy(shape.Labels, p.Spec.Template.Labels)
	for _, r := range p.Spec.Template.Spec.Requirements {
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			shape.Open = append(shape.Open, r)
		default: // one that only Karpenter knows: any value may do
			shape.Open = append(shape.Open, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOpExists})
		}
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			shape.Labels[r.Key] = r.Values[0]
		}
	}
	shape.Labels[nodePoolLabel] = p.Name
	limits, used := state.Amounts(p.Spec.Limits), state.Amounts(p.Status.Resources)
	for name, limit := range limits {
		switch {
		case name != nodesLimit:
			shape.Left[name] = max(limit-used[name], 0)
		case limit == 0:
			shape.Left[fluxion.Pods] = 0
		default:
			shape.Most = int(limit)
		}
	}
	return shape
}
