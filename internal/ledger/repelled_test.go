// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// repels is a pod of others that keeps pods off its domain.
func repels(name, node string, term corev1.PodAffinityTerm) *corev1.Pod {
	return fixture.Pod(name).In("web").On(node).CPU("1").Spec(func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}).Obj()
}

// The required anti-affinity of pods of others keeps nodes free, as for kube-scheduler.
func TestRepelled(t *testing.T) {
	brokers := &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.AppLabel: v1alpha2.AppName}}
	everywhere := &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		term corev1.PodAffinityTerm
		fits int // of six nodes in three racks; the pod is on the first
	}{
		"their node":            {corev1.PodAffinityTerm{LabelSelector: brokers, NamespaceSelector: everywhere, TopologyKey: corev1.LabelHostname}, 5},
		"their rack":            {corev1.PodAffinityTerm{LabelSelector: brokers, NamespaceSelector: everywhere, TopologyKey: "rack"}, 4},
		"a label of no node":    {corev1.PodAffinityTerm{LabelSelector: brokers, NamespaceSelector: everywhere, TopologyKey: "block"}, 6},
		"their namespace":       {corev1.PodAffinityTerm{LabelSelector: brokers, TopologyKey: "rack"}, 6},
		"a namespace by name":   {corev1.PodAffinityTerm{LabelSelector: brokers, Namespaces: []string{"x", "default"}, TopologyKey: "rack"}, 4},
		"a namespace by labels": {corev1.PodAffinityTerm{LabelSelector: brokers, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "physics"}}, TopologyKey: "rack"}, 4},
		"another namespace":     {corev1.PodAffinityTerm{LabelSelector: brokers, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "biology"}}, TopologyKey: "rack"}, 6},
		"other pods":            {corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, NamespaceSelector: everywhere, TopologyKey: "rack"}, 6},
		"this MiniCluster":      {corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.MiniClusterLabel: "lmp"}}, NamespaceSelector: everywhere, TopologyKey: "rack"}, 4},
		"pods without a label":  {corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "guest", Operator: metav1.LabelSelectorOpDoesNotExist}}}, NamespaceSelector: everywhere, TopologyKey: "rack"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(nil, nil)
			l.NamespaceLabels = func(string) labels.Set { return labels.Set{"team": "physics"} }
			for i := range 6 {
				l.SetNode(fixture.Node(fmt.Sprint("n", i)).Has(corev1.ResourceCPU, "9").Label("rack", fmt.Sprint(i/2)).Label(corev1.LabelHostname, fmt.Sprint("n", i)).Obj())
			}
			room := func() int {
				mc := fixture.MiniCluster("lmp").Size(6).Defaulted()
				ask := requestOf(l, mc, fixture.Pod("another").Label(v1alpha2.AppLabel, v1alpha2.AppName).Label(v1alpha2.MiniClusterLabel, "another").Obj())
				r, err := l.Room(asks{"uid-lmp": ask}.of)
				if err != nil {
					t.Fatal(err)
				}
				if why := r.Why("uid-lmp", []int{6}); strings.Contains(why, fmt.Sprintf("%d kept free by pods with anti-affinity", 6-tc.fits)) != (tc.fits < 6) {
					t.Errorf("it says %q", why)
				}
				if !r.CouldHold("uid-lmp", []int{6}) {
					t.Error("it could not fit once the others are gone")
				}
				if class := l.Class(&ask); (class != "") != (tc.fits < 6 || name == "a label of no node") {
					t.Errorf("its class is %q", class)
				}
				return r.Fits("uid-lmp", 9)
			}
			pod := repels("web-0", "n0", tc.term)
			l.Set(pod.UID, PodOf(pod, false))
			l.Set(pod.UID, PodOf(pod, false)) // another event of the pod
			if got := room(); got != tc.fits {
				t.Errorf("%d fit, want %d", got, tc.fits)
			}
			l.Gone(pod)
			if len(l.repels.terms)+len(l.repels.from) > 0 {
				t.Errorf("the terms %v are left", l.repels)
			}
		})
	}
}

// A tenant cannot fill the ledger with terms.
func TestMostRepelling(t *testing.T) {
	l := New(nil, nil)
	l.SetNode(fixture.Node("n0").Obj())
	pods := func(namespace string, n int, elsewhere ...string) (made []*corev1.Pod) {
		for i := range n {
			pod := repels(fmt.Sprint(namespace, "-", i), "n0", corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}, Namespaces: elsewhere, TopologyKey: "rack",
			})
			pod.Namespace = namespace
			l.Set(pod.UID, PodOf(pod, false))
			made = append(made, pod)
		}
		return made
	}
	want := func(within, n int, overlooked ...string) {
		t.Helper()
		sum := map[bool]int{}
		for namespace, terms := range l.repels.terms {
			for key := range terms {
				if key != "" {
					sum[namespace == ""]++
				} else if namespace != "" && !slices.Contains(overlooked, namespace) {
					t.Errorf("terms of %s are overlooked", namespace)
				}
			}
		}
		if sum[false] != within || sum[true] != n {
			t.Errorf("there are %d terms within namespaces, and %d others, not %d and %d", sum[false], sum[true], within, n)
		}
		for _, namespace := range overlooked {
			if !l.Overlooks(namespace) {
				t.Errorf("it knows all terms for %q", namespace)
			}
		}
		if l.Overlooks("modest") != slices.Contains(overlooked, "") {
			t.Errorf("it knows all terms for a namespace of which it has few: %v", !l.Overlooks("modest"))
		}
	}
	greedy := pods("greedy", maxRepelling+10)
	want(maxRepellingOfNamespace, 0, "greedy")
	pods("modest", 1)
	want(maxRepellingOfNamespace+1, 0, "greedy")
	l.Set(greedy[0].UID, nil)
	last := greedy[len(greedy)-1]
	l.Set(last.UID, PodOf(last, false)) // it is seen again, now that there is room
	want(maxRepellingOfNamespace+1, 0, "greedy")
	if among := l.repels.terms["greedy"]; among[state.Repulsions(last)[0].Key] == nil {
		t.Error("a term for which there is room now does not count")
	}
	const more = maxRepelling/maxRepellingOfNamespace + 1
	for i := range more {
		pods(fmt.Sprint("greedy", i), maxRepellingOfNamespace, "other")
	}
	want(maxRepellingOfNamespace+1, maxRepelling, "greedy", "")
	pods("late", maxRepellingOfNamespace)
	want(2*maxRepellingOfNamespace+1, maxRepelling, "greedy", "")
	for uid := range l.pods {
		l.DeletePod(uid)
	}
	if len(l.repels.terms)+len(l.repels.from) > 0 {
		t.Errorf("%v are left", l.repels)
	}
}

// What of the terms of a pod counts is bounded.
func TestMostTerms(t *testing.T) {
	many := repels("many", "n0", corev1.PodAffinityTerm{})
	term := &many.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*term = append(*term, make([]corev1.PodAffinityTerm, 1000)...)
	want := func(counted int, overlooked ...string) {
		t.Helper()
		var within []string
		for _, r := range state.Repulsions(many) {
			if r.Key == "" {
				within = append(within, r.Within())
			} else {
				counted--
			}
		}
		if counted != 0 || !slices.Equal(within, overlooked) {
			t.Errorf("%d terms too few count, and some of %q are overlooked, not %q", counted, within, overlooked)
		}
	}
	want(16, "web")
	(*term)[1].Namespaces = []string{strings.Repeat("x", 1<<20)}
	want(15, "", "web")
	*term = (*term)[:1]
	want(1)
}
