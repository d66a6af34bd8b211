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
	"syscall"
)

// network is that of a cluster's real nodes: a bridge, on which the API server and the
// cluster's DNS listen, and to which all nodes and pods are connected.
type network struct {
	// Name is that of the bridge. All interfaces and control groups that are made for
	// the cluster have names that begin with it; no other cluster's do.
	Name string `json:"name"`
	// Prefix is that of all addresses.
	Prefix netip.Prefix `json:"prefix"`
}

// Of 10.192.0.0/10 each cluster takes a part of which no other network of this machine
// has anything. Each node has 256 of its addresses.
const (
	networks    = 256
	networkBits = 18
	nodeBits    = 24
	maxNodes    = 1<<(nodeBits-networkBits) - 1
)

var firstNetwork = netip.MustParseAddr("10.192.0.0")

// networkOf is the cluster's i-th choice of a network. Its name comes from the directory
// alone, so that what is left behind can be found.
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

// gateway is the address of the bridge.
func (n network) gateway() netip.Addr { return add(n.Prefix.Addr(), 1) }

// node is the address of a node. Those of its pods come after it.
func (n network) node(i int) netip.Addr { return add(n.Prefix.Addr(), (i+1)<<(32-nodeBits)+1) }

// pods are the first and the last address of a node's pods.
func (n network) pods(i int) (first, last netip.Addr) {
	return add(n.node(i), 1), add(n.node(i), 253)
}

// port is where a node's cable is plugged into the bridge.
func (n network) port(i int) string { return fmt.Sprintf("%sn%d", n.Name, i) }

// mac is a hardware address of the same interface: one that the kernel picks for a
// bridge changes with what is plugged in.
func mac(address netip.Addr) string {
	bytes := address.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3])
}

// makeNetwork chooses the cluster's network and makes its bridge. Before it makes
// anything, it writes down what.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	// One at a time: between the choice and the address, another would choose the same.
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
	for i := range networks {
		n := networkOf(dir, i)
		if !slices.ContainsFunc(addresses, func(a net.Addr) bool {
			other, err := netip.ParsePrefix(a.String())
			return err == nil && other.Overlaps(n.Prefix)
		}) {
			return n, nil
		}
	}
	return network{}, fmt.Errorf("finding a network for the nodes: all of %s/10 is in use", firstNetwork)
}

func (c *Cluster) networkFile() string { return filepath.Join(c.Dir, "network") }

// readNetwork finds the network of a cluster with real nodes.
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
