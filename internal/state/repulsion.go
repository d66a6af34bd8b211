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

// Repulsions are the terms of a pod. Overlooked stands for those that are too many or too large. Terms that cannot be read
// select nothing; the API server accepts none of them.
func Repulsions(pod *corev1.Pod) []*Repulsion {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	var out []*Repulsion
	overlooked := map[string]bool{}
	size := 0
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		if i < mostTerms && size+terms[i].Size() <= mostTermBytes {
			if r := repulsion(&terms[i], pod.Namespace); r != nil {
				out = append(out, r)
				size += terms[i].Size()
			}
			continue
		}
		within := ""
		if isLocal(&terms[i], pod.Namespace) {
			within = pod.Namespace
		}
		if !overlooked[within] {
			overlooked[within] = true
			out = append(out, Overlooked(within))
		}
	}
	return out
}

// isLocal reports whether a term selects pods of the namespace of its pod alone.
func isLocal(term *corev1.PodAffinityTerm, namespace string) bool {
	return term.NamespaceSelector == nil && (len(term.Namespaces) == 0 || len(term.Namespaces) == 1 && term.Namespaces[0] == namespace)
}

// repulsion is a term of a pod of a namespace; nil if the term cannot be read.
func repulsion(term *corev1.PodAffinityTerm, namespace string) *Repulsion {
	pods, unread := metav1.LabelSelectorAsSelector(term.LabelSelector)
	namespaces, unreadToo := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	key, unwritten := json.Marshal([]any{term, namespace})
	if unread != nil || unreadToo != nil || unwritten != nil {
		return nil
	}
	r := &Repulsion{Key: string(key), TopologyKey: term.TopologyKey, From: namespace, Namespaces: term.Namespaces, Pods: pods, NamespacesBy: namespaces}
	if isLocal(term, namespace) {
		r.Namespaces = []string{namespace}
	}
	return r
}

// Overlooked stands for terms that do not count, of the pods of a namespace for pods of this namespace, or with "" for pods
// of any. Its key is "", and it selects no pods: kube-scheduler alone knows which ones the terms select.
func Overlooked(within string) *Repulsion {
	r := &Repulsion{From: within, Pods: labels.Nothing(), NamespacesBy: labels.Nothing()}
	if within != "" {
		r.Namespaces = []string{within}
	}
	return r
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
