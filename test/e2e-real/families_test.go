// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Brokers of two nodes find each other whatever families the addresses of pods have, and in whatever order. Flux uses one
// family: IPv4 if pods have IPv4. A broker that comes later finds the lead too.
func TestFamilies(t *testing.T) {
	const ipv4, ipv6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, families := range map[string][]corev1.IPFamily{"IPv4-first": {ipv4, ipv6}, "IPv6-first": {ipv6, ipv4}, "IPv6-alone": {ipv6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := up(t, 2, families...)
			c.manage()
			shell := "flux run -N2 -n2 echo task; echo first; " + until("go") + "; flux run -N2 -n2 echo again"
			m := c.make("families", best(), "launcher: true, "+command(shell), "size: 2, tasks: 2, placement: {exclusive: true}")
			m.awaitRunning()
			m.says("task\ntask\nfirst")
			for rank := range 2 {
				checkFamilies(t, m.podIs(rank, "is ready", ready), families)
			}
			before := m.pod(1)
			c.must("delete", "pod", before.Name)
			m.podIs(1, "is another one, and ready", func(pod *corev1.Pod) bool { return pod.UID != before.UID && ready(pod) })
			m.open("go")
			m.awaitEnd(v1alpha2.ReasonSucceeded)
			m.says("again\nagain")
		})
	}
}

func checkFamilies(t *testing.T, pod *corev1.Pod, want []corev1.IPFamily) {
	t.Helper()
	var got []corev1.IPFamily
	for _, ip := range pod.Status.PodIPs {
		family := corev1.IPv4Protocol
		if strings.Contains(ip.IP, ":") {
			family = corev1.IPv6Protocol
		}
		got = append(got, family)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v, and not addresses of %v", pod.Name, pod.Status.PodIPs, want)
	}
}
