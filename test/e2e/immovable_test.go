// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// Nobody keeps nodes that another MiniCluster gets: not with disruption budgets, of which the API server supports one
// for each pod, and not with a lead that ignores who is to leave. The command goes on with the other ranks, and takes
// the nodes again later.
func TestImmovable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		budgets int
		busy    string
	}{
		"by a budget":                           {1, "0s"},
		"by several budgets":                    {2, "0s"},
		"by a budget and a lead that obeys not": {1, untilTold},
		"by a lead that obeys not":              {0, untilTold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 4)
			s.priorityClass(s.namespace+"-high", 1000)
			holds := s.create(s.miniCluster("holds").Size(4).MinSize(2).Launcher().PodAnnotation(simulator.Runtime, untilTold).PodAnnotation(simulator.Busy, tc.busy).Spec(twice))
			s.awaitBrokers(holds, 4)
			for i := range tc.budgets {
				s.shared.Create(budgetFor(s.namespace, fmt.Sprintf("budget-%d", i), holds))
			}
			wants := s.create(s.miniCluster("wants").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = s.namespace + "-high" }))
			s.awaitSuccess(wants)
			s.awaitBrokers(holds, 4)
			s.awaitDecisions(holds, map[string]int{"Admitted": 1, "Started": 1, "Draining": 1, "Vacated": 1, "Grew": 1})
			if n := s.leadsOf(holds); n != 1 {
				t.Errorf("the command ran %d times", n)
			}
			s.endCommand(holds)
			s.awaitSuccess(holds)
		})
	}
}

// budgetFor is a budget that lets no pod of a MiniCluster go.
func budgetFor(namespace, name string, mc *v1alpha2.MiniCluster) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &intstr.IntOrString{Type: intstr.String, StrVal: "100%"},
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.MiniClusterLabel: mc.Name}},
		},
	}
}

// twice lets a MiniCluster grow and shrink by factors of two alone: also where two nodes become free one after the other.
func twice(spec *v1alpha2.MiniClusterSpec) {
	spec.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
}
