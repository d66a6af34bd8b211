// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// freeQuota is what is left of the quota of a queue.
func freeQuota(queue *kueueapi.ClusterQueue, all []*kueueapi.Workload) corev1.ResourceList {
	free := corev1.ResourceList{}
	for _, group := range queue.Spec.ResourceGroups {
		for _, quota := range group.Flavors[0].Resources {
			free[quota.Name] = quota.NominalQuota.DeepCopy()
		}
	}
	for _, w := range all {
		if !holdsQuota(w) || string(w.Status.Admission.ClusterQueue) != queue.Name {
			continue
		}
		for _, assigned := range w.Status.Admission.PodSetAssignments {
			for i := range w.Spec.PodSets {
				if set := &w.Spec.PodSets[i]; set.Name == assigned.Name {
					take(free, set, min(ptr.Deref(assigned.Count, set.Count), set.Count-reclaimedOf(w, set.Name)))
				}
			}
		}
	}
	return free
}

// take takes what some pods of a pod set request, as far as the queue has a quota for it.
func take(free corev1.ResourceList, set *kueueapi.PodSet, pods int32) {
	for name, request := range requestsOf(podOfSet(set)) {
		if has, limited := free[name]; limited {
			request.Mul(int64(max(pods, 0)))
			has.Sub(request)
			free[name] = has
		}
	}
}

// fitWorkload finds the most pods of a Workload that fit: all, or as many workers as the quota allows.
func fitWorkload(w *kueueapi.Workload, queue *kueueapi.ClusterQueue, free corev1.ResourceList) (*kueueapi.Admission, string) {
	flavors := map[corev1.ResourceName]kueueapi.ResourceFlavorReference{}
	for _, group := range queue.Spec.ResourceGroups {
		for _, name := range group.CoveredResources {
			flavors[name] = group.Flavors[0].Name
		}
	}
	most, least := int32(0), int32(0)
	for i := range w.Spec.PodSets {
		if set := &w.Spec.PodSets[i]; set.MinCount != nil {
			most, least = set.Count, *set.MinCount
		}
	}
	why := ""
	for fewer := int32(0); fewer <= most-least; fewer++ {
		left := maps.Clone(free)
		admission := &kueueapi.Admission{ClusterQueue: kueueapi.ClusterQueueReference(queue.Name)}
		for i := range w.Spec.PodSets {
			set := &w.Spec.PodSets[i]
			count := set.Count - reclaimedOf(w, set.Name)
			if set.MinCount != nil {
				count -= fewer
			}
			take(left, set, count)
			admission.PodSetAssignments = append(admission.PodSetAssignments, assignment(set, count, flavors))
		}
		lacks := lackingQuota(left)
		if lacks == "" {
			return admission, ""
		}
		if why == "" {
			why = fmt.Sprintf("couldn't assign flavors to pod set %s: insufficient unused quota for %s", w.Spec.PodSets[0].Name, lacks)
		}
	}
	return nil, why
}

// lackingQuota is the first resource of which there is too little; "" if there is enough.
func lackingQuota(left corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if has := left[name]; has.Sign() < 0 {
			has.Neg()
			return fmt.Sprintf("%s, %s more needed", name, has.String())
		}
	}
	return ""
}

func assignment(set *kueueapi.PodSet, count int32, flavors map[corev1.ResourceName]kueueapi.ResourceFlavorReference) kueueapi.PodSetAssignment {
	out := kueueapi.PodSetAssignment{
		Name: set.Name, Count: ptr.To(count), Flavors: map[corev1.ResourceName]kueueapi.ResourceFlavorReference{}, ResourceUsage: corev1.ResourceList{},
	}
	for name, request := range requestsOf(podOfSet(set)) {
		if flavor, counted := flavors[name]; counted {
			sum := request.DeepCopy()
			sum.Mul(int64(count))
			out.Flavors[name], out.ResourceUsage[name] = flavor, sum
		}
	}
	return out
}
