// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed node.sh
var nodeScript []byte

// kubeletPort is where a kubelet listens, on the address of its node.
const kubeletPort = "10250"

// realValue is the value of simulatedLabel for real nodes.
const realValue = "real"

// RealNodeName returns the name of the i-th real node, and of its first process. ContainerdOf and
// KubeletOf return the names of the other processes.
func RealNodeName(i int) string { return "real-" + strconv.Itoa(i) }

// ContainerdOf returns the name of a real node's containerd.
func ContainerdOf(node string) string { return node + "-containerd" }

// KubeletOf returns the name of a real node's kubelet.
func KubeletOf(node string) string { return node + "-kubelet" }

// realNode is a containerd and a kubelet in namespaces of their own, which a first process keeps.
// Both find their files at the usual paths, and other nodes do not see these files.
type realNode struct {
	cluster *Cluster
	index   int
}

func (n *realNode) name() string { return RealNodeName(n.index) }

func (c *Cluster) nodesDir() string { return filepath.Join(c.Dir, "nodes") }

// file returns a path in the node's own directory.
func (n *realNode) file(name string) string {
	return filepath.Join(n.cluster.nodesDir(), n.name(), name)
}

func (n *realNode) logs() string { return filepath.Join(n.cluster.Dir, "logs", n.name()) }

// controlGroup returns the control group of the node's pods.
func (n *realNode) controlGroup() string {
	return filepath.Join(n.cluster.network.Name, n.name())
}

func (n *realNode) address() netip.Addr { return n.cluster.network.node(n.index) }

// addresses are those by which the API server reaches the kubelet.
func (n *realNode) addresses() (all []net.IP) {
	for _, address := range n.cluster.network.each(n.address()) {
		all = append(all, address.AsSlice())
	}
	return all
}

// start makes the node and starts it.
func (n *realNode) start(ctx context.Context, config RealConfig, binaries Binaries, keys *credentials) error {
	if err := n.prepare(keys); err != nil {
		return err
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	return n.boot(ctx, []string{containerd, "--config=" + n.file("containerd.toml"), "--log-level=warn"}, n.kubeletArgs(binaries), config.Images)
}

// boot starts the processes of the node, and imports images.
func (n *realNode) boot(ctx context.Context, containerdArgs, kubeletArgs, images []string) error {
	init, err := n.plugIn(ctx)
	if err != nil {
		return err
	}
	again := len(images) == 0
	containerd, err := launch{name: ContainerdOf(n.name()), path: containerdArgs[0], args: containerdArgs[1:], node: init, again: again}.start(n.cluster.Dir)
	if err != nil {
		return err
	}
	listens := func() (bool, error) { return exists(inside(init, "/run/containerd/containerd.sock")), nil }
	if err := n.cluster.await(ctx, "containerd", listens, init, containerd); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return n.startKubelet(groupCtx, launch{name: KubeletOf(n.name()), path: kubeletArgs[0], args: kubeletArgs[1:], node: init, again: again})
	})
	for _, image := range images {
		group.Go(func() error {
			argv := append(enter(init), "ctr", "--namespace=k8s.io", "images", "import", image)
			return command(groupCtx, argv[0], argv[1:]...)
		})
	}
	return group.Wait()
}

// startKubelet starts the kubelet, and again if it ends before it serves, as an init system would:
// containerd may listen before it answers, and the kubelet does not wait for that.
func (n *realNode) startKubelet(ctx context.Context, l launch) error {
	address := net.JoinHostPort(n.address().String(), kubeletPort)
	var kubelet *process
	serves := func() (bool, error) {
		if kubelet == nil || !kubelet.alive() {
			var err error
			if kubelet, err = l.start(n.cluster.Dir); err != nil {
				return false, err
			}
			l.again = true
		}
		return accepts(address), nil
	}
	if err := waitFor(ctx, startTimeout, serves); err != nil {
		return fmt.Errorf("waiting for %s: %w", l.name, err)
	}
	return nil
}

// accepts reports whether somebody accepts connections at an address.
func accepts(address string) bool {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	return err == nil && connection.Close() == nil
}

// plugIn starts the node's first process and connects it to the bridge.
func (n *realNode) plugIn(ctx context.Context) (_ *process, err error) {
	said, sayGo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer sayGo.Close()
	ready, sayReady, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, said.Close())
	}
	defer ready.Close()
	network := n.cluster.network
	args := []string{n.cluster.config("node.sh"), n.name(), n.file("lib"), n.logs(), mac(n.address())}
	init, err := launch{
		name: n.name(), path: "/bin/bash", args: append(args, network.ofInterface(n.address())...),
		wrapper: []string{"unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork"},
		stdin:   said, files: []*os.File{sayReady}, again: true,
	}.start(n.cluster.Dir)
	if err := errors.Join(err, said.Close(), sayReady.Close()); err != nil {
		return nil, err
	}
	port := network.port(n.index)
	for _, args := range [][]string{
		{"link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(init.PID)},
		{"link", "set", port, "master", network.Name, "up"},
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return nil, err
		}
	}
	if _, err := sayGo.WriteString("go\n"); err != nil {
		return nil, err
	}
	if err := ready.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return nil, err
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("its first process: %w. The end of %s:\n%s", err, init.Log, init.lastWords())
	}
	return init, nil
}

// enter returns a command that runs another one in the namespaces of a node.
func enter(init *process) []string {
	return []string{"nsenter", "--target=" + strconv.Itoa(init.PID), "--mount", "--uts", "--ipc", "--net", "--pid"}
}

// inside returns the path, outside of a node, of a file in the node.
func inside(init *process, path string) string {
	return filepath.Join("/proc", strconv.Itoa(init.PID), "root", path)
}

// prepare writes the files that the node's programs read.
func (n *realNode) prepare(keys *credentials) error {
	// Logs stay until there is another node with this name.
	if err := os.RemoveAll(n.logs()); err != nil {
		return err
	}
	for _, dir := range []string{n.logs(), n.file("lib"), n.file("cni")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := makeControlGroups(n.controlGroup()); err != nil {
		return err
	}
	certFile, keyFile, err := keys.issue(n.name(), &x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:node:" + n.name(), Organization: []string{"system:nodes"}},
		DNSNames:    []string{n.name()},
		IPAddresses: n.addresses(),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["local"] = &clientcmdapi.Cluster{Server: n.cluster.URL(), CertificateAuthorityData: keys.ca}
	kubeconfig.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificate: certFile, ClientKey: keyFile}
	kubeconfig.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "node"}
	kubeconfig.CurrentContext = "local"
	if err := clientcmd.WriteToFile(*kubeconfig, n.file("kubeconfig")); err != nil {
		return err
	}
	plugins, err := cniDir()
	if err != nil {
		return err
	}
	for name, content := range map[string]any{
		"kubelet.json":     n.kubeletConfig(keys, certFile, keyFile),
		"cni/network.conf": n.cniConfig(),
	} {
		data, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(n.file(name), data, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(n.file("resolv.conf"), nil, 0o644); err != nil {
		return err
	}
	return os.WriteFile(n.file("containerd.toml"), []byte(n.containerdConfig(plugins)), 0o644)
}

// containerdConfig returns the configuration of containerd. Most paths are the defaults, which are the
// node's own. With restrict_oom_score_adj no process gets a lower oom_score_adj than containerd, so
// that containerd needs no CAP_SYS_RESOURCE.
func (n *realNode) containerdConfig(plugins string) string {
	return fmt.Sprintf(`version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %q
  conf_dir = %q
`, PauseImage, plugins, n.file("cni"))
}

// cniConfig returns a CNI configuration that connects pods to the node's bridge.
func (n *realNode) cniConfig() any {
	network := n.cluster.network
	first, last := network.pods(n.index)
	from, to, gateways := network.each(first), network.each(last), network.each(network.gateway())
	var ranges [][]any
	var routes []any
	for i, gateway := range gateways {
		ranges = append(ranges, []any{map[string]any{
			"subnet": network.prefix(gateway), "rangeStart": from[i], "rangeEnd": to[i], "gateway": gateway,
		}})
		everywhere := "0.0.0.0/0"
		if gateway.Is6() {
			everywhere = "::/0"
		}
		routes = append(routes, map[string]any{"dst": everywhere})
	}
	return map[string]any{
		"cniVersion": "0.4.0", "name": "pods", "type": "bridge", "bridge": "cni0",
		"ipam": map[string]any{"type": "host-local", "ranges": ranges, "routes": routes},
	}
}

// kubeletConfig returns the settings that differ from the kubelet's defaults.
func (n *realNode) kubeletConfig(keys *credentials, certFile, keyFile string) any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"tlsCertFile": certFile, "tlsPrivateKeyFile": keyFile,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": keys.caFile},
			"webhook":   map[string]any{"enabled": true},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"clusterDNS":               n.cluster.network.each(n.cluster.network.gateway()),
		"clusterDomain":            "cluster.local",
		"resolvConf":               n.file("resolv.conf"),
		// Both versions of control groups work. All groups are in the node's own group.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.controlGroup(), "enforceNodeAllocatable": []string{},
		// The disk does not belong to the node. Images cannot be pulled again.
		"evictionHard":                map[string]string{"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "0%"},
		"imageGCHighThresholdPercent": 100,
		"volumeStatsAggPeriod":        "5s", // the kubelet soon notices a volume over its limit
		"failSwapOn":                  false,
		"oomScoreAdj":                 0,
	}
}

func (n *realNode) kubeletArgs(binaries Binaries) []string {
	return []string{
		binaries["kubelet"], "--config=" + n.file("kubelet.json"), "--kubeconfig=" + n.file("kubeconfig"),
		"--hostname-override=" + n.name(), "--node-ip=" + words(n.cluster.network.each(n.address()), ","),
		"--node-labels=" + simulatedLabel + "=" + realValue,
	}
}
