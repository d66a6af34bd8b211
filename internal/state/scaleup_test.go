// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

func TestDown(t *testing.T) {
	const no, no2, wish = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	for name, tc := range map[string]struct {
		node         *fixture.NodeWrapper
		down         string
		going, taint bool // taint: its taint keeps pods off for good
	}{
		"a node that is up":                   {node: fixture.Node("a")},
		"one that is not ready":               {node: fixture.Node("a").NotReady(), down: "not ready"},
		"one that is cordoned":                {node: fixture.Node("a").Cordoned(), down: "cordoned"},
		"one for GPUs":                        {node: fixture.Node("a").Taint("gpu", no), taint: true},
		"one that Karpenter removes":          {node: fixture.Node("a").Taint("karpenter.sh/disrupted", no), down: "to be removed", going: true},
		"one that Cluster Autoscaler removes": {node: fixture.Node("a").Taint("ToBeDeletedByClusterAutoscaler", no), down: "to be removed", going: true},
		"one that is only a candidate":        {node: fixture.Node("a").Taint("DeletionCandidateOfClusterAutoscaler", wish)},
		"one that AWS takes back":             {node: fixture.Node("a").Taint("aws-node-termination-handler/spot-itn", no), down: "to be removed", going: true},
		"one that GKE takes back":             {node: fixture.Node("a").Taint("cloud.google.com/impending-node-termination", no2), down: "to be removed", going: true},
		"one that Azure takes back":           {node: fixture.Node("a").Taint("remediator.kubernetes.azure.com/unschedulable", no), down: "to be removed", going: true},
		"one that is being deleted":           {node: fixture.Node("a").Leaving(), down: "being removed", going: true},
		"one that is out of service already":  {node: fixture.Node("a").Taint("node.kubernetes.io/out-of-service", no2), down: "out-of-service"},
		"one that would rather be removed":    {node: fixture.Node("a").Taint("karpenter.sh/disrupted", wish)},
		"one that Karpenter does not know":    {node: fixture.Node("a").Taint("karpenter.sh/unregistered", no2), down: "starting"},
		"one that the cloud does not know":    {node: fixture.Node("a").Taint("node.cloudprovider.kubernetes.io/uninitialized", no), down: "starting"},
		"one with a startup taint of a site":  {node: fixture.Node("a").Taint("example.com/agent-not-ready", no), taint: true},
		"one without disk":                    {node: fixture.Node("a").Taint("node.kubernetes.io/disk-pressure", no), down: "disk-pressure"},
	} {
		t.Run(name, func(t *testing.T) {
			node := tc.node.Obj()
			if got := Down(node); got != tc.down {
				t.Errorf("it is down: %q, want %q", got, tc.down)
			}
			if got := Going(node); (got != "") != tc.going {
				t.Errorf("it goes: %q", got)
			}
			for i := range node.Spec.Taints {
				if got := Lasting(&node.Spec.Taints[i]); got != tc.taint {
					t.Errorf("its taint lasts: %t", got)
				}
			}
		})
	}
}

// A pod can be on a node of a shape if the node can have the labels that the pod selects.
func TestShapeAdmits(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	op := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	shape := Shape{
		Name: "hpc", Labels: map[string]string{"pool": "hpc"},
		Open: []corev1.NodeSelectorRequirement{in("zone", "a", "b"), op("cores", corev1.NodeSelectorOpGt, "7"), in("zone", "b", "c"), op("free", corev1.NodeSelectorOpExists)},
	}
	listed := Shape{Labels: map[string]string{"pool": "hpc"}}
	for name, tc := range map[string]struct {
		shape    Shape
		selector map[string]string
		terms    [][]corev1.NodeSelectorRequirement
		want     bool
	}{
		"a pod that selects nothing":                        {shape: shape, want: true},
		"a label that the nodes have":                       {shape: shape, selector: map[string]string{"pool": "hpc"}, want: true},
		"one with another value":                            {shape: shape, selector: map[string]string{"pool": "web"}},
		"one that they do not have":                         {shape: shape, selector: map[string]string{"disk": "ssd"}},
		"a value that they can have":                        {shape: shape, selector: map[string]string{"zone": "b"}, want: true},
		"one that they cannot have, by one of the rules":    {shape: shape, selector: map[string]string{"zone": "a"}},
		"any value of a free label":                         {shape: shape, selector: map[string]string{"free": "x"}, want: true},
		"a number that is large enough":                     {shape: shape, terms: [][]corev1.NodeSelectorRequirement{{op("cores", corev1.NodeSelectorOpLt, "9")}}, want: true},
		"one that is too small":                             {shape: shape, terms: [][]corev1.NodeSelectorRequirement{{op("cores", corev1.NodeSelectorOpLt, "8")}}},
		"another value than some":                           {shape: shape, terms: [][]corev1.NodeSelectorRequirement{{op("zone", corev1.NodeSelectorOpNotIn, "a")}}, want: true},
		"no value at all":                                   {shape: shape, terms: [][]corev1.NodeSelectorRequirement{{op("disk", corev1.NodeSelectorOpDoesNotExist)}}, want: true},
		"one of several terms":                              {shape: shape, terms: [][]corev1.NodeSelectorRequirement{{in("zone", "a")}, {in("zone", "b"), in("pool", "hpc")}}, want: true},
		"a term and the selector that exclude each other":   {shape: shape, selector: map[string]string{"zone": "b"}, terms: [][]corev1.NodeSelectorRequirement{{op("zone", corev1.NodeSelectorOpNotIn, "b")}}},
		"a zone that the administrator did not list":        {shape: listed, selector: map[string]string{corev1.LabelTopologyZone: "a"}, want: true},
		"a label of a cloud":                                {shape: listed, selector: map[string]string{"cloud.google.com/gke-spot": "true"}, want: true},
		"a label of Karpenter's provider":                   {shape: listed, selector: map[string]string{"karpenter.k8s.aws/instance-family": "c7i"}, want: true},
		"the name of a node that exists":                    {shape: listed, selector: map[string]string{corev1.LabelHostname: "n1"}},
		"anything, where any nodes could come":              {shape: Shape{Any: true}, selector: map[string]string{"disk": "ssd"}, want: true},
		"but not the name of a node":                        {shape: Shape{Any: true}, selector: map[string]string{corev1.LabelHostname: "n1"}},
		"two values of a label at once, where any can come": {shape: Shape{Any: true}, selector: map[string]string{"disk": "ssd"}, terms: [][]corev1.NodeSelectorRequirement{{in("disk", "hdd")}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
				s.NodeSelector = tc.selector
				if tc.terms == nil {
					return
				}
				required := &corev1.NodeSelector{}
				for _, term := range tc.terms {
					required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
				}
				s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
			}).Obj()
			if got := tc.shape.Admits(pod); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if !shape.Reaches(nil) || shape.Reaches(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "d")}}}}) {
		t.Error("it is wrong about volumes")
	}
	if pinned := fixture.Pod("p").Pinned("n1").Obj(); (&Shape{Any: true}).Admits(pinned) {
		t.Error("a new node has the name of an old one")
	}
}

func TestShapes(t *testing.T) {
	q := &v1alpha2.MiniClusterQueue{}
	q.Spec.ScaleUp = &v1alpha2.ScaleUp{}
	pools := []Shape{{Name: "pool"}}
	if got := Shapes(q, nil); len(got) != 1 || !got[0].Any {
		t.Errorf("without any knowledge: %+v", got)
	}
	if got := Shapes(q, pools); len(got) != 1 || got[0].Name != "pool" {
		t.Errorf("with node pools: %+v", got)
	}
	q.Spec.ScaleUp.Shapes = []v1alpha2.NodeShape{
		{Name: "large", MaxNodes: 3, Capacity: corev1.ResourceList{"cpu": resource.MustParse("48")}},
		{Name: "any size", Labels: map[string]string{"pool": "x"}},
	}
	listed := Shapes(q, pools)
	small, large := fluxion.Resources{"cpu": 1000, "pods": 1, fluxion.WholeNode: 1}, fluxion.Resources{"cpu": 9000, "pods": 1}
	sized := Sized(listed, []fluxion.Resources{small, large})
	if len(sized) != 3 || sized[0].Capacity["cpu"] != 48000 || sized[0].Capacity["pods"] != 110 || sized[1].Capacity["cpu"] != 1000 || sized[1].Capacity[fluxion.WholeNode] != 0 || sized[2].Capacity["cpu"] != 9000 {
		t.Errorf("got %+v", sized)
	}
	if got := sized[0].MostMore(1); got != 2 {
		t.Errorf("%d more of 3 of which one is there", got)
	}
	sized[0].Left = fluxion.Resources{"cpu": 50000, "memory": 1}
	if got := sized[0].MostMore(0); got != 1 {
		t.Errorf("%d more within the limit of the pool", got)
	}
	if got := sized[0].MostMore(9); got != 0 {
		t.Errorf("%d more of 3 of which nine are there", got)
	}
	if !sized[2].IsA(fixture.Node("n").Label("pool", "x").Obj()) || sized[2].IsA(fixture.Node("n").Obj()) {
		t.Error("it does not know its nodes")
	}
	zone := TopologyLevel{"zone", corev1.LabelTopologyZone}
	if got := listed[1].Domain(zone); got != "(any size)" {
		t.Errorf("the zone is %q", got)
	}
	if got := listed[1].Domain(TopologyLevel{"rack", "example.com/rack"}); got != "" {
		t.Errorf("the rack is %q", got)
	}
}
