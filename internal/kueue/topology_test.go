// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// withTopologies is a cluster whose queue has flavors with topologies, by their levels; "" is a flavor
// without one, and "gone" has a topology that does not exist.
func withTopologies(levels ...string) Cluster {
	c := cluster
	c.Queue = func(_ string, name kueueapi.LocalQueueName) *kueueapi.ClusterQueue {
		if name != "team" {
			return nil
		}
		queue := &kueueapi.ClusterQueue{}
		queue.Spec.ResourceGroups = make([]kueueapi.ResourceGroup, 1)
		group := &queue.Spec.ResourceGroups[0]
		for i := range levels {
			group.Flavors = append(group.Flavors, kueueapi.FlavorQuotas{Name: kueueapi.ResourceFlavorReference(fmt.Sprint("f", i))})
		}
		return queue
	}
	at := func(name string) string {
		var i int
		_, _ = fmt.Sscanf(name[1:], "%d", &i)
		return levels[i]
	}
	c.Flavor = func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
		flavor := &kueueapi.ResourceFlavor{}
		if at(string(name)) != "" {
			flavor.Spec.TopologyName = ptr.To(kueueapi.TopologyReference("t" + string(name[1:])))
		}
		return flavor
	}
	c.Topology = func(name kueueapi.TopologyReference) *kueueapi.Topology {
		if at(string(name)) == "gone" {
			return nil
		}
		topology := &kueueapi.Topology{}
		for label := range strings.SplitSeq(at(string(name)), ",") {
			topology.Spec.Levels = append(topology.Spec.Levels, kueueapi.TopologyLevel{NodeLabel: label})
		}
		return topology
	}
	return c
}

func TestTopologyRequest(t *testing.T) {
	const required, preferred = kueueapi.PodSetRequiredTopologyAnnotation, kueueapi.PodSetPreferredTopologyAnnotation
	const unconstrained = kueueapi.PodSetUnconstrainedTopologyAnnotation
	plain := func() *fixture.MiniClusterWrapper { return queued("a").Size(4) }
	by := func(mode v1alpha2.TopologyMode) *fixture.MiniClusterWrapper {
		return plain().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.TopologyKey, s.Placement.Topology = "rack", mode })
	}
	noQueue := withTopologies("rack")
	noQueue.Queue = func(string, kueueapi.LocalQueueName) *kueueapi.ClusterQueue { return nil }
	noFlavor := withTopologies("rack")
	noFlavor.Flavor = func(kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor { return nil }
	for name, tc := range map[string]struct {
		mc      *fixture.MiniClusterWrapper
		cluster Cluster
		want    string // or the error
	}{
		"a required level":                    {plain().PodAnnotation(required, "rack"), withTopologies("block,rack"), "required rack"},
		"a preferred level":                   {plain().PodAnnotation(preferred, "block"), withTopologies("block,rack"), "preferred block"},
		"anywhere":                            {plain().PodAnnotation(unconstrained, "true"), withTopologies("block,rack"), "unconstrained"},
		"by the required topologyKey":         {by(v1alpha2.TopologyRequired), withTopologies("block,rack"), "required rack"},
		"by the preferred topologyKey":        {by(v1alpha2.TopologyPreferred), withTopologies("block,rack"), "preferred rack"},
		"by topologyKey alone":                {by(""), withTopologies("block,rack"), "preferred rack"},
		"an annotation comes first":           {by(v1alpha2.TopologyRequired).PodAnnotation(preferred, "block"), withTopologies("block,rack"), "preferred block"},
		"nothing":                             {plain(), withTopologies("block,rack"), ""},
		"of flavors without a topology":       {by(v1alpha2.TopologyRequired).PodAnnotation(required, "rack"), withTopologies("", ""), ""},
		"of a queue that is not there":        {plain().PodAnnotation(required, "rack"), noQueue, `the LocalQueue "team" does not exist, or its ClusterQueue does not`},
		"nothing, of no queue":                {plain(), noQueue, ""},
		"of a topology that is not there":     {plain().PodAnnotation(required, "rack"), withTopologies("gone"), `the topology "t0" of its queue does not exist`},
		"of a flavor that is not there":       {by(v1alpha2.TopologyRequired), noFlavor, `the flavor "f0" of its queue does not exist`},
		"of one of two flavors":               {by(v1alpha2.TopologyRequired), withTopologies("", "rack"), "required rack"},
		"of the other of two flavors":         {by(v1alpha2.TopologyRequired), withTopologies("", "block"), ""},
		"an annotation for no level":          {plain().PodAnnotation(required, "zone"), withTopologies("", "block,rack", "rack,host"), `the level "zone" of ` + required + ` is not in the topology of its queue's flavors: their levels are block, rack, host`},
		"a topologyKey that is no level":      {by(v1alpha2.TopologyRequired), withTopologies("block,host"), `the level "rack" of placement.topologyKey is not in the topology of its queue's flavors: their levels are block, host`},
		"two annotations":                     {plain().PodAnnotation(required, "rack").PodAnnotation(preferred, "block"), withTopologies("block,rack"), "of the annotations " + required + " and " + preferred + " its pods can have only one"},
		"an annotation that says nothing":     {plain().PodAnnotation(unconstrained, "yes"), withTopologies("rack"), `the annotation ` + unconstrained + ` of its pods is "yes": it can be "true"`},
		"slices of pod sets":                  {plain().PodAnnotation(kueueapi.PodSetSliceRequiredTopologyAnnotation, "rack"), withTopologies("rack"), "the annotation " + kueueapi.PodSetSliceRequiredTopologyAnnotation + " of its pods is not supported"},
		"slices of pod sets in several tiers": {plain().PodAnnotation(kueueapi.PodSetSliceRequiredTopologyConstraintsAnnotation, "[]"), withTopologies("rack"), "the annotation " + kueueapi.PodSetSliceRequiredTopologyConstraintsAnnotation + " of its pods is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			mc := tc.mc.Defaulted()
			mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
			got, err := TopologyRequest(mc, tc.cluster)
			text := requestText(got)
			if err != nil {
				text = err.Error()
			}
			if text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
			if unknown := strings.HasSuffix(text, "does not exist") || strings.HasSuffix(text, "ClusterQueue does not"); errors.Is(err, ErrUnknown) != unknown {
				t.Errorf("unknown is %t: %v", !unknown, err)
			}
		})
	}
}

func requestText(r *kueueapi.PodSetTopologyRequest) string {
	switch {
	case r == nil:
		return ""
	case r.Required != nil:
		return "required " + *r.Required
	case r.Preferred != nil:
		return "preferred " + *r.Preferred
	}
	return "unconstrained"
}

// All pod sets ask for the same, and another request is another Workload.
func TestWorkloadWithTopology(t *testing.T) {
	request := &kueueapi.PodSetTopologyRequest{Required: ptr.To("rack")}
	mc, pod := queued("a").Size(4).Defaulted(), fixture.Pod("x").Obj()
	wl := Workload(mc, pod, nil, request, elastic.Deadlines{})
	for _, set := range wl.Spec.PodSets {
		if r := set.TopologyRequest; *r.Required != "rack" || *r.PodSetGroupName != group {
			t.Errorf("%s asks for %+v", set.Name, r)
		}
	}
	if request.PodSetGroupName != nil {
		t.Error("the request was changed")
	}
	if wl.Annotations[shapeAnnotation] == Workload(mc, pod, nil, nil, elastic.Deadlines{}).Annotations[shapeAnnotation] {
		t.Error("a Workload without the request has the same shape")
	}
	alone := Workload(queued("a").Size(1).Defaulted(), pod, nil, request, elastic.Deadlines{}).Spec.PodSets
	if len(alone) != 1 || *alone[0].TopologyRequest.Required != "rack" || alone[0].TopologyRequest.PodSetGroupName != nil {
		t.Errorf("the lead alone: %+v", alone)
	}
	if Workload(queued("a").Size(1).Defaulted(), pod, nil, nil, elastic.Deadlines{}).Spec.PodSets[0].TopologyRequest != nil {
		t.Error("the lead alone asks for something")
	}
}

// What a Workload asks for is read from it, whatever its size is, and also with a services pod.
func TestRequestOf(t *testing.T) {
	pod := fixture.Pod("x").Obj()
	for name, request := range map[string]*kueueapi.PodSetTopologyRequest{
		"nothing": nil, "required": {Required: ptr.To("rack")}, "preferred": {Preferred: ptr.To("rack")}, "anywhere": {Unconstrained: ptr.To(true)},
	} {
		for _, size := range []int32{1, 4} {
			wl := Workload(queued("a").Size(size).Defaulted(), pod, nil, request, elastic.Deadlines{})
			CountServices(wl, pod)
			before := wl.DeepCopy()
			if diff := cmp.Diff(request, RequestOf(wl)); diff != "" {
				t.Errorf("%s at %d:\n%s", name, size, diff)
			}
			if diff := cmp.Diff(before, wl); diff != "" {
				t.Errorf("the Workload was changed:\n%s", diff)
			}
		}
	}
}

// assign lets Kueue assign domains to pod sets.
func assign(assignments ...*kueueapi.TopologyAssignment) change {
	return func(wl *kueueapi.Workload) {
		for i, a := range assignments {
			wl.Status.Admission.PodSetAssignments[i].TopologyAssignment = a
		}
	}
}

// slice is a slice of an assignment: values by level ("a", or "pre|1 2|post") and counts.
func slice(counts []int32, levels ...string) kueueapi.TopologyAssignmentSlice {
	out := kueueapi.TopologyAssignmentSlice{DomainCount: 1}
	for _, level := range levels {
		parts := strings.Split(level, "|")
		if len(parts) == 1 {
			out.ValuesPerLevel = append(out.ValuesPerLevel, kueueapi.TopologyAssignmentSliceLevelValues{Universal: &level})
			continue
		}
		each := &kueueapi.TopologyAssignmentSliceLevelIndividualValues{Prefix: &parts[0], Roots: strings.Fields(parts[1]), Suffix: &parts[2]}
		out.ValuesPerLevel = append(out.ValuesPerLevel, kueueapi.TopologyAssignmentSliceLevelValues{Individual: each})
		out.DomainCount = int32(len(each.Roots))
	}
	if out.PodCounts.Individual = counts; len(counts) == 1 {
		out.PodCounts = kueueapi.TopologyAssignmentSlicePodCounts{Universal: &counts[0]}
	}
	return out
}

func assignment(levels string, of ...kueueapi.TopologyAssignmentSlice) *kueueapi.TopologyAssignment {
	return &kueueapi.TopologyAssignment{Levels: strings.Split(levels, ","), Slices: of}
}

func TestAssigned(t *testing.T) {
	const host = "kubernetes.io/hostname"
	in := waiting()
	for name, tc := range map[string]struct {
		lead, workers *kueueapi.TopologyAssignment
		want          *v1alpha2.QuotaTopology
		refused       string
	}{
		"none": {},
		"nodes that the pod sets share": {
			assignment(host, slice([]int32{1}, "node2")), assignment(host, slice([]int32{1}, "node|10 2 1|")),
			&v1alpha2.QuotaTopology{Levels: []string{host}, Domains: []v1alpha2.QuotaDomains{{Values: "node2", Brokers: 2}, {Values: "node[1,10]", Brokers: 1}}}, "",
		},
		"racks": {
			assignment("block,rack", slice([]int32{1}, "b1", "r1")),
			assignment("block,rack", slice([]int32{3, 4}, "b1", "r|1 2|"), slice([]int32{4}, "b|1 2|", "r|3 1|")),
			&v1alpha2.QuotaTopology{Levels: []string{"block", "rack"}, Domains: []v1alpha2.QuotaDomains{
				{Within: []string{"b1"}, Values: "r[1-3]", Brokers: 4}, {Within: []string{"b2"}, Values: "r1", Brokers: 4},
			}}, "",
		},
		"names with more than a number": {
			nil, assignment(host, slice([]int32{1}, "ip-10-0-|1-7 1-8|.ec2.internal")),
			&v1alpha2.QuotaTopology{Levels: []string{host}, Domains: []v1alpha2.QuotaDomains{{Values: "ip-10-0-1-7.ec2.internal,ip-10-0-1-8.ec2.internal", Brokers: 1}}}, "",
		},
		"of different levels": {assignment("rack", slice([]int32{1}, "r1")), assignment(host, slice([]int32{1}, "n1")), nil, "one pod set has the levels [rack], another [" + host + "]"},
		"without counts":      {nil, assignment("rack", slice([]int32{1, 2, 3}, "r|1 2|")), nil, "a slice of 2 domains has 1 levels and 3 counts"},
		"without values":      {nil, assignment("block,rack", slice([]int32{1, 2}, "r|1 2|")), nil, "a slice of 2 domains has 1 levels and 2 counts"},
		"with too few values": {nil, assignment("block,rack", slice([]int32{1, 2}, "b|1|", "r|1 2|")), nil, "a slice of 2 domains has other numbers of values"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Read(workload(withQuota(3), assign(tc.lead, tc.workers), admitted), in)
			if tc.refused != "" {
				if want := "has quota with a topology assignment that cannot be read: " + tc.refused; got.Placeable || got.Message != want {
					t.Errorf("got %+v, want %s", got, want)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got.Quota.Topology); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The status stays small: 1,000 nodes take a line.
func TestAssignmentIsSmall(t *testing.T) {
	var roots []string
	for i := range 1000 {
		roots = append(roots, fmt.Sprintf("%04d", i))
	}
	all := assignment("kubernetes.io/hostname", slice([]int32{1}, "node|"+strings.Join(roots, " ")+"|"))
	got := Read(workload(withQuota(3), assign(nil, all), admitted), waiting()).Quota.Topology
	if len(got.Domains) != 1 || got.Domains[0].Values != "node[0000-0999]" {
		t.Errorf("got %+v", got)
	}
}

// A MiniCluster waits for domains that Kueue assigns later, as after a ProvisioningRequest.
func TestDelayedAssignment(t *testing.T) {
	delayed := func(wl *kueueapi.Workload) {
		wl.Status.Admission.PodSetAssignments[1].DelayedTopologyRequest = ptr.To(kueueapi.DelayedTopologyRequestStatePending)
	}
	got := Read(workload(withQuota(3), delayed, check("placement", kueueapi.CheckStatePending)), waiting())
	if got.Placeable || got.Message != "has quota, and waits until Kueue assigns domains of the topology" {
		t.Errorf("got %+v", got)
	}
	domains := assignment("rack", slice([]int32{4}, "r1"))
	if got := Read(workload(withQuota(3), delayed, assign(domains, domains), check("placement", kueueapi.CheckStatePending)), waiting()); !got.Placeable {
		t.Errorf("with domains: %+v", got)
	}
}

// Quota that is granted anew has domains of its own.
func TestAssignmentOfTheReservation(t *testing.T) {
	first := Read(workload(withQuota(3), assign(nil, assignment("rack", slice([]int32{4}, "r1"))), admitted), waiting()).Quota
	again := workload(withQuota(3), assign(nil, assignment("rack", slice([]int32{4}, "r2"))), admitted)
	next := Read(again, waiting()).Quota
	mc, pod := queued("a").Size(4).Defaulted(), fixture.Pod("x").Obj()
	if state.Gang(mc, pod, first).Class == state.Gang(mc, pod, next).Class {
		t.Error("gangs in different domains count as alike")
	}
	if got := state.Request(mc, pod, next, nil).Domains; got.Key == state.Request(mc, pod, first, nil).Domains.Key {
		t.Error("different domains have the same key")
	}
}
