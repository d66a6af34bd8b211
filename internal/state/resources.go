// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Requests are what a pod takes of its node by kube-scheduler's rules: with init containers,
// sidecars and overhead, and the pod itself. A broker of an exclusive MiniCluster takes the whole
// node.
func Requests(pod *corev1.Pod) fluxion.Resources {
	exclusive := pod.Labels[v1alpha2.UIDLabel] != "" && pod.Labels[v1alpha2.ExclusiveLabel] == "true"
	return withPod(Amounts(Counted(pod)), exclusive)
}

// admitted are what a broker takes of its node since its admission.
func admitted(a *v1alpha2.Admission) fluxion.Resources {
	return withPod(Amounts(counted(maps.Clone(a.Requests))), a.Exclusive)
}

// withPod adds the pod itself, and the whole node if the pod has its node alone.
func withPod(amounts fluxion.Resources, exclusive bool) fluxion.Resources {
	for name, amount := range amounts {
		amounts[name] = min(amount, fluxion.MaxAmount)
	}
	amounts[fluxion.Pods] = 1
	if exclusive {
		amounts[fluxion.WholeNode] = 1
	}
	return amounts
}

// PodRequests are what a pod takes of its node, as Kubernetes quantities. While a pod is resized in
// place, this is the larger of what it wants and what it has, as for kube-scheduler.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
}

// mostResources is how many resources of a pod count. The API server takes tens of thousands.
const mostResources = 64

// Counted are the requests of a pod that count: not those of nothing, as for kube-scheduler, and of very many those of
// mostResources.
func Counted(pod *corev1.Pod) corev1.ResourceList { return counted(PodRequests(pod)) }

// counted removes from some requests those that do not count. The resources of Kubernetes, which every node has, count before
// extended ones.
func counted(requests corev1.ResourceList) corev1.ResourceList {
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, amount resource.Quantity) bool { return amount.Sign() <= 0 })
	if len(requests) > mostResources {
		for _, name := range slices.SortedFunc(maps.Keys(requests), nativeFirst)[mostResources:] {
			delete(requests, name)
		}
	}
	return requests
}

func nativeFirst(a, b corev1.ResourceName) int {
	extended := func(name corev1.ResourceName) int { return strings.Count(string(name), "/") }
	return cmp.Or(extended(a)-extended(b), strings.Compare(string(a), string(b)))
}

// TooLarge says which request of a pod is too large to be counted, or that they are too many; "" if neither. No node has so
// much.
func TooLarge(pod *corev1.Pod) string {
	requests := PodRequests(pod)
	if len(requests) > mostResources {
		return fmt.Sprintf("a pod requests %d resources, more than %d", len(requests), mostResources)
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity, most := requests[name], resource.NewQuantity(fluxion.MaxAmount, resource.DecimalSI)
		if name == corev1.ResourceCPU {
			most.SetMilli(fluxion.MaxAmount)
		}
		if quantity.Cmp(*most) > 0 {
			return fmt.Sprintf("a pod requests %s %s in all, more than %s", quantity.String(), name, most)
		}
	}
	return ""
}

// Amounts converts quantities to the units of package fluxion. Each amount is from 0 to queue.MaxAmount.
// Larger quantities would not fit in an int64, so they are compared as quantities.
func Amounts(list corev1.ResourceList) fluxion.Resources {
	out := make(fluxion.Resources, len(list)+1)
	for name, quantity := range list {
		amount, most := (*resource.Quantity).Value, resource.NewQuantity(queue.MaxAmount, resource.DecimalSI)
		if name == corev1.ResourceCPU {
			amount, most = (*resource.Quantity).MilliValue, resource.NewMilliQuantity(queue.MaxAmount, resource.DecimalSI)
		}
		switch {
		case quantity.Sign() <= 0:
			out[string(name)] = 0
		case quantity.Cmp(*most) >= 0:
			out[string(name)] = queue.MaxAmount
		default:
			out[string(name)] = amount(&quantity)
		}
	}
	return out
}

// AmountText formats an amount of a resource for users: "8 cpu", "4 pods".
func AmountText(name string, amount int64) string {
	if text := (fluxion.Resources{name: amount}).String(); text != "" {
		return text
	}
	return fmt.Sprintf("%d %s", amount, name)
}
