// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// One line of an error lists everything that is missing.
func TestWhatRealNodesNeed(t *testing.T) {
	there := requirement{name: "ip", pkg: "iproute2", path: func() (string, error) { return "/sbin/ip", nil }}
	lacks := func(name, pkg string) requirement {
		return requirement{name: name, pkg: pkg, path: func() (string, error) { return "", exec.ErrNotFound }}
	}
	for _, test := range []struct {
		user   int
		needed []requirement
		want   string
	}{
		{0, []requirement{there}, ""},
		{1000, []requirement{there}, "MODE=real needs root"},
		{0, []requirement{lacks("containerd", "containerd"), there, lacks("ctr", "containerd"), lacks("runc", "runc")},
			"MODE=real needs containerd, ctr, runc: apt-get install containerd runc"},
		{1000, []requirement{lacks("runc", "runc")}, "MODE=real needs root, runc: apt-get install runc"},
	} {
		got := ""
		if err := checkAll(test.user, test.needed); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("says %q, want %q", got, test.want)
		}
	}
	err := CheckReal(map[string]string{"no-such-command": "no-such-package"})
	if err == nil || !strings.Contains(err.Error(), "no-such-command") || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("another command that is missing: %v", err)
	}
}

func TestConfigOfRealNodes(t *testing.T) {
	for want, config := range map[string]Config{
		"cannot be in /var/lib/": {Dir: "/var/lib/cluster", Real: RealConfig{Count: 1}},
		"can have 63":            {Dir: "/tmp/cluster", Real: RealConfig{Count: 64}},
		"no simulated ones":      {Dir: "/tmp/cluster", Real: RealConfig{Count: 1}, Nodes: NodeConfig{Count: 1}},
		"no Karpenter":           {Dir: "/tmp/cluster", Real: RealConfig{Count: 1}, Karpenter: &KarpenterConfig{}},
	} {
		if err := config.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	if err := (&Config{Dir: "/var/lib/cluster"}).check(); err != nil {
		t.Errorf("simulated nodes: %v", err)
	}
}

// Different nodes and clusters have different addresses and names.
func TestNetwork(t *testing.T) {
	n, other := networkOf("/home/me/.local", 0), networkOf("/home/you/.local", 0)
	if n.Name == other.Name {
		t.Errorf("two clusters are called %s", n.Name)
	}
	seen := map[netip.Prefix]bool{}
	for i := range networks {
		prefix := networkOf("/home/me/.local", i).Prefix
		if prefix != prefix.Masked() || !netip.MustParsePrefix("10.192.0.0/10").Contains(prefix.Addr()) || seen[prefix] {
			t.Errorf("choice %d is %s", i, prefix)
		}
		seen[prefix] = true
	}
	server := add(n.Prefix.Addr(), 77)
	if got, err := freeNetwork("/home/me/.local", nameServers(fmt.Sprintf("search here\nnameserver ::1\nnameserver %s\n", server))); err != nil || got.Prefix.Contains(server) {
		t.Errorf("with a name server at %s: %s, %v", server, got.Prefix, err)
	}
	taken := map[netip.Addr]bool{n.gateway(): true}
	for i := range maxNodes {
		first, last := n.pods(i)
		if last.Compare(first) <= 0 || !n.Prefix.Contains(last) {
			t.Errorf("pods of node %d: %s to %s", i, first, last)
		}
		for _, address := range []netip.Addr{n.node(i), first, last} {
			if !n.Prefix.Contains(address) || taken[address] {
				t.Errorf("%s of node %d", address, i)
			}
			taken[address] = true
		}
		if port := n.port(i); len(port) > 15 || !strings.HasPrefix(port, n.Name) {
			t.Errorf("an interface cannot be called %s", port)
		}
	}
	if got := mac(netip.MustParseAddr("10.192.1.255")); got != "0a:58:0a:c0:01:ff" {
		t.Errorf("hardware address %s", got)
	}
}

// An IPv6 address is in the cluster's own part of these, and each address is in the place of its family.
func TestFamilies(t *testing.T) {
	const ipv4, ipv6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	n, other := networkOf("/home/me/.local", 0), networkOf("/home/me/.local", 1)
	for _, tc := range []struct {
		families    []corev1.IPFamily
		ofInterface int // how many addresses
	}{
		{[]corev1.IPFamily{ipv4}, 1}, {[]corev1.IPFamily{ipv4, ipv6}, 2}, {[]corev1.IPFamily{ipv6, ipv4}, 2}, {[]corev1.IPFamily{ipv6}, 2},
	} {
		n.Families = tc.families
		for i, address := range n.each(n.node(maxNodes - 1)) {
			prefix := n.prefix(address)
			if address.Is6() != (tc.families[i] == ipv6) || !prefix.Contains(address) || prefix != prefix.Masked() || prefix.Overlaps(other.prefix(address)) {
				t.Errorf("%v: address %d is %s of %s", tc.families, i, address, prefix)
			}
		}
		if got := n.ofInterface(n.gateway()); len(got) != tc.ofInterface || got[0] != n.gateway().String()+"/18" {
			t.Errorf("%v: the bridge has %q", tc.families, got)
		}
	}
}

// kind makes and deletes a cluster by these commands. The directory records the cluster before it is
// made.
func TestKind(t *testing.T) {
	path, dir := t.TempDir(), t.TempDir()
	log := filepath.Join(path, "log")
	t.Setenv("PATH", path)
	if _, err := UpKind(t.Context(), dir, 2); err == nil || !strings.HasPrefix(err.Error(), "MODE=kind needs ") ||
		!strings.Contains(err.Error(), "kind (https://kind.sigs.k8s.io)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without kind: %v", err)
	}
	writeScript(t, filepath.Join(path, "docker"), "")
	writeScript(t, filepath.Join(path, "kind"), `[ -s `+kindFile(dir)+` ] && echo "$*" >>`+log)
	kubeconfig, err := UpKind(t.Context(), dir, 2)
	if err != nil || kubeconfig != filepath.Join(dir, "kubeconfig") {
		t.Fatal(kubeconfig, err)
	}
	if _, err := UpKind(t.Context(), dir, 2); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second one: %v", err)
	}
	if err := Down(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), dir); err != nil { // there is none
		t.Error(err)
	}
	name := networkOf(dir, 0).Name
	want := "create cluster --name=" + name + " --config=" + dir + "/config/kind.yaml --kubeconfig=" + kubeconfig + " --wait=3m\n" +
		"delete cluster --name=" + name + "\n"
	if got, err := os.ReadFile(log); err != nil || string(got) != want {
		t.Errorf("kind was run as\n%s%v, want\n%s", got, err, want)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config", "kind.yaml"))
	if err != nil || strings.Count(string(config), "- role: worker\n") != 2 {
		t.Errorf("%s%v", config, err)
	}
	// A cluster that could not be made is deleted.
	writeScript(t, filepath.Join(path, "kind"), `echo "$*" >>`+log+`; [ "$1" = delete ]`)
	if _, err := UpKind(t.Context(), dir, 1); err == nil || exists(kindFile(dir)) {
		t.Errorf("a failure: %v", err)
	}
}
