// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// changesOf is a policy about how what is there of a kind in the namespace of a site is changed.
func changesOf(s *site, group, resource, expression, message string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	policy := policyOf(s, group, resource, "request.operation == 'CREATE' || "+expression, message)
	rules := &policy.Spec.MatchConstraints.ResourceRules[0]
	rules.Operations = append(rules.Operations, admissionregistrationv1.Update)
	return policy
}

const leavesDrain = "object.metadata.?annotations[?'flux-framework.org/drain'] == oldObject.metadata.?annotations[?'flux-framework.org/drain']"

// Brokers that wait for ranks which are to leave give their nodes back if the lead may not be told who leaves. The next attempt
// begins without these ranks.
func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	record := s.newRecord()
	const words = "no lead is told who leaves today"
	mc := s.create(s.waiting("three", 3, "1,2").MinSize(2))
	s.await(mc, "with a lead", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
	s.createObject(changesOf(s, "", "pods", leavesDrain, words))
	s.patch(mc, `{"spec":{"size":2}}`)
	s.awaitReleased(mc, words)
	s.awaitSuccessOf(mc, 1)
	record.hadNodes(s, mc, 2)
	if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
		t.Errorf("the command ran %d times; %+v", mc.Status.Runs, mc.Status.RequeueState)
	}
}

// A lead that may not be told to start with fewer brokers keeps its nodes: it may start alone at any time.
func TestRefusedQuorum(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	record := s.newRecord()
	s.createObject(changesOf(s, "", "pods", leavesDrain, "no lead is told who leaves today"))
	mc := s.create(s.waiting("two", 2, "1").MinSize(1))
	s.await(mc, "with a lead", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
	quorumTimesOut(s, mc)
	eventually(t, func() error {
		if s.events(mc)["QuorumLowered"] == 0 {
			return errors.New("the quorum is not lowered")
		}
		return nil
	})
	s.letStart(mc, 1)
	s.awaitSuccess(mc)
	record.hadNodes(s, mc, 1)
	if mc.Status.Runs != 1 {
		t.Errorf("the command ran %d times", mc.Status.Runs)
	}
}

// twiceOrMore is how often a MiniCluster has nodes whose attempts are refused until something is seen to happen.
var twiceOrMore = []int{2, 3, 4, 5, 6, 7, 8, 9}

// awaitReleased waits until the event that nodes were given back has some words.
func (s *site) awaitReleased(mc *v1alpha2.MiniCluster, words string) {
	s.t.Helper()
	eventually(s.t, func() error {
		var list corev1.EventList
		if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.UID == mc.UID && e.Reason == v1alpha2.ReasonReleased && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return errors.New("no event tells of " + words)
	})
}

// The names of pods are added to those that are published. Brokers that wait for others give their nodes back if the names may
// not be changed any more.
func TestRefusedChangeOfNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	record := s.newRecord()
	const words = "no names are changed today"
	mc := s.create(s.waiting("three", 3, "1,2"))
	eventually(t, func() error { return s.hasNames(mc) })
	policy := changesOf(s, "discovery.k8s.io", "endpointslices", "object.endpoints == oldObject.endpoints", words)
	s.createObject(policy)
	s.letStart(mc, 1)
	s.awaitReleased(mc, words)
	s.delete(policy)
	s.awaitSuccessOf(mc, 1, 2)
	record.hadNodes(s, mc, twiceOrMore...)
	if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
		t.Errorf("the command ran %d times; %+v", mc.Status.Runs, mc.Status.RequeueState)
	}
}

// hasNames reports whether some brokers of a MiniCluster have names in DNS.
func (s *site) hasNames(mc *v1alpha2.MiniCluster) error {
	var list discoveryv1.EndpointSliceList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: mc.Name}); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("no names are published")
	}
	return nil
}

// MiniClusters that name the same Service share it, and change who owns the Service. A MiniCluster that may not join the owners
// is told so, and holds no nodes. The end of a MiniCluster that may not leave the owners is told nevertheless.
func TestRefusedChangeOfServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	shared := func(name string) *v1alpha2.MiniCluster {
		return s.create(s.miniCluster(name).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Network.HeadlessName = "shared"
		}))
	}
	end := func(mc *v1alpha2.MiniCluster) {
		s.endCommand(mc)
		s.awaitSuccess(mc)
	}
	const words = "no Service is changed today"
	first := shared("first")
	s.awaitState(first, v1alpha2.StateRunning)
	denies := changesOf(s, "", "services", "false", words)
	s.createObject(denies)
	second := shared("second")
	s.awaitRefused(second, "policy", words)
	s.delete(denies)
	s.awaitState(second, v1alpha2.StateRunning)
	denies = changesOf(s, "", "services", "false", words)
	s.createObject(denies)
	end(second)
	s.delete(denies)
	third := shared("third")
	s.awaitState(third, v1alpha2.StateRunning)
	away := webhookOf(s, "", "services", func() string { return hangsUp })
	away.Webhooks[0].Rules[0].Operations = append(away.Webhooks[0].Rules[0].Operations, admissionregistrationv1.Update)
	s.createObject(away)
	end(third)
	end(first)
}
