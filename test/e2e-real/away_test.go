// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Of two nodes each that MiniClusters of two brokers run on, the first has the lead.
const (
	dark = "real-1" // loses its power
	cut  = "real-2" // loses its network
)

// pairs are what is lost with a node, and the nodes.
var pairs = map[string][2]string{
	"dark-follower": {"real-0", dark},
	"dark-lead":     {dark, "real-3"},
	"cut-follower":  {"real-0", cut},
	"cut-lead":      {cut, "real-3"},
}

// policies are what is said about losses: fields of the container, and of the spec.
var policies = map[string][2]string{
	"fail":     {"", ""},
	"continue": {launcher, ""},
	"recreate": {"", "elastic: {onLoss: Recreate, recreate: {backoffBase: 1s}}"},
}

// onPairs makes MiniClusters, called after a pair and a policy, and waits until they run.
func (c *cluster) onPairs(names ...string) map[string]*miniCluster {
	c.Helper()
	for pair, nodes := range pairs {
		c.must("label", "node", nodes[0], nodes[1], pair+"=true")
		c.Cleanup(func() {
			if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), "label", "node", nodes[0], nodes[1], pair+"-"); err != nil {
				c.Error(err)
			}
		})
	}
	all := map[string]*miniCluster{}
	for _, name := range names {
		i := strings.LastIndex(name, "-")
		pair, policy, image := name[:i], policies[name[i+1:]], double
		if strings.HasPrefix(name, "cut-follower-") || name == "dark-follower-continue" {
			image = best() // Flux itself has to see what is lost
		}
		all[name] = c.make(name, image, policy[0]+command(until("go")), fmt.Sprintf("size: 2, tasks: 2, pod: {nodeSelector: {%s: 'true'}}, %s", pair, policy[1]))
	}
	for name, m := range all {
		m.awaitRunning()
		for rank, node := range pairs[name[:strings.LastIndex(name, "-")]] {
			if on := m.podIs(rank, "is ready", ready).Spec.NodeName; on != node {
				c.Fatalf("rank %d of %s is on %s, and not on %s", rank, name, on, node)
			}
		}
	}
	return all
}

// isMissed waits until Kubernetes takes a node for down.
func (c *cluster) isMissed(name string) {
	c.Helper()
	eventually(c.T, name+" is missed", func() error {
		var node corev1.Node
		err := c.client.Get(c.Context(), client.ObjectKey{Name: name}, &node)
		return errorUnless(!state.Ready(&node), "ready", err)
	})
}

// knowsOfLoss waits until Flux knows that its follower is lost.
func (m *miniCluster) knowsOfLoss() {
	m.Helper()
	eventually(m.T, m.name+" knows of its loss", func() error {
		out, err := m.flux("resource status -s offline -no '{ranks}'")
		return errorUnless(out == "1", out, err)
	})
}

// onceMore: the next attempt does what the first could not.
func (m *miniCluster) onceMore() {
	m.Helper()
	m.givesUp() // what runs until then must not see the file
	m.open("go")
	mc := m.awaitEnd(v1alpha2.ReasonSucceeded)
	if len(mc.Status.Attempts) != 1 {
		m.Fatalf("attempts of %s: %+v", m.name, mc.Status.Attempts)
	}
	m.Log(m.name, mc.Status.Attempts[0].Message)
}

// holdsNoNode waits until nothing of it runs, wherever.
func (m *miniCluster) holdsNoNode() {
	m.Helper()
	eventually(m.T, m.name+" holds nothing", func() error {
		pods, err := m.listPods(m.Context())
		for i := range pods {
			if pod := &pods[i]; !protocol.IsGated(pod) && !protocol.Ended(pod) {
				err = errors.Join(err, fmt.Errorf("%s is %s", pod.Name, pod.Status.Phase))
			}
		}
		if held := m.get().Status.Nodes; held != 0 {
			err = errors.Join(err, fmt.Errorf("%d nodes", held))
		}
		return err
	})
}

// A node that is back before Kubernetes has missed it. What it took along is lost to Flux
// alone.
func testBack(c *cluster) {
	all := c.onPairs("dark-follower-fail", "dark-follower-continue", "dark-follower-recreate", "dark-lead-fail", "dark-lead-recreate",
		"cut-follower-fail", "cut-follower-continue", "cut-follower-recreate")
	work := all["cut-follower-continue"]
	address := work.pod(1).Status.PodIP
	isHeard := func() error { return work.hears(address) }

	// A short cut does nothing: brokers lose each other after 20 s of silence. On a busy machine it would take longer to look
	// whether the node is heard.
	c.disconnect()
	machineClock.Sleep(2 * time.Second)
	c.connect()
	eventually(c.T, cut+" is heard", isHeard)
	for _, m := range all {
		m.is("has both brokers", func(mc *v1alpha2.MiniCluster) bool {
			return strings.HasPrefix(m.state(mc), v1alpha2.StateRunning+": 2 of 2")
		})
		m.isInFlux("avail", "0-1")
	}

	began := machineClock.Now()
	c.disconnect()
	if err := c.Kill(c.Context(), dark); err != nil {
		c.Fatal(err)
	}
	c.startAgain(dark)
	work.knowsOfLoss()
	all["cut-follower-fail"].failed(nil)
	c.Log("Flux knows of a network that is cut after", machineClock.Since(began))
	c.connect()
	work.allWork()
	all["dark-follower-continue"].allWork()
	c.Log("all brokers are back after", machineClock.Since(began))
	all["dark-follower-fail"].failed(nil)
	all["dark-follower-fail"].holdsNoNode()
	all["cut-follower-fail"].holdsNoNode()
	all["dark-lead-fail"].awaitEnd(v1alpha2.ReasonLeadLost)
	all["dark-lead-fail"].holdsNoNode()
	for _, name := range []string{"dark-lead-recreate", "dark-follower-recreate", "cut-follower-recreate"} {
		all[name].onceMore()
		all[name].holdsNoNode()
	}
	c.Log("all have ended after", machineClock.Since(began))
	c.nodesReady()
}

// Nodes that Kubernetes misses: one comes back in the end; that of the other is given to
// others, as an administrator does where a node does not come back, and its pods still
// run when it does.
func testAway(c *cluster) {
	all := c.onPairs("dark-follower-fail", "dark-follower-continue", "dark-follower-recreate",
		"cut-follower-fail", "cut-follower-continue", "cut-follower-recreate", "cut-lead-fail", "cut-lead-recreate")
	began := machineClock.Now()
	c.Cleanup(func() { c.startAgain(dark) })
	c.disconnect()
	if err := c.Kill(c.Context(), dark); err != nil {
		c.Fatal(err)
	}
	for _, pair := range []string{"dark-follower", "cut-follower"} {
		all[pair+"-fail"].failed(nil)
		all[pair+"-continue"].knowsOfLoss()
		if out, err := all[pair+"-continue"].flux("run -N1 -n1 echo task"); err != nil || out != "task" {
			c.Errorf("a job on who is left: %s, %v", out, err)
		}
	}
	c.Log("Flux knows after", machineClock.Since(began))
	c.isMissed(dark)
	c.isMissed(cut)
	c.Log("Kubernetes knows after", machineClock.Since(began))
	all["dark-follower-recreate"].givesUp()
	all["cut-follower-recreate"].givesUp()

	const taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	c.must("taint", "node", cut, taint)
	c.Cleanup(func() { _, _ = c.kubectlIn(context.WithoutCancel(c.Context()), "taint", "node", cut, taint+"-") })
	all["cut-lead-fail"].awaitEnd(v1alpha2.ReasonLeadLost)
	all["cut-lead-fail"].holdsNoNode()
	all["cut-follower-fail"].holdsNoNode()
	all["cut-lead-recreate"].onceMore()
	all["cut-follower-recreate"].onceMore()
	c.Log("without the node after", machineClock.Since(began))
	gone := all["cut-follower-continue"]
	gone.podIs(1, "is ready elsewhere", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != cut && ready(pod) })
	c.startAgain(dark)
	c.connect()
	c.eventuallyNoBroker(cut) // what was replaced ends
	gone.allWork()
	all["dark-follower-continue"].allWork()
	all["dark-follower-recreate"].onceMore()
	all["dark-follower-fail"].holdsNoNode()
	c.must("taint", "node", cut, taint+"-")
	c.nodesReady()
	c.Log("all have ended after", machineClock.Since(began))
}

// disconnect cuts the network of the node cut, until connect, or the end of the test at the latest.
func (c *cluster) disconnect() {
	c.Helper()
	c.Cleanup(c.connect)
	if err := c.Disconnect(c.Context(), cut); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) connect() {
	c.Helper()
	if err := c.Connect(context.WithoutCancel(c.Context()), cut); err != nil {
		c.Error(err)
	}
}

// hears says whether an address answers the lead's pod.
func (m *miniCluster) hears(address string) error { return m.cluster.hears(m.pod(0).Name, address) }
