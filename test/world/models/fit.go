// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
)

// usage is what the pods of a node request, and their number.
type usage struct {
	requests corev1.ResourceList
	pods     int64
}

// usages are the usages of nodes.
type usages map[string]usage

// usedOn adds up the requests of all pods that are bound and have not ended.
func usedOn(pods []*corev1.Pod) usages {
	out := usages{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !podEnded(pod) {
			out.add(pod.Spec.NodeName, pod)
		}
	}
	return out
}

func (u usages) add(node string, pod *corev1.Pod) {
	n := u[node]
	if n.requests == nil {
		n.requests = corev1.ResourceList{}
	}
	for name, quantity := range requestsOf(pod) {
		sum := n.requests[name]
		sum.Add(quantity)
		n.requests[name] = sum
	}
	n.pods++
	u[node] = n
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// lacks says what a node lacks for a pod, as the plugin NodeResourcesFit does (pkg/scheduler/framework/plugins/noderesources).
func (u usage) lacks(pod *corev1.Pod, node *corev1.Node) []string {
	var out []string
	allocatable := node.Status.Allocatable
	if most := allocatable.Pods().Value(); u.pods+1 > most {
		out = append(out, "Too many pods")
	}
	for _, name := range u.lacking(pod, node) {
		out = append(out, "Insufficient "+string(name))
	}
	return out
}

// lacking are the resources that a node lacks for a pod.
func (u usage) lacking(pod *corev1.Pod, node *corev1.Node) []corev1.ResourceName {
	var out []corev1.ResourceName
	requests := requestsOf(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name].DeepCopy()
		if want.IsZero() {
			continue
		}
		want.Add(u.requests[name])
		if has := node.Status.Allocatable[name]; want.Cmp(has) > 0 {
			out = append(out, name)
		}
	}
	return out
}

// tolerates reports whether a pod tolerates a taint.
func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
}

// untolerated is the first taint of some effects that a pod does not tolerate; nil if it tolerates all.
func untolerated(pod *corev1.Pod, node *corev1.Node, effects ...corev1.TaintEffect) *corev1.Taint {
	for i := range node.Spec.Taints {
		if taint := &node.Spec.Taints[i]; slices.Contains(effects, taint.Effect) && !tolerates(pod, *taint) {
			return taint
		}
	}
	return nil
}

// names reports whether all terms of a pod's required node affinity name nodes.
func names(pod *corev1.Pod) bool {
	terms := requiredTerms(pod)
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return len(namesOf(t)) == 0 })
}

// named reports whether a term of a pod's required node affinity names a node.
func named(pod *corev1.Pod, node string) bool {
	return slices.ContainsFunc(requiredTerms(pod), func(t corev1.NodeSelectorTerm) bool { return slices.Contains(namesOf(t), node) })
}

func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func namesOf(term corev1.NodeSelectorTerm) []string {
	for _, field := range term.MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn {
			return field.Values
		}
	}
	return nil
}
