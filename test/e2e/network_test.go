// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The policy of config/network for a namespace is for every pod of a MiniCluster, lets these pods connect to each other,
// and no others. No node of this suite enforces it.
func TestNetworkOfBrokers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.kubectl("apply", "-f", filepath.Join(env.Root, "config", "network", "brokers.yaml"))
	var policy networkingv1.NetworkPolicy
	if err := env.client.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "flux-elastic-brokers"}, &policy); err != nil {
		t.Fatal(err)
	}
	if rules := policy.Spec.Ingress; len(rules) != 1 || len(rules[0].From) != 1 || rules[0].From[0].NamespaceSelector != nil {
		t.Fatalf("it lets in %+v", rules)
	}
	mc := s.create(s.miniCluster("guarded").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "i"}}
	}))
	s.awaitSuccess(mc)
	other := s.occupy(s.nodes[2])
	for _, selector := range []*metav1.LabelSelector{&policy.Spec.PodSelector, policy.Spec.Ingress[0].From[0].PodSelector} {
		selects := func(pod *corev1.Pod) bool {
			matcher, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			return matcher.Matches(labels.Set(pod.Labels))
		}
		pods := s.pods(mc)
		if len(pods) == 0 || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !selects(&pod) }) || selects(other) {
			t.Errorf("%v does not select the pods of MiniClusters alone", selector)
		}
	}
}

// The policy of the manager is for its pods, and names ports that they have.
func TestNetworkOfTheManager(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	var policy *networkingv1.NetworkPolicy
	var deployment *appsv1.Deployment
	for _, object := range s.kustomize("resources: [%[1]s/default]\ncomponents: [%[1]s/network]") {
		switch object := object.(type) {
		case *networkingv1.NetworkPolicy:
			policy = object
		case *appsv1.Deployment:
			deployment = object
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	if !selector.Matches(labels.Set(deployment.Spec.Template.Labels)) || policy.Namespace != deployment.Namespace {
		t.Errorf("it is for %s in %s", selector, policy.Namespace)
	}
	for _, port := range policy.Spec.Ingress[0].Ports {
		known := slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.Port.StrVal
		})
		if !known {
			t.Errorf("the manager has no port %s", port.Port)
		}
	}
}
