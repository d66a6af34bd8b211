// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// The methods of this file cause faults in a running cluster. They take names of processes, as
// GetStatus lists them. The name of a real node is that of its first process, with which all other
// processes of the node end.

// Kill kills a process. For a real node, this is a loss of power.
func (c *Cluster) Kill(ctx context.Context, name string) error {
	p, err := c.process(name)
	if err != nil {
		return err
	}
	return p.kill(ctx)
}

// Stop asks a process to end, and waits until it has.
func (c *Cluster) Stop(ctx context.Context, name string) error {
	p, err := c.process(name)
	if err != nil {
		return err
	}
	return p.stop(ctx)
}

// Suspend halts a process. The process keeps its connections, but does not answer until Resume.
func (c *Cluster) Suspend(name string) error { return c.signal(name, syscall.SIGSTOP) }

// Resume lets a suspended process go on.
func (c *Cluster) Resume(name string) error {
	p, err := c.process(name)
	if err != nil {
		return err
	}
	return p.resume()
}

// Start starts a process again that has ended, with the same arguments. For a real node, it starts
// all processes of the node. It waits until an API server answers; other processes only have to run.
func (c *Cluster) Start(ctx context.Context, name string) error {
	p, err := c.process(name)
	if err != nil {
		return err
	}
	if p.alive() {
		return fmt.Errorf("starting %s: already running (process %d)", name, p.PID)
	}
	if node, err := c.realNode(name); err == nil {
		return c.startAgain(ctx, node)
	}
	l := launch{name: name, path: p.Args[0], args: p.Args[1:], again: true}
	if p.Node != "" {
		if l.node, err = c.process(p.Node); err != nil {
			return err
		}
		if !l.node.alive() {
			return fmt.Errorf("starting %s: its node does not run: start %s", name, p.Node)
		}
	}
	started, err := l.start(c.Dir)
	if err != nil || name != "kube-apiserver" {
		return err
	}
	return c.awaitAPIServer(ctx, started)
}

// startAgain starts a real node that has ended.
func (c *Cluster) startAgain(ctx context.Context, node *realNode) error {
	containerd, err := c.process(ContainerdOf(node.name()))
	if err != nil {
		return err
	}
	kubelet, err := c.process(KubeletOf(node.name()))
	if err != nil {
		return err
	}
	// A machine that lost its power has no control groups any more. The kubelet would spend
	// seconds on each group that is left.
	gone := func() (bool, error) { return removeControlGroups(node.controlGroup()) }
	if err := waitFor(ctx, stopTimeout, gone); err != nil {
		return fmt.Errorf("removing the control groups %s: %w", node.controlGroup(), err)
	}
	if err := makeControlGroups(node.controlGroup()); err != nil {
		return err
	}
	if err := node.boot(ctx, containerd.Args, kubelet.Args, nil); err != nil {
		// A node of which only a part runs would count as running: the next attempt begins anew.
		return errors.Join(err, c.Kill(context.WithoutCancel(ctx), node.name()))
	}
	return nil
}

// Disconnect cuts the network of a real node. The node and its pods then reach neither the control
// plane nor the DNS nor pods of other nodes, and nothing reaches them.
func (c *Cluster) Disconnect(ctx context.Context, node string) error {
	return c.setPort(ctx, node, "down")
}

// Connect undoes Disconnect.
func (c *Cluster) Connect(ctx context.Context, node string) error {
	return c.setPort(ctx, node, "up")
}

func (c *Cluster) setPort(ctx context.Context, name, state string) error {
	node, err := c.realNode(name)
	if err != nil {
		return err
	}
	return command(ctx, "ip", "link", "set", c.network.port(node.index), state)
}

func (c *Cluster) signal(name string, signal syscall.Signal) error {
	p, err := c.process(name)
	if err != nil {
		return err
	}
	if !p.alive() {
		return fmt.Errorf("%s has ended", name)
	}
	return syscall.Kill(p.PID, signal)
}

// process returns the record of a process.
func (c *Cluster) process(name string) (*process, error) {
	all, err := processes(c.Dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p *process) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no process %q in %s", name, c.Dir)
	}
	return all[i], nil
}

func (c *Cluster) realNode(name string) (*realNode, error) {
	var index int
	_, err := fmt.Sscanf(name, "real-%d", &index)
	if err != nil || RealNodeName(index) != name || c.network.Name == "" {
		return nil, errors.Join(fmt.Errorf("%q is no real node of %s", name, c.Dir), err)
	}
	return &realNode{cluster: c, index: index}, nil
}
