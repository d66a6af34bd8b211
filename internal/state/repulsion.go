// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Repulsion is one term of the required anti-affinity of a pod: kube-scheduler puts no pod that the term selects on the
// nodes whose label TopologyKey has the value of the pod's node.
type Repulsion struct {
	// Key is that of equal terms of pods of one namespace.
	Key, TopologyKey string
	// From is the namespace of the pod.
	From string
	// Pods selects pods by their labels, and Namespaces and NamespacesBy by their namespaces.
	Pods         labels.Selector
	Namespaces   []string
	NamespacesBy labels.Selector
}

// What of the terms of a pod counts: so many, and of so many bytes in all.
const (
	mostTerms     = 16
	mostTermBytes = 2 << 10
)

// Repulsions are the terms of a pod, without those that are too many or too large. Terms that cannot be read select nothing;
// the API server accepts none of them.
func Repulsions(pod *corev1.Pod) []*Repulsion {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	var out []*Repulsion
	size := 0
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range terms[:min(len(terms), mostTerms)] {
		term := &terms[i]
		if size+term.Size() > mostTermBytes {
			continue
		}
		size += term.Size()
		r := &Repulsion{TopologyKey: term.TopologyKey, From: pod.Namespace, Namespaces: term.Namespaces}
		if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
			r.Namespaces = []string{pod.Namespace}
		}
		var unread, unreadToo error
		r.Pods, unread = metav1.LabelSelectorAsSelector(term.LabelSelector)
		r.NamespacesBy, unreadToo = metav1.LabelSelectorAsSelector(term.NamespaceSelector)
		key, unwritten := json.Marshal([]any{term, pod.Namespace})
		if unread == nil && unreadToo == nil && unwritten == nil {
			r.Key = string(key)
			out = append(out, r)
		}
	}
	return out
}

// Within is the namespace of the pods that a term selects, if they are of the pod's own namespace alone; "" otherwise.
func (r *Repulsion) Within() string {
	if len(r.Namespaces) == 1 && r.Namespaces[0] == r.From && labels.MatchesNothing(r.NamespacesBy) {
		return r.From
	}
	return ""
}

// Repels reports whether a term selects pods of a namespace, whose labels labelsOf returns, with some labels.
func (r *Repulsion) Repels(namespace string, labelsOf func(string) labels.Set, pods labels.Set) bool {
	return (slices.Contains(r.Namespaces, namespace) || !labels.MatchesNothing(r.NamespacesBy) && r.NamespacesBy.Matches(labelsOf(namespace))) && r.Pods.Matches(pods)
}
