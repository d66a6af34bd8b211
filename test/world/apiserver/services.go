// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// allocate gives a new Service its address: k8s.io/kubernetes/pkg/registry/core/service/storage/alloc.go. The addresses
// are in the order in which they were asked for.
func (s *Server) allocate(service *corev1.Service, dryRun bool) {
	spec := &service.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 && spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	switch {
	case spec.ClusterIP == corev1.ClusterIPNone:
	case spec.ClusterIP == "" && dryRun:
		return // an address of a dry run is not promised
	case spec.ClusterIP == "":
		s.addresses++
		spec.ClusterIP = fmt.Sprintf("10.96.%d.%d", s.addresses/250, s.addresses%250+1)
	}
	spec.ClusterIPs = []string{spec.ClusterIP}
}
