// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// network is the network of a cluster's real nodes: a bridge to which all nodes and pods are
// connected. The API server and the cluster's DNS listen on the bridge.
type network struct {
	// Name is the name of the bridge. The names of all interfaces and control groups of the
	// cluster begin with it, and those of no other cluster.
	Name string `json:"name"`
	// Prefix is the prefix of all IPv4 addresses.
	Prefix netip.Prefix `json:"prefix"`
	// Families are those of the pods' addresses: see RealConfig.
	Families []corev1.IPFamily `json:"families"`
}

// Each cluster takes a part of 10.192.0.0/10 that overlaps with no other network of this machine.
// Each node has 256 addresses of this part.
const (
	networks    = 256
	networkBits = 18
	nodeBits    = 24
	maxNodes    = 1<<(nodeBits-networkBits) - 1
)

var firstNetwork = netip.MustParseAddr("10.192.0.0")

// networkOf returns the cluster's i-th choice of a network. The name depends only on the directory,
// so that leftovers of a cluster can be found.
func networkOf(dir string, i int) network {
	sum := sha256.Sum256([]byte(dir))
	number := (int(sum[0]) + i) % networks
	return network{
		Name:   "fe" + hex.EncodeToString(sum[:4]),
		Prefix: netip.PrefixFrom(add(firstNetwork, number<<(32-networkBits)), networkBits),
	}
}

func add(address netip.Addr, n int) netip.Addr {
	bytes := address.As4()
	binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])+uint32(n))
	return netip.AddrFrom4(bytes)
}

// firstNetwork6 has the IPv6 addresses: each has an IPv4 address as its last 32 bits, so that the parts of two clusters
// overlap in neither family.
var firstNetwork6 = netip.MustParsePrefix("fd66:6c75:7865::/96")

// in6 returns the IPv6 address that goes with an IPv4 address.
func in6(address netip.Addr) netip.Addr {
	bytes, last := firstNetwork6.Addr().As16(), address.As4()
	copy(bytes[12:], last[:])
	return netip.AddrFrom16(bytes)
}

// each returns an address in each family, in the order of the families.
func (n network) each(address netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, family := range n.Families {
		if family == corev1.IPv6Protocol {
			out = append(out, in6(address))
		} else {
			out = append(out, address)
		}
	}
	return out
}

// prefix returns the prefix of all addresses of the family of an address.
func (n network) prefix(address netip.Addr) netip.Prefix {
	if address.Is4() {
		return n.Prefix
	}
	return netip.PrefixFrom(in6(n.Prefix.Addr()), firstNetwork6.Bits()+networkBits)
}

// ofInterface returns arguments of ip-address(8) for each address that the bridge or a node has. All have an IPv4 address,
// by which nodes reach the API server. An IPv6 address is valid at once: nobody else can have that address.
func (n network) ofInterface(address netip.Addr) []string {
	args := []string{netip.PrefixFrom(address, networkBits).String()}
	if slices.Contains(n.Families, corev1.IPv6Protocol) {
		args = append(args, netip.PrefixFrom(in6(address), firstNetwork6.Bits()+networkBits).String()+" nodad")
	}
	return args
}

// gateway returns the address of the bridge.
func (n network) gateway() netip.Addr { return add(n.Prefix.Addr(), 1) }

// node returns the address of a node. The addresses of its pods follow.
func (n network) node(i int) netip.Addr { return add(n.Prefix.Addr(), (i+1)<<(32-nodeBits)+1) }

// pods returns the first and the last address of a node's pods.
func (n network) pods(i int) (first, last netip.Addr) {
	return add(n.node(i), 1), add(n.node(i), 253)
}

// port returns the name of the interface by which a node is connected to the bridge.
func (n network) port(i int) string { return fmt.Sprintf("%sn%d", n.Name, i) }

// mac returns a hardware address for the interface with an address. The address that the kernel
// chooses for a bridge would change when interfaces are connected to the bridge.
func mac(address netip.Addr) string {
	bytes := address.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3])
}

// makeNetwork chooses the cluster's network and makes its bridge. It records the choice first, so that
// Down can remove the bridge.
func (c *Cluster) makeNetwork(ctx context.Context, families []corev1.IPFamily) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	// Only one process may choose at a time: until the address is set, another process would
	// choose the same network.
	lock, err := os.Open("/run")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if c.network, err = chooseNetwork(dir); err != nil {
		return err
	}
	if c.network.Families = families; len(families) == 0 {
		c.network.Families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	data, err := json.Marshal(c.network)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.networkFile(), data, 0o644); err != nil {
		return err
	}
	n := c.network
	commands := []string{"link add " + n.Name + " address " + mac(n.gateway()) + " type bridge"}
	for _, address := range n.ofInterface(n.gateway()) {
		commands = append(commands, "address add dev "+n.Name+" "+address)
	}
	for _, args := range append(commands, "link set "+n.Name+" up") {
		if err := command(ctx, "ip", strings.Fields(args)...); err != nil {
			return fmt.Errorf("making the network of the nodes: %w", err)
		}
	}
	return nil
}

func chooseNetwork(dir string) (network, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return network{}, err
	}
	var used []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			used = append(used, prefix)
		}
	}
	resolver, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return network{}, err
	}
	return freeNetwork(dir, append(used, nameServers(string(resolver))...))
}

// nameServers are those of a resolv.conf: a bridge with their addresses would cut the machine off from them.
func nameServers(resolver string) []netip.Prefix {
	var servers []netip.Prefix
	for line := range strings.Lines(resolver) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			if address, err := netip.ParseAddr(fields[1]); err == nil {
				servers = append(servers, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	return servers
}

// freeNetwork returns the cluster's first choice that has no address in use.
func freeNetwork(dir string, used []netip.Prefix) (network, error) {
	for i := range networks {
		if n := networkOf(dir, i); !slices.ContainsFunc(used, n.Prefix.Overlaps) {
			return n, nil
		}
	}
	return network{}, fmt.Errorf("finding a network for the nodes: all of %s/10 is in use", firstNetwork)
}

func (c *Cluster) networkFile() string { return filepath.Join(c.Dir, "network") }

// readNetwork reads the record of the network. Without real nodes there is none.
func (c *Cluster) readNetwork() error {
	data, err := os.ReadFile(c.networkFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &c.network); err != nil {
		return fmt.Errorf("reading %s: %w", c.networkFile(), err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
