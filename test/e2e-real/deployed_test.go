// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"net/url"
	"path/filepath"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The manager as it is deployed, in a pod with the rights of its service account and no more:
// MiniClusters live by it, and when its pod is deleted the next one carries on.
func testDeployed(c *cluster) {
	const manager, namespace = "manager", "--namespace=flux-elastic-system"
	if err := c.Kill(c.Context(), manager); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { c.startAgain(manager) })
	// What it shares with the manager of the others stays.
	c.must("apply", "--server-side", "--force-conflicts", "--kustomize="+filepath.Join(env.root, "config", "embedded"))
	c.Cleanup(func() {
		if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), namespace, "delete", "deployment", "flux-elastic"); err != nil {
			c.Error(err)
		}
	})
	// Real nodes have no Services with an address, such as the API server's.
	server, err := url.Parse(c.URL())
	if err != nil {
		c.Fatal(err)
	}
	c.must(namespace, "set", "env", "deployment/flux-elastic", "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	c.must(namespace, "rollout", "status", "deployment/flux-elastic", "--timeout=90s")

	m := c.make("deployed", double, command(until("go")), "")
	m.awaitRunning()
	before := machineClock.Now()
	c.must(namespace, "delete", "pod", "--selector=app.kubernetes.io/name=flux-elastic")
	c.must(namespace, "rollout", "status", "deployment/flux-elastic", "--timeout=90s")
	m.open("go")
	if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 0 {
		c.Errorf("attempts %+v", mc.Status.Attempts)
	}
	c.Log("the next manager had it ended after", machineClock.Since(before))
	m.holdsNoNode()
}
