// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// A broker has two host names: that of its pod, which JobSet gives, and that of the Flux Operator, <name>-<rank>. DNS has
// both. Flux calls a host as the Flux Operator does, since scripts and hostlists of users do.

// LeadHost returns the host name of the lead's pod.
func LeadHost(miniCluster string) string {
	return fmt.Sprintf("%s-%s-0-0", miniCluster, v1alpha2.LeadJob)
}

// PodHost returns the host name that JobSet gives to the pod of a rank: LeadHost for rank 0, and
// <jobset>-<replicated job>-<job index>-<pod index> for a follower.
func PodHost(miniCluster string, rank int) string {
	if rank == 0 {
		return LeadHost(miniCluster)
	}
	return fmt.Sprintf("%s-%s-0-%d", miniCluster, v1alpha2.WorkersJob, rank-1)
}

// OperatorHost returns the host name that the Flux Operator gives to a rank.
func OperatorHost(miniCluster string, rank int) string {
	return fmt.Sprintf("%s-%d", miniCluster, rank)
}

// Ambiguous reports whether the Flux Operator's names of hosts could be names of pods of another MiniCluster: rank 0 of
// "a-0-0" would be called like the lead's pod of "a". All MiniClusters of an instance find the same.
func Ambiguous(miniCluster string) bool {
	return strings.HasSuffix(miniCluster, "-"+v1alpha2.LeadJob+"-0") || strings.HasSuffix(miniCluster, "-"+v1alpha2.WorkersJob+"-0")
}

// namesPods reports whether Flux calls the hosts of a MiniCluster as their pods: the Flux Operator's names are ambiguous, or
// the user's own hostlist or configuration has the names of the pods.
func namesPods(mc *v1alpha2.MiniCluster) bool {
	lead, config := LeadHost(mc.Name), mc.Spec.Flux.BrokerConfig
	list, err := hostlist.Parse(mc.Spec.Flux.Bursting.Hostlist, maxHosts)
	hosts := list.Set()
	if Ambiguous(mc.Name) || err == nil && hosts.Has(lead) {
		return true
	}
	return strings.Contains(config, lead) && regexp.MustCompile(`(?m)^[^#]*\bhost\s*=\s*["']`+regexp.QuoteMeta(lead)+`[,"']`).MatchString(config)
}

// maxHosts is the largest number of hosts in a hostlist of the user.
const maxHosts = 1_000_000

// member is a MiniCluster whose brokers are in the instance.
type member struct {
	name string
	size int
	// pods is true if its hosts are called as their pods.
	pods bool
}

// memberOf is a MiniCluster as a member.
func memberOf(mc *v1alpha2.MiniCluster) member {
	return member{mc.Name, int(mc.Spec.MostSize()), namesPods(mc)}
}

// host returns what Flux calls the host of a rank.
func (m member) host(rank int) string {
	if m.pods {
		return PodHost(m.name, rank)
	}
	return OperatorHost(m.name, rank)
}

// members returns the MiniClusters of the instance, in the order of their ranks.
func members(mc *v1alpha2.MiniCluster) []member {
	own, bursting := memberOf(mc), &mc.Spec.Flux.Bursting
	other := func(name string, size int32) member { return member{name, int(size), Ambiguous(name)} }
	out := []member{own}
	if lead := bursting.LeadBroker; lead != nil {
		out[0] = other(lead.Name, lead.Size)
	}
	for _, cluster := range bursting.Clusters {
		out = append(out, other(cluster.Name, cluster.Size))
	}
	if !slices.ContainsFunc(out, func(m member) bool { return m.name == own.name }) {
		out = append(out, own)
	}
	return out
}

// ranges returns the member's hosts as hostlists (RFC 29) with at most one bracket each.
func (m member) ranges() []string {
	out, prefix, first := []string{m.host(0)}, m.name+"-", 1
	if m.pods {
		prefix, first = fmt.Sprintf("%s-%s-0-", m.name, v1alpha2.WorkersJob), 0
	}
	switch {
	case m.size == 2:
		out = append(out, m.host(1))
	case m.size > 2:
		out = append(out, fmt.Sprintf("%s[%d-%d]", prefix, first, first+m.size-2))
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
	own := memberOf(mc)
	for rank := range own.size {
		if host := own.host(rank); !hosts.Has(host) {
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
		if rank == m.size || host != m.host(rank) {
			break
		}
		rank++
	}
	return rank == m.size
}

// list returns all hosts as one hostlist.
func (i instance) list() string { return strings.Join(i.ranges, ",") }
