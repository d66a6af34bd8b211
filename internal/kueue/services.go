// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// services is the pod set of the services pod. The set is not in the group of the brokers: Kueue
// assigns a topology to groups of two alone. So the services pod may have another flavor.
const services kueueapi.PodSetReference = "services"

// CountServices makes a new Workload ask for quota for the services pod, too. pod is that pod after
// admission by the API server; nil if there are no services.
func CountServices(wl *kueueapi.Workload, pod *corev1.Pod) {
	if pod == nil {
		return
	}
	wl.Spec.PodSets = append(wl.Spec.PodSets, kueueapi.PodSet{
		Name: services, Count: 1, Template: corev1.PodTemplateSpec{Spec: countedFields(&pod.Spec)},
	})
	wl.Annotations[shapeAnnotation] = shape(&wl.Spec)
}

// ServicesQuota is the quota of the services pod, with the nodes of its flavors and of its domain in their
// topology; nil if a Workload has none. A Workload that was made before the services pod was counted
// allows all nodes.
func ServicesQuota(wl *kueueapi.Workload, cluster Cluster) *v1alpha2.Quota {
	if wl == nil || wl.DeletionTimestamp != nil || !reserved(wl) || isTrue(wl, kueueapi.WorkloadEvicted) {
		return nil
	}
	if countOf(wl, services) == 0 {
		return &v1alpha2.Quota{}
	}
	q, err := quotaOf(wl, cluster, func(set kueueapi.PodSetReference) bool { return set == services })
	if err != nil || awaitsTopology(wl) {
		return nil
	}
	if q.Topology != nil { // one pod is in one domain
		in := q.Topology.Domains[0]
		for i, value := range append(slices.Clone(in.Within), in.Values) {
			err = errors.Join(err, addNodes(q, map[string]string{q.Topology.Levels[i]: value}, nil))
		}
	}
	if err != nil {
		return nil
	}
	return q
}
