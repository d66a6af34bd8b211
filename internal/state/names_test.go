// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// withIP gives a pod an address.
func withIP(pod *corev1.Pod, ips ...string) *corev1.Pod {
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return pod
}

func TestHosts(t *testing.T) {
	lead := func() *fixture.PodWrapper { return fixture.BrokerPod("lmp", 0).On("a") }
	follower := func() *fixture.PodWrapper { return fixture.BrokerPod("lmp", 1).On("b") }
	for name, tc := range map[string]struct {
		pods   []*corev1.Pod
		change func(*View, *life.Observation)
		want   string
	}{
		"all that have addresses": {
			[]*corev1.Pod{withIP(follower().Obj(), "10.0.0.2"), withIP(lead().Obj(), "10.0.0.1"), withIP(fixture.ServicesPod("lmp").On("c").Obj(), "10.0.0.3")},
			nil, "0 10.0.0.1, 1 10.0.0.2, -1 10.0.0.3",
		},
		"of both families":       {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1", "fd00::1")}, nil, "0 10.0.0.1 fd00::1"},
		"not without an address": {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1"), follower().Obj()}, nil, "0 10.0.0.1"},
		"while it leaves":        {[]*corev1.Pod{withIP(follower().Leaving().Obj(), "10.0.0.2")}, nil, "1 10.0.0.2"},
		"not when it has ended":  {[]*corev1.Pod{withIP(follower().Ended(1).Obj(), "10.0.0.2")}, nil, ""},
		"not of a JobSet before": {[]*corev1.Pod{withIP(lead().Label(jobsetapi.JobSetUIDKey, "before").Obj(), "10.0.0.1")}, nil, ""},
		"the one that replaces":  {[]*corev1.Pod{withIP(follower().Leaving().Obj(), "10.0.0.2"), withIP(follower().Named("new").Created(fixture.Noon.Add(time.Hour)).Obj(), "10.0.0.4")}, nil, "1 10.0.0.4"},
		"not of another rank":    {[]*corev1.Pod{withIP(fixture.BrokerPod("lmp", 2).On("c").Obj(), "10.0.0.5")}, nil, ""},
		"not at the end":         {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1")}, func(_ *View, o *life.Observation) { o.Outcome = life.OutcomeSucceeded }, ""},
		"not of another attempt": {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1")}, func(_ *View, o *life.Observation) { o.Workload = life.Stale }, ""},
		"not without admission":  {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1")}, func(_ *View, o *life.Observation) { o.Admission = nil }, ""},
		"in the domain of their pods": {
			[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1")}, func(v *View, _ *life.Observation) { v.MiniCluster.Spec.Network.HeadlessName = "edited" }, "0 10.0.0.1",
		},
		"the lead's alone": {[]*corev1.Pod{withIP(lead().Obj(), "10.0.0.1"), withIP(follower().Obj(), "10.0.0.2")}, func(v *View, _ *life.Observation) { v.MiniCluster.Spec.Flux.MinimalService = true }, "0 10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := view(nil)
			v.Pods = read(tc.pods...)
			o, err := Observe(v)
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(&v, o)
			}
			got := ""
			for _, host := range v.Hosts(o) {
				if host.Service != "lmp" {
					t.Errorf("rank %d is in the domain %q", host.Rank, host.Service)
				}
				if got != "" {
					got += ", "
				}
				got += fmt.Sprint(host.Rank)
				for _, ip := range host.IPs {
					got += " " + ip
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChangesOfNames(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(600).Defaulted()
	publish := func(hosts ...jobset.Host) []*discoveryv1.EndpointSlice { return jobset.Slices(mc, hosts) }
	stored := func(hosts ...jobset.Host) []*discoveryv1.EndpointSlice {
		some := publish(hosts...)
		for _, slice := range some {
			slice.ResourceVersion = "7"
		}
		return some
	}
	lead, moved := jobset.Host{Rank: 0, IPs: []string{"10.0.0.1"}}, jobset.Host{Rank: 0, IPs: []string{"10.0.0.2"}}
	follower, far := jobset.Host{Rank: 1, IPs: []string{"10.0.1.1"}}, jobset.Host{Rank: 260, IPs: []string{"10.0.1.2"}}
	for name, tc := range map[string]struct {
		have, want    []*discoveryv1.EndpointSlice
		after         time.Duration // since the last write
		write, remove []string
		again         time.Duration // from now
	}{
		"nothing has changed":           {have: stored(lead, follower), want: publish(lead, follower)},
		"the first are written at once": {want: publish(follower), after: time.Hour, write: []string{"lmp.ipv4.0"}},
		"the lead's name at once":       {have: stored(follower), want: publish(lead, follower), after: 60 * time.Millisecond, write: []string{"lmp.ipv4.0 7"}},
		"a new lead's name at once":     {have: stored(lead), want: publish(moved), after: 60 * time.Millisecond, write: []string{"lmp.ipv4.0 7"}},
		"once the cache shows the last": {want: publish(lead), after: 20 * time.Millisecond, again: 30 * time.Millisecond},
		"followers' together":           {have: stored(lead), want: publish(lead, follower), after: 200 * time.Millisecond, again: 300 * time.Millisecond},
		"when it is time":               {have: stored(lead), want: publish(lead, follower), after: 500 * time.Millisecond, write: []string{"lmp.ipv4.0 7"}},
		"only what has changed":         {have: stored(lead, far), want: publish(lead, follower, far), after: time.Hour, write: []string{"lmp.ipv4.0 7"}},
		"a follower's that has gone":    {have: stored(lead, follower), want: publish(lead), after: time.Second, again: 9 * time.Second},
		"one has gone, one has come":    {have: stored(lead, follower), want: publish(lead, far), after: time.Second, write: []string{"lmp.ipv4.0 7", "lmp.ipv4.1"}},
		"a slice without hosts goes":    {have: stored(lead, far), want: publish(lead), after: time.Hour, remove: []string{"lmp.ipv4.1 7"}},
		"at the end all go at once":     {have: stored(lead, far), after: 60 * time.Millisecond, remove: []string{"lmp.ipv4.0 7", "lmp.ipv4.1 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			written := fixture.Noon
			now := written.Add(tc.after)
			write, remove, again := Names{Have: tc.have, Want: tc.want, Written: written}.Changes("lmp", now)
			if got := versions(write); !slices.Equal(got, tc.write) {
				t.Errorf("writes %q, want %q", got, tc.write)
			}
			if got := versions(remove); !slices.Equal(got, tc.remove) {
				t.Errorf("deletes %q, want %q", got, tc.remove)
			}
			if (tc.again == 0) != again.IsZero() || (tc.again > 0 && !again.Equal(now.Add(tc.again))) {
				t.Errorf("again at %s, want in %s", again, tc.again)
			}
			for _, slice := range write {
				if i := slices.IndexFunc(tc.want, func(s *discoveryv1.EndpointSlice) bool { return s.Name == slice.Name }); !jobset.SameNames(slice, tc.want[i]) {
					t.Errorf("writes %+v", slice)
				}
			}
		})
	}
}

// versions returns the names of slices with their resource versions.
func versions(some []*discoveryv1.EndpointSlice) []string {
	var out []string
	for _, slice := range some {
		text := slice.Name
		if slice.ResourceVersion != "" {
			text += " " + slice.ResourceVersion
		}
		out = append(out, text)
	}
	return out
}
