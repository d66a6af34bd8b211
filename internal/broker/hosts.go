// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// LeadHost is the host name of the lead's pod, as JobSet makes it:
// <jobset>-<replicated job>-<job index>-<pod index>.
func LeadHost(miniCluster string) string {
	return fmt.Sprintf("%s-%s-0-0", miniCluster, v1alpha2.LeadJob)
}

// Hosts are the host names of all brokers that the MiniCluster can have, by rank.
// The order never changes, so that a rank keeps its host as the MiniCluster grows.
func Hosts(mc *v1alpha2.MiniCluster) []string {
	hosts := []string{LeadHost(mc.Name)}
	for i := range int(mc.Spec.MaxSize) - 1 {
		hosts = append(hosts, fmt.Sprintf("%s-%s-0-%d", mc.Name, v1alpha2.WorkersJob, i))
	}
	return hosts
}

// hostRanges are the hosts as host lists (RFC 29) of one bracket each, in the
// order of ranks.
func hostRanges(mc *v1alpha2.MiniCluster) []string {
	hosts := Hosts(mc)
	ranges := []string{hosts[0]}
	if len(hosts) > 1 {
		ranges = append(ranges, hostlist.Encode(hosts[1:]))
	}
	return slices.Clip(ranges)
}
