// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func TestClusterDomain(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"a pod":             {"search apps.svc.cluster.local svc.cluster.local cluster.local example.com\nnameserver 10.0.0.10\noptions ndots:5\n", "cluster.local"},
		"a dot at the end":  {"nameserver 10.0.0.10\nsearch apps.svc.k8s.example.org svc.k8s.example.org. k8s.example.org\n", "k8s.example.org"},
		"a node":            {"nameserver 10.0.0.1\nsearch example.com\n", ""},
		"no search list":    {"nameserver 10.0.0.1\n", ""},
		"the last one here": {"search example.com\n\nsearch svc.cluster.local", "cluster.local"},
		"no file":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ClusterDomain(tc.file); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A domain is wrong only if the DNS says so.
func TestWrongDomain(t *testing.T) {
	none, silent := &net.DNSError{IsNotFound: true}, &net.DNSError{IsTimeout: true}
	for name, tc := range map[string]struct {
		cluster, spec string
		size          int32
		answer        error
		want          string
	}{
		"another":         {"k8s.example.org", "cluster.local", 2, none, `spec.network.clusterDomain is "cluster.local", which the DNS of this cluster does not have; the domain of this cluster is "k8s.example.org"`},
		"the same":        {"k8s.example.org", "k8s.example.org", 2, errors.New("nobody asks"), ""},
		"a second domain": {"k8s.example.org", "cluster.local", 2, nil, ""},
		"no answer":       {"k8s.example.org", "cluster.local", 2, silent, ""},
		"one broker":      {"k8s.example.org", "cluster.local", 1, none, ""},
		"not in a pod":    {"", "cluster.local", 2, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked, times := "", 0
			dns := &DNS{Domain: tc.cluster, LookupHost: func(_ context.Context, host string) ([]string, error) {
				asked = host
				times++
				return nil, tc.answer
			}}
			mc := fixture.MiniCluster("lmp").Size(tc.size).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Network.ClusterDomain = tc.spec }).Defaulted()
			for range 3 { // one question serves all for a minute
				if got, known := dns.wrongDomain(t.Context(), mc, fixture.Noon); got != tc.want || times > 1 || !known {
					t.Errorf("it says %q after %d questions", got, times)
				}
			}
			if dns.wrongDomain(t.Context(), mc, fixture.Noon.Add(2*time.Minute)); times == 1 {
				t.Error("it never asks again")
			}
			dns.asking = map[string]bool{mc.Namespace: true} // another of the namespace asks
			if got, known := dns.wrongDomain(t.Context(), mc, fixture.Noon.Add(2*time.Minute)); got != tc.want || !known {
				t.Errorf("it says %q meanwhile", got)
			}
			if got, known := dns.wrongDomain(t.Context(), mc, fixture.Noon.Add(4*time.Minute)); got != tc.want || !known {
				t.Errorf("it says %q meanwhile, when the answer is old", got)
			}
			dns.answers = nil
			if got, known := dns.wrongDomain(t.Context(), mc, fixture.Noon.Add(4*time.Minute)); got != "" || known != (times == 0) {
				t.Errorf("it says %q meanwhile, of what it does not know", got)
			}
			dns.asking = map[string]bool{"a": true, "b": true, "c": true, "d": true} // as many as may
			if got, known := dns.wrongDomain(t.Context(), mc, fixture.Noon.Add(4*time.Minute)); got != "" || known != (times == 0) {
				t.Errorf("it says %q while four other namespaces ask", got)
			}
			if tc.want != "" && asked != "kubernetes.default.svc.cluster.local." {
				t.Errorf("it asked for %q", asked)
			}
		})
	}
}

// Tenants name as many domains as they like: the oldest answer goes, and all others stay.
func TestMostAnswers(t *testing.T) {
	var dns DNS
	for i := range mostAnswers + 1 {
		dns.end("tenant", fmt.Sprint("domain-", i), answer{at: fixture.Noon.Add(time.Duration(i) * time.Second)})
	}
	if _, is := dns.answers["domain-0"]; is || len(dns.answers) != mostAnswers {
		t.Errorf("%d answers are kept, and the oldest is among them: %t", len(dns.answers), is)
	}
}
