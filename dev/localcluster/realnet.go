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
)

// network is the network of a cluster's real nodes: a bridge to which all nodes and pods are
// connected. The API server and the cluster's DNS listen on the bridge.
type network struct {
	// Name is the name of the bridge. The names of all interfaces and control groups of the
	// cluster begin with it, and those of no other cluster.
	Name string `json:"name"`
	// Prefix is the prefix of all addresses.
	Prefix netip.Prefix `json:"prefix"`
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
func (c *Cluster) makeNetwork(ctx context.Context) error {
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
	data, err := json.Marshal(c.network)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.networkFile(), data, 0o644); err != nil {
		return err
	}
	n := c.network
	address := netip.PrefixFrom(n.gateway(), networkBits).String()
	for _, args := range [][]string{
		{"link", "add", n.Name, "address", mac(n.gateway()), "type", "bridge"},
		{"address", "add", address, "dev", n.Name},
		{"link", "set", n.Name, "up"},
	} {
		if err := command(ctx, "ip", args...); err != nil {
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
