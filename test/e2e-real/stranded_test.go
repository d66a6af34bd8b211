// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Nodes that do not come back, and that nobody takes for out of service: what was lost with them is
// run again without them. One has lost its power, the other its network. What they still have ends
// when they are back.
func testStaysDown(c *cluster) {
	c.onPairs() // labels the nodes
	all, lost := map[string]*miniCluster{}, map[string]string{}
	for pair, node := range map[string]string{"dark-follower": dark, "cut-follower": cut} {
		m := c.make(pair+"-stays", best(), command(until("go")),
			fmt.Sprintf("size: 2, tasks: 2, pod: {nodeSelector: {%s: 'true'}}, %s", pair, policies["recreate"][1]))
		m.awaitRunning()
		pod := m.podIs(1, "is ready", ready)
		if pod.Spec.NodeName != node {
			c.Fatalf("rank 1 of %s is on %s", m.name, pod.Spec.NodeName)
		}
		all[node], lost[node] = m, pod.Name
	}
	began := machineClock.Now()
	c.Cleanup(func() { c.startAgain(dark) })
	c.disconnect()
	if err := c.Kill(c.Context(), dark); err != nil {
		c.Fatal(err)
	}
	for node, m := range all {
		m.is("is in its second attempt", func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.Admission != nil && mc.Status.Admission.Attempt == 2
		})
		c.Log(m.name, "begins again after", machineClock.Since(began))
		m.onceMore()
		c.Log(m.name, "has finished after", machineClock.Since(began))
		mc := m.is("holds the lost node alone", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Nodes == 1 })
		if strings.Contains(mc.Status.Admission.Nodes, node) {
			c.Errorf("%s ran on %s", m.name, mc.Status.Admission.Nodes)
		}
		if left := c.must("get", "pod", lost[node], "--output=jsonpath={.metadata.deletionTimestamp}"); left == "" {
			c.Errorf("pod %s on %s is not being deleted", lost[node], node)
		}
	}
	c.isMissed(dark)
	c.isMissed(cut)
	c.startAgain(dark)
	c.connect()
	for node, m := range all {
		m.holdsNoNode()
		c.eventuallyNoBroker(node)
		eventually(c.T, lost[node]+" ends", func() error {
			if out, err := c.kubectl("get", "pod", lost[node]); err == nil {
				return errors.New(out)
			}
			return nil
		})
	}
	c.nodesReady()
	c.Log("all have ended after", machineClock.Since(began))
}

// eventuallyNoBroker waits until no broker runs on a node.
func (c *cluster) eventuallyNoBroker(node string) {
	c.Helper()
	eventually(c.T, "no broker runs on "+node, func() error {
		return c.inNode(node, "bash", "-c", "! grep -qs ^flux /proc/[0-9]*/comm")
	})
}
