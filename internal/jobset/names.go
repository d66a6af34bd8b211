// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// SliceManager is the value of the label endpointslice.kubernetes.io/managed-by on slices that
// this project writes. Kubernetes' own controllers leave such slices alone.
const SliceManager = "flux-elastic"

// hostsPerSlice is how many brokers one EndpointSlice has. Each broker has two names, and the API
// allows 1,000 endpoints.
const hostsPerSlice = 250

// Host is a pod with an address.
type Host struct {
	// Rank is the rank of its broker; negative for the services pod.
	Rank int
	// Pod is the name of the pod, and Service the headless Service in whose domain its names are.
	Pod, Service string
	// IPs are the addresses of the pod, of one or two families.
	IPs []string
}

// Names returns the DNS names of a host in the domain of the brokers' Service: the name that JobSet
// gives to its pod, and the one that the Flux Operator gives to a broker. The services pod has one.
func (h Host) Names(mc *v1alpha2.MiniCluster) []string {
	switch {
	case h.Rank < 0:
		return []string{servicesHost(mc)}
	case broker.Ambiguous(mc.Name):
		return []string{broker.PodHost(mc.Name, h.Rank)}
	}
	return []string{broker.PodHost(mc.Name, h.Rank), broker.OperatorHost(mc.Name, h.Rank)}
}

// Slices returns the EndpointSlices that publish the names of hosts, sorted by name. There is one
// slice for each family of addresses, and for every 250 ranks.
func Slices(mc *v1alpha2.MiniCluster, hosts []Host) []*discoveryv1.EndpointSlice {
	byName := map[string]*discoveryv1.EndpointSlice{}
	for _, host := range hosts {
		for _, ip := range host.IPs {
			family := familyOf(ip)
			name := fmt.Sprintf("%s.%s.%d", mc.Name, strings.ToLower(string(family)), max(host.Rank, 0)/hostsPerSlice)
			if byName[name] == nil {
				byName[name] = newSlice(mc, name, host.Service, family)
			}
			for _, hostname := range host.Names(mc) {
				byName[name].Endpoints = append(byName[name].Endpoints, discoveryv1.Endpoint{
					Addresses: []string{ip}, Hostname: ptr.To(hostname),
					// Brokers have to find each other before they are ready.
					Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
					TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: mc.Namespace, Name: host.Pod},
				})
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
}

func familyOf(ip string) discoveryv1.AddressType {
	if address, err := netip.ParseAddr(ip); err == nil && address.Is6() && !address.Is4In6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

func newSlice(mc *v1alpha2.MiniCluster, name, service string, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: mc.Namespace,
			Labels: map[string]string{
				v1alpha2.MiniClusterLabel:    mc.Name,
				discoveryv1.LabelServiceName: service,
				discoveryv1.LabelManagedBy:   SliceManager,
				corev1.IsHeadlessService:     "", // kube-proxies ignore slices with this label
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))},
		},
		AddressType: family,
	}
}

// SameNames reports whether two slices publish the same names in the same domain, for the same
// owner.
func SameNames(a, b *discoveryv1.EndpointSlice) bool {
	return a.Labels[discoveryv1.LabelServiceName] == b.Labels[discoveryv1.LabelServiceName] &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) && equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}
