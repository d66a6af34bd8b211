// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// LeadHost returns the host name that JobSet gives to the lead's pod.
func LeadHost(miniCluster string) string {
	return fmt.Sprintf("%s-%s-0-0", miniCluster, v1alpha2.LeadJob)
}

// Host returns the host name that JobSet gives to the pod of a rank: LeadHost for rank 0, and
// <jobset>-<replicated job>-<job index>-<pod index> for a follower.
func Host(miniCluster string, rank int) string {
	if rank == 0 {
		return LeadHost(miniCluster)
	}
	return fmt.Sprintf("%s-%s-0-%d", miniCluster, v1alpha2.WorkersJob, rank-1)
}

// maxHosts is the largest number of hosts in a hostlist of the user.
const maxHosts = 1_000_000

// member is a MiniCluster whose brokers are in the instance.
type member struct {
	name string
	size int
}

// members returns the MiniClusters of the instance, in the order of their ranks.
func members(mc *v1alpha2.MiniCluster) []member {
	own := member{mc.Name, int(mc.Spec.MostSize())}
	bursting := &mc.Spec.Flux.Bursting
	out := []member{own}
	if lead := bursting.LeadBroker; lead != nil {
		out[0] = member{lead.Name, int(lead.Size)}
	}
	for _, cluster := range bursting.Clusters {
		out = append(out, member{cluster.Name, int(cluster.Size)})
	}
	if !slices.ContainsFunc(out, func(m member) bool { return m.name == own.name }) {
		out = append(out, own)
	}
	return out
}

// ranges returns the member's hosts as hostlists (RFC 29) with at most one bracket each.
func (m member) ranges() []string {
	out := []string{LeadHost(m.name)}
	workers := fmt.Sprintf("%s-%s-0-", m.name, v1alpha2.WorkersJob)
	switch {
	case m.size == 2:
		out = append(out, workers+"0")
	case m.size > 2:
		out = append(out, fmt.Sprintf("%s[0-%d]", workers, m.size-2))
	}
	return out
}

// instance has the hosts of all brokers that the Flux instance can have, by rank. The order
// never changes, so that a rank keeps its host when MiniClusters grow and join.
type instance struct {
	// ranges are hostlists. The first one is the host of the lead broker alone.
	ranges []string
	size   int
}

func instanceOf(mc *v1alpha2.MiniCluster) (instance, error) {
	if mc.Spec.Flux.Bursting.Hostlist != "" {
		return givenInstance(mc)
	}
	var out instance
	seen := map[string]bool{}
	for _, m := range members(mc) {
		if seen[m.name] {
			return instance{}, fmt.Errorf("spec.flux.bursting has two MiniClusters of the name %q: their hosts would be the same", m.name)
		}
		seen[m.name] = true
		if m.name == mc.Name && m.size < int(mc.Spec.MostSize()) {
			return instance{}, fmt.Errorf("spec.flux.bursting gives this MiniCluster %d brokers, but maxSize is %d", m.size, mc.Spec.MostSize())
		}
		out.ranges = append(out.ranges, m.ranges()...)
		out.size += max(m.size, 1)
	}
	return out, nil
}

// givenInstance returns the hosts of the user's own hostlist. It fails if that list has a host
// twice, or lacks a host of this MiniCluster. A short list may have very many hosts, so it is read as ranges.
func givenInstance(mc *v1alpha2.MiniCluster) (instance, error) {
	bursting := &mc.Spec.Flux.Bursting
	list, err := hostlist.Parse(bursting.Hostlist, maxHosts)
	if err != nil {
		return instance{}, fmt.Errorf("spec.flux.bursting.hostlist: %w", err)
	}
	hosts := list.Set()
	if host := hosts.Twice(); host != "" {
		return instance{}, fmt.Errorf("spec.flux.bursting.hostlist has %s twice", host)
	}
	own := member{mc.Name, int(mc.Spec.MostSize())}
	for rank := range own.size {
		if host := Host(own.name, rank); !hosts.Has(host) {
			return instance{}, fmt.Errorf("spec.flux.bursting.hostlist has no %s, which is a host of this MiniCluster", host)
		}
	}
	// With this order, the ranks of the controller are the ranks of Flux.
	if bursting.LeadBroker == nil && !own.leads(list) {
		return instance{}, fmt.Errorf("spec.flux.bursting.hostlist has to begin with the hosts of this MiniCluster: %s", strings.Join(own.ranges(), ","))
	}
	out := instance{size: list.Len()}
	for first := range list.All() {
		out.ranges = append(out.ranges, first)
		break
	}
	if others := list.WithoutFirst(); others != "" {
		out.ranges = append(out.ranges, others)
	}
	return out, nil
}

// leads reports whether a list begins with the member's hosts, by their ranks.
func (m member) leads(list hostlist.List) bool {
	rank := 0
	for host := range list.All() {
		if rank == m.size || host != Host(m.name, rank) {
			break
		}
		rank++
	}
	return rank == m.size
}

// list returns all hosts as one hostlist.
func (i instance) list() string { return strings.Join(i.ranges, ",") }
