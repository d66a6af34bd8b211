// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// A gang gets nodes with Linux and of one architecture, that of its queue if it has one, and its message names the nodes that
// it cannot get.
func TestMixedNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 6)
	label := func(node, label, value string) {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		before := s.kubectl("get", "node", node, "-o", "jsonpath={.metadata.labels."+strings.ReplaceAll(label, ".", `\.`)+"}")
		s.patch(object, `{"metadata":{"labels":{%q:%q}}}`, label, value)
		t.Cleanup(func() { s.patch(object, `{"metadata":{"labels":{%q:%q}}}`, label, before) })
	}
	windows, arm, usual := s.nodes[:2], s.nodes[2:4], s.nodes[4:]
	for i := range 2 {
		label(windows[i], corev1.LabelOSStable, "windows")
		label(arm[i], corev1.LabelArchStable, "arm64")
	}
	large := s.create(s.miniCluster("large").Size(3))
	awaitTold := func(mc *v1alpha2.MiniCluster, arch string) {
		s.await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
			return strings.Contains(told(mc), "2 of another architecture than "+arch) && strings.Contains(told(mc), "2 without Linux")
		})
	}
	awaitTold(large, "amd64")
	setArchitecture := func(json string) {
		s.patch(&v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"spec":{"architecture":%s}}`, json)
	}
	setArchitecture(`"arm64"`)
	awaitTold(large, "arm64")
	var running []*v1alpha2.MiniCluster
	for _, want := range [][]string{arm, usual} {
		mc := s.create(s.miniCluster(want[0]).Size(2).PodAnnotation(simulator.Runtime, untilTold))
		if want[0] == usual[0] { // those of the queue are in use
			awaitTold(mc, "arm64")
			setArchitecture("null")
		}
		s.awaitState(mc, v1alpha2.StateRunning)
		if got := s.nodesOf(mc); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s is on %v", mc.Name, got)
		}
		running = append(running, mc)
	}
	for _, mc := range running {
		s.endCommand(mc)
		s.awaitSuccess(mc)
	}
	// The image is for arm64 alone.
	image := s.create(s.miniCluster("image").Size(2).PodAnnotation(simulator.CannotStart, strings.Join(usual, ",")).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate.BackoffBase = duration("1s")
	}))
	s.awaitSuccess(image)
	if mc := s.get(image); len(mc.Status.Attempts) != 1 || mc.Status.Attempts[0].Reason != "GaveUp" {
		t.Errorf("its attempts are %+v", mc.Status.Attempts)
	}
}

// A gang does not take a node that pods of others keep free by their anti-affinity.
func TestNodesKeptFree(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	frontend := s.keepFree(s.nodes[0], v1alpha2.AppName)
	mc := s.create(s.miniCluster("two").Size(2))
	s.await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(told(mc), "1 kept free by pods with anti-affinity")
	})
	s.delete(frontend)
	s.awaitSuccess(mc)
}

// Where the scheduler does not count all terms of pods of others, the API server binds no pods: kube-scheduler refuses the node
// that such a term keeps free, and the broker gets another one.
func TestNodesKeptFreeByManyTerms(t *testing.T) {
	s, _ := binding(t, 3)
	var apps []string
	for i := range 20 {
		apps = append(apps, fmt.Sprint("app-", i))
	}
	s.keepFree(s.nodes[0], append(apps, v1alpha2.AppName)...)
	mc := s.create(s.miniCluster("two").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	for _, pod := range s.pods(mc) {
		if pod.Spec.NodeName == s.nodes[0] {
			t.Errorf("pod %s is on the node that is kept free", pod.Name)
		}
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// keepFree makes a pod on a node that keeps the pods of some applications off the node, by a term for each of them.
func (s *site) keepFree(node string, apps ...string) *corev1.Pod {
	s.t.Helper()
	frontend := fixture.Pod("frontend").In(s.namespace).CPU("1").Label("app", "frontend").On(node).Spec(func(p *corev1.PodSpec) {
		against := &corev1.PodAntiAffinity{}
		for _, app := range apps {
			against.RequiredDuringSchedulingIgnoredDuringExecution = append(against.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.AppLabel: app}},
			})
		}
		p.Affinity = &corev1.Affinity{PodAntiAffinity: against}
		p.Containers[0].Image = "app"
	}).Obj()
	frontend.UID = ""
	if err := env.client.Create(s.ctx, frontend); err != nil {
		s.t.Fatal(err)
	}
	return frontend
}
