// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const (
	// leadInterval is the shortest time between two writes of names. The cache shows a write
	// after less.
	leadInterval = 50 * time.Millisecond
	// followersInterval is the same for changes that nobody waits for. Followers wait for the
	// lead's name alone, and their pods get addresses one by one.
	followersInterval = 500 * time.Millisecond
	// departuresInterval is the same if names only go: pods that end together end one by one, and the names of a MiniCluster
	// that has ended go all at once.
	departuresInterval = 10 * time.Second
)

// Hosts returns the pods whose names are published, by rank: the current ones that have an
// address and have not ended. Nothing is published for a MiniCluster that has ended.
func (v View) Hosts(o *life.Observation) []jobset.Host {
	if o.Admission == nil || o.Outcome != "" || o.Workload == life.Stale || o.Workload == life.Deleting {
		return nil
	}
	var hosts []jobset.Host
	add := func(rank int, pod *protocol.Pod) {
		if pod == nil || pod.Ended || len(pod.Status.PodIPs) == 0 {
			return
		}
		host := jobset.Host{Rank: rank, Pod: pod.Name, Service: pod.Spec.Subdomain}
		for _, ip := range pod.Status.PodIPs {
			host.IPs = append(host.IPs, ip.IP)
		}
		hosts = append(hosts, host)
	}
	brokers := v.Brokers()
	add(0, brokers[0])
	if v.MiniCluster.Spec.Flux.MinimalService {
		return hosts
	}
	for rank := 1; rank < len(o.Admission.Nodes); rank++ {
		add(rank, brokers[rank])
	}
	add(-1, v.servicesPod())
	return hosts
}

// servicesPod returns the newest services pod of the JobSet; nil if there is none.
func (v View) servicesPod() *protocol.Pod {
	var newest *protocol.Pod
	for i := range v.Pods {
		if pod := &v.Pods[i]; pod.Services && v.current(pod) && newer(pod, newest) {
			newest = pod
		}
	}
	return newest
}

// Names are the EndpointSlices of a MiniCluster, sorted by name.
type Names struct {
	Have, Want []*discoveryv1.EndpointSlice
	// Written is when slices were last written; zero if that is not known.
	Written time.Time
}

// Changes returns the slices to write and to delete now. Slices that exist have their resource
// version. If it is too early for the next write, again is the time of it; otherwise again is
// zero.
func (n Names) Changes(miniCluster string, now time.Time) (write, remove []*discoveryv1.EndpointSlice, again time.Time) {
	for _, want := range n.Want {
		have := named(n.Have, want.Name)
		switch {
		case have == nil:
			write = append(write, want)
		case !jobset.SameNames(have, want):
			changed := have.DeepCopy()
			changed.Labels, changed.OwnerReferences, changed.Endpoints = want.Labels, want.OwnerReferences, want.Endpoints
			write = append(write, changed)
		}
	}
	for _, have := range n.Have {
		if named(n.Want, have.Name) == nil {
			remove = append(remove, have)
		}
	}
	if len(write)+len(remove) == 0 {
		return nil, nil, time.Time{}
	}
	if next := n.Written.Add(n.interval(broker.LeadHost(miniCluster))); now.Before(next) {
		return nil, nil, next
	}
	return write, remove, time.Time{}
}

// interval is the shortest time between the last write of names and the next one.
func (n Names) interval(lead string) time.Duration {
	have, want := addresses(n.Have), addresses(n.Want)
	if len(n.Want) == 0 || !slices.Equal(have[lead], want[lead]) {
		return leadInterval
	}
	for hostname, of := range want {
		if !slices.Equal(have[hostname], of) {
			return followersInterval
		}
	}
	return departuresInterval
}

func named(some []*discoveryv1.EndpointSlice, name string) *discoveryv1.EndpointSlice {
	if i := slices.IndexFunc(some, func(s *discoveryv1.EndpointSlice) bool { return s.Name == name }); i >= 0 {
		return some[i]
	}
	return nil
}

// addresses returns the addresses that slices have, by host name.
func addresses(some []*discoveryv1.EndpointSlice) map[string][]string {
	out := map[string][]string{}
	for _, slice := range some {
		for i := range slice.Endpoints {
			hostname := ptr.Deref(slice.Endpoints[i].Hostname, "")
			out[hostname] = append(out[hostname], slice.Endpoints[i].Addresses...)
		}
	}
	return out
}
