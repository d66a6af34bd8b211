// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// texts returns each endpoint as "slice name address".
func texts(some []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, slice := range some {
		for _, endpoint := range slice.Endpoints {
			out = append(out, fmt.Sprintf("%s %s %s", slice.Name, *endpoint.Hostname, strings.Join(endpoint.Addresses, ",")))
		}
	}
	return out
}

// host is the pod of a rank, in the domain of a Service.
func host(service string, rank int, ips ...string) Host {
	return Host{Rank: rank, Pod: "a", Service: service, IPs: ips}
}

func TestSlices(t *testing.T) {
	for name, tc := range map[string]struct {
		miniCluster string
		hosts       []Host
		want        []string
	}{
		"nothing without hosts": {"lmp", nil, nil},
		"a broker has JobSet's name and the operator's": {"lmp", []Host{host("flux-service", 0, "10.0.0.1"), host("flux-service", 2, "10.0.0.3")}, []string{
			"lmp.ipv4.0 lmp-0-0-0 10.0.0.1", "lmp.ipv4.0 lmp-0 10.0.0.1", "lmp.ipv4.0 lmp-w-0-1 10.0.0.3", "lmp.ipv4.0 lmp-2 10.0.0.3",
		}},
		"the services pod has one": {"lmp", []Host{host("lmp", -1, "10.0.0.9")}, []string{"lmp.ipv4.0 lmp-services 10.0.0.9"}},
		"two families": {"lmp", []Host{host("lmp", 0, "fd00::1", "10.0.0.1")}, []string{
			"lmp.ipv4.0 lmp-0-0-0 10.0.0.1", "lmp.ipv4.0 lmp-0 10.0.0.1", "lmp.ipv6.0 lmp-0-0-0 fd00::1", "lmp.ipv6.0 lmp-0 fd00::1",
		}},
		"many ranks": {"lmp", []Host{host("lmp", 249, "10.0.0.1"), host("lmp", 250, "10.0.0.2")}, []string{
			"lmp.ipv4.0 lmp-w-0-248 10.0.0.1", "lmp.ipv4.0 lmp-249 10.0.0.1", "lmp.ipv4.1 lmp-w-0-249 10.0.0.2", "lmp.ipv4.1 lmp-250 10.0.0.2",
		}},
		"the lead of another could be meant":   {"a-0-0", []Host{host("flux-service", 0, "10.0.0.1")}, []string{"a-0-0.ipv4.0 a-0-0-0-0-0 10.0.0.1"}},
		"a follower of another could be meant": {"a-w-0", []Host{host("flux-service", 0, "10.0.0.1")}, []string{"a-w-0.ipv4.0 a-w-0-0-0-0 10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster(tc.miniCluster).Size(300).Defaulted()
			got := Slices(mc, tc.hosts)
			if !slices.Equal(texts(got), tc.want) {
				t.Errorf("got %q, want %q", texts(got), tc.want)
			}
			for _, slice := range got {
				if slice.Labels[discoveryv1.LabelServiceName] != tc.hosts[0].Service || slice.Labels[discoveryv1.LabelManagedBy] != "flux-elastic" ||
					!metav1.IsControlledBy(slice, mc) || !*slice.Endpoints[0].Conditions.Ready || len(slice.Endpoints) > 1000 {
					t.Errorf("slice %+v", slice)
				}
			}
		})
	}
}

func TestSameNames(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Defaulted()
	of := func(ip string, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		slice := Slices(mc, []Host{host("lmp", 0, ip)})[0]
		change(slice)
		return slice
	}
	same := func(*discoveryv1.EndpointSlice) {}
	for name, tc := range map[string]struct {
		other *discoveryv1.EndpointSlice
		want  bool
	}{
		"the same":             {of("10.0.0.1", same), true},
		"read from the server": {of("10.0.0.1", func(s *discoveryv1.EndpointSlice) { s.ResourceVersion = "7" }), true},
		"another address":      {of("10.0.0.2", same), false},
		"another Service":      {of("10.0.0.1", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "net" }), false},
		"of an earlier owner":  {of("10.0.0.1", func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "earlier" }), false},
		"a name was taken out": {of("10.0.0.1", func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] }), false},
	} {
		if got := SameNames(of("10.0.0.1", same), tc.other); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
