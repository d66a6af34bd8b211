// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// topologyKey is the field of a MiniCluster that asks for a topology where no annotation does.
const topologyKey = "placement.topologyKey"

// ErrUnknown says that an object is missing by which a MiniCluster asks for a topology.
var ErrUnknown = errors.New("does not exist")

// TopologyRequest is what the pod sets of a MiniCluster ask of the topologies of its queue's flavors:
// by Kueue's annotations of the pods, or else by placement.topologyKey. It is nil if they ask for
// nothing, or if no flavor has a topology: Kueue never admits a Workload that asks for one then. It is
// ErrUnknown if an object is missing that says which topologies there are: Kueue gives no quota meanwhile,
// and a Workload that asks for none would lose its place in the queue later.
func TopologyRequest(mc *v1alpha2.MiniCluster, cluster Cluster) (*kueueapi.PodSetTopologyRequest, error) {
	by, level, wrong := requested(mc)
	if by == "" && wrong == nil {
		return nil, nil
	}
	levels, only, err := topologyLevels(mc, cluster)
	request := &kueueapi.PodSetTopologyRequest{}
	switch {
	case err != nil, len(levels) == 0:
		return nil, err
	case wrong != nil:
		return nil, wrong
	case by == topologyKey && !only && !slices.Contains(levels, level):
		return nil, nil // the other flavors are used, on whose nodes this project places the gang
	case by == kueueapi.PodSetUnconstrainedTopologyAnnotation:
		request.Unconstrained = ptr.To(true)
		return request, nil
	case !slices.Contains(levels, level):
		return nil, fmt.Errorf("the level %q of %s is not in the topology of its queue's flavors: their levels are %s", level, by, strings.Join(levels, ", "))
	case by == kueueapi.PodSetRequiredTopologyAnnotation, by == topologyKey && mc.Spec.Placement.Topology == v1alpha2.TopologyRequired:
		request.Required = &level
	default:
		request.Preferred = &level
	}
	return request, nil
}

// RequestOf is the TopologyRequest with which a Workload was made.
func RequestOf(wl *kueueapi.Workload) *kueueapi.PodSetTopologyRequest {
	from := ptr.Deref(wl.Spec.PodSets[0].TopologyRequest, kueueapi.PodSetTopologyRequest{}) // of the lead
	if from.Required == nil && from.Preferred == nil && from.Unconstrained == nil {
		return nil
	}
	return &kueueapi.PodSetTopologyRequest{Required: from.Required, Preferred: from.Preferred, Unconstrained: from.Unconstrained}
}

// requested says what asks for a topology, an annotation or topologyKey, and for which level.
func requested(mc *v1alpha2.MiniCluster) (by, level string, err error) {
	annotations := mc.Spec.Pod.Annotations
	for _, key := range []string{kueueapi.PodSetSliceRequiredTopologyAnnotation, kueueapi.PodSetSliceRequiredTopologyConstraintsAnnotation} {
		if _, found := annotations[key]; found {
			return "", "", fmt.Errorf("the annotation %s of its pods is not supported", key)
		}
	}
	for _, key := range []string{kueueapi.PodSetRequiredTopologyAnnotation, kueueapi.PodSetPreferredTopologyAnnotation, kueueapi.PodSetUnconstrainedTopologyAnnotation} {
		value, found := annotations[key]
		switch {
		case found && by != "":
			return "", "", fmt.Errorf("of the annotations %s and %s its pods can have only one", by, key)
		case found:
			by, level = key, value
		}
	}
	if by == kueueapi.PodSetUnconstrainedTopologyAnnotation && level != "true" {
		return "", "", fmt.Errorf("the annotation %s of its pods is %q: it can be \"true\"", by, level)
	}
	if key := mc.Spec.Placement.TopologyKey; by == "" && key != "" {
		return topologyKey, key, nil
	}
	return by, level, nil
}

// topologyLevels are the levels of the topologies of the flavors of a MiniCluster's queue. only is true
// if all flavors have a topology.
func topologyLevels(mc *v1alpha2.MiniCluster, cluster Cluster) (levels []string, only bool, err error) {
	name := mc.Labels[v1alpha2.KueueQueueLabel]
	queue := cluster.Queue(mc.Namespace, kueueapi.LocalQueueName(name))
	if queue == nil {
		return nil, false, fmt.Errorf("the LocalQueue %q %w, or its ClusterQueue does not", name, ErrUnknown)
	}
	only = true
	for _, group := range queue.Spec.ResourceGroups {
		for i := range group.Flavors {
			flavor := cluster.Flavor(group.Flavors[i].Name)
			if flavor == nil {
				return nil, false, fmt.Errorf("the flavor %q of its queue %w", group.Flavors[i].Name, ErrUnknown)
			}
			if flavor.Spec.TopologyName == nil {
				only = false
				continue
			}
			topology := cluster.Topology(*flavor.Spec.TopologyName)
			if topology == nil {
				return nil, false, fmt.Errorf("the topology %q of its queue %w", *flavor.Spec.TopologyName, ErrUnknown)
			}
			for _, level := range topology.Spec.Levels {
				if !slices.Contains(levels, level.NodeLabel) {
					levels = append(levels, level.NodeLabel)
				}
			}
		}
	}
	return levels, only, nil
}

// awaitsTopology reports whether Kueue will assign domains to a Workload with quota only later.
func awaitsTopology(wl *kueueapi.Workload) bool {
	return slices.ContainsFunc(wl.Status.Admission.PodSetAssignments, func(set kueueapi.PodSetAssignment) bool {
		return set.TopologyAssignment == nil && ptr.Deref(set.DelayedTopologyRequest, "") == kueueapi.DelayedTopologyRequestStatePending
	})
}

// hasTopology reports whether Kueue assigned domains to a Workload with quota.
func hasTopology(wl *kueueapi.Workload) bool {
	return slices.ContainsFunc(wl.Status.Admission.PodSetAssignments, func(set kueueapi.PodSetAssignment) bool { return set.TopologyAssignment != nil })
}

var errTopology = errors.New("has quota with a topology assignment that cannot be read")

// assigned is where Kueue counts the pods of some pod sets of a Workload with quota; nil if their flavors
// have no topology.
func assigned(wl *kueueapi.Workload, counts func(kueueapi.PodSetReference) bool) (*v1alpha2.QuotaTopology, error) {
	var out *v1alpha2.QuotaTopology
	var all []domain
	for i := range wl.Status.Admission.PodSetAssignments {
		set := &wl.Status.Admission.PodSetAssignments[i]
		from := set.TopologyAssignment
		switch {
		case from == nil || !counts(set.Name):
			continue
		case out == nil:
			out = &v1alpha2.QuotaTopology{Levels: from.Levels}
		case !slices.Equal(out.Levels, from.Levels):
			return nil, fmt.Errorf("%w: one pod set has the levels %v, another %v", errTopology, out.Levels, from.Levels)
		}
		for j := range from.Slices {
			domains, err := domainsOf(&from.Slices[j], len(from.Levels))
			if err != nil {
				return nil, err
			}
			all = append(all, domains...)
		}
	}
	if out != nil {
		out.Domains = compact(all)
	}
	return out, nil
}

// domain is one domain of an assignment: its values by level, and its pods.
type domain struct {
	values []string
	count  int32
}

// domainsOf are the domains of one slice of an assignment.
func domainsOf(slice *kueueapi.TopologyAssignmentSlice, levels int) ([]domain, error) {
	n, counts := int(slice.DomainCount), slice.PodCounts
	if levels == 0 || len(slice.ValuesPerLevel) != levels || (counts.Universal == nil && len(counts.Individual) != n) {
		return nil, fmt.Errorf("%w: a slice of %d domains has %d levels and %d counts", errTopology, n, len(slice.ValuesPerLevel), len(counts.Individual))
	}
	domains := make([]domain, n)
	for i := range domains {
		d := &domains[i]
		if counts.Universal != nil {
			d.count = *counts.Universal
		} else {
			d.count = counts.Individual[i]
		}
		for _, level := range slice.ValuesPerLevel {
			switch each := level.Individual; {
			case level.Universal != nil:
				d.values = append(d.values, *level.Universal)
			case each != nil && len(each.Roots) == n:
				d.values = append(d.values, ptr.Deref(each.Prefix, "")+each.Roots[i]+ptr.Deref(each.Suffix, ""))
			default:
				return nil, fmt.Errorf("%w: a slice of %d domains has other numbers of values", errTopology, n)
			}
		}
	}
	return domains, nil
}

// compact adds up the pods of each domain, and puts domains together that differ in the innermost
// level alone.
func compact(domains []domain) []v1alpha2.QuotaDomains {
	slices.SortStableFunc(domains, func(a, b domain) int {
		return slices.CompareFunc(a.values, b.values, hostlist.Compare)
	})
	var sums []domain
	for _, d := range domains {
		if last := len(sums) - 1; last >= 0 && slices.Equal(sums[last].values, d.values) {
			sums[last].count += d.count
		} else {
			sums = append(sums, d)
		}
	}
	outer := func(d domain) []string { return d.values[:len(d.values)-1] }
	slices.SortStableFunc(sums, func(a, b domain) int { // the order within equal ones stays
		return cmp.Or(slices.Compare(outer(a), outer(b)), cmp.Compare(b.count, a.count))
	})
	var out []v1alpha2.QuotaDomains
	for from := 0; from < len(sums); {
		first, values := sums[from], []string(nil)
		for ; from < len(sums) && sums[from].count == first.count && slices.Equal(outer(sums[from]), outer(first)); from++ {
			values = append(values, sums[from].values[len(first.values)-1])
		}
		out = append(out, v1alpha2.QuotaDomains{Within: append([]string(nil), outer(first)...), Values: hostlist.Encode(values), Brokers: first.count})
	}
	return out
}
