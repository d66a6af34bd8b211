// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// RealConfig describes real nodes. Each is a containerd and a kubelet in namespaces of their own. All
// nodes are on one network.
type RealConfig struct {
	// Count is the number of nodes. Their names are real-0, real-1, ...
	Count int
	// Images are archives that every node imports, including the pause image. Nodes pull no
	// images.
	Images []string
	// Families are those of the addresses of pods and nodes, the first one preferred. Default IPv4 alone.
	Families []corev1.IPFamily
}

// PauseImage is the image that keeps the namespaces of a real pod. It has to be among the images.
const PauseImage = "docker.io/flux-elastic/pause:latest"

// requirement is a program that real nodes need of the machine.
type requirement struct {
	name string // for the error message
	pkg  string // the Debian package that has the program
	path func() (string, error)
}

var requirements = []requirement{
	onPath("containerd", "containerd"),
	onPath("ctr", "containerd"),
	onPath("runc", "runc"),
	{name: "the CNI plugins", pkg: "containernetworking-plugins", path: cniDir},
	onPath("ip", "iproute2"),
	onPath("nsenter", "util-linux"),
	onPath("unshare", "util-linux"),
	onPath("mount", "mount"),
	onPath("bash", "bash"),
}

// onPath requires a command.
func onPath(name, pkg string) requirement {
	return requirement{name: name, pkg: pkg, path: func() (string, error) { return exec.LookPath(name) }}
}

// cniDir returns the directory with the CNI plugins that nodes need.
func cniDir() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if isFile(filepath.Join(dir, "bridge")) && isFile(filepath.Join(dir, "host-local")) && isFile(filepath.Join(dir, "loopback")) {
			return dir, nil
		}
	}
	return "", exec.ErrNotFound
}

// CheckReal returns an error that lists everything that this machine lacks for real nodes. others
// are more required commands, with their Debian packages.
func CheckReal(others map[string]string) error {
	needed := requirements
	for name, pkg := range others {
		needed = append(needed[:len(needed):len(needed)], onPath(name, pkg))
	}
	return checkAll(os.Geteuid(), needed)
}

func checkAll(user int, needed []requirement) error {
	var names, packages []string
	if user != 0 {
		names = append(names, "root")
	}
	seen := map[string]bool{}
	for _, r := range needed {
		if _, err := r.path(); err == nil {
			continue
		}
		names = append(names, r.name)
		if !seen[r.pkg] {
			seen[r.pkg] = true
			packages = append(packages, r.pkg)
		}
	}
	if len(names) == 0 {
		return nil
	}
	text := "MODE=real needs " + strings.Join(names, ", ")
	if len(packages) > 0 {
		text += ": apt-get install " + strings.Join(packages, " ")
	}
	return errors.New(text)
}

// startReal starts the cluster's DNS and the real nodes.
func (c *Cluster) startReal(ctx context.Context, config RealConfig, binaries Binaries, keys *credentials, say func(string)) error {
	say(fmt.Sprintf("starting CoreDNS and %d real nodes", config.Count))
	dns, err := c.startDNS(binaries)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.config("node.sh"), nodeScript, 0o755); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range config.Count {
		group.Go(func() error {
			node := &realNode{cluster: c, index: i}
			if err := node.start(groupCtx, config, binaries, keys); err != nil {
				return fmt.Errorf("starting %s: %w", node.name(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(c.network.each(c.network.gateway())[0].String(), "53"))
	}}
	answers := func() (bool, error) {
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err == nil, nil
	}
	return c.await(ctx, "CoreDNS", answers, dns)
}

// startDNS starts CoreDNS on the bridge. Its answers are valid for only a second, since brokers look
// up the addresses of brokers that have just been started.
func (c *Cluster) startDNS(binaries Binaries) (*process, error) {
	config := fmt.Sprintf(`.:53 {
    bind %s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        ttl 1
    }
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
`, words(c.network.each(c.network.gateway()), " "), c.Kubeconfig())
	if err := os.WriteFile(c.config("Corefile"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	return start(c.Dir, "coredns", binaries["coredns"], "-conf="+c.config("Corefile"))
}

// words joins addresses.
func words(addresses []netip.Addr, separator string) string {
	var out []string
	for _, address := range addresses {
		out = append(out, address.String())
	}
	return strings.Join(out, separator)
}

// command runs a command to its end. The error has the output of the command.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
