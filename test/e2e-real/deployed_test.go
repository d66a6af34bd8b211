// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// ofManager are arguments of kubectl.
const ofManager = "--namespace=flux-elastic-system"

// The managers as they are deployed, two pods of the release's image that are restricted, with the rights of their
// service account and no more: MiniClusters live by the one that leads. When the network of its node is cut, and when its
// pod is deleted, the other carries on.
func testDeployed(c *cluster) {
	c.deploy()
	wrong := c.make("domain", double, command("true"), "network: {clusterDomain: example.org}")
	wrong.is("told the domain", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(wrong.state(mc), `the domain of this cluster is "cluster.local"`) && mc.Status.Nodes == 0
	})
	mc := func(name string) *miniCluster {
		m := c.make(name, double, command(until("go")), "pod: {nodeSelector: {deployed: 'true'}}")
		m.awaitRunning()
		return m
	}
	pod, node := c.leader()
	for _, name := range []string{"real-0", "real-1", "real-2", "real-3"} {
		if name != node {
			c.must("label", "node", name, "deployed=true")
			c.Cleanup(func() { _, _ = c.kubectlIn(context.WithoutCancel(c.Context()), "label", "node", name, "deployed-") })
		}
	}
	m := mc("cut-manager")
	began := machineClock.Now()
	c.Cleanup(func() { c.connectNode(node) })
	if err := c.Disconnect(c.Context(), node); err != nil {
		c.Fatal(err)
	}
	m.open("go")
	m.endsOnce()
	c.Log("after a cut, the other manager had it ended after", machineClock.Since(began))
	next, at := c.leader()
	if next == pod || at == node {
		c.Errorf("%s leads on %s", next, at)
	}
	c.connectNode(node)
	c.nodesReady()

	m = mc("gone-manager")
	began = machineClock.Now()
	c.must(ofManager, "delete", "pod", next, "--wait=false")
	m.open("go")
	m.endsOnce()
	c.Log("after a deletion, the other manager had it ended after", machineClock.Since(began))
	m.holdsNoNode()
}

// deploy runs config/embedded with config/availability, until the test ends, in place of the manager of the others.
func (c *cluster) deploy() {
	c.Helper()
	const manager = "manager"
	if err := c.Kill(c.Context(), manager); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { c.startAgain(manager) })
	dir := c.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(env.root, "config"))
	if err != nil {
		c.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%[1]s/embedded]\ncomponents: [%[1]s/availability]\n", config)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	c.must("label", "namespace", "flux-elastic-system", "pod-security.kubernetes.io/enforce=restricted")
	// What these share with the manager of the others stays.
	c.must("apply", "--server-side", "--force-conflicts", "--kustomize="+dir)
	c.Cleanup(func() {
		if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), ofManager, "delete", "deployment", "flux-elastic"); err != nil {
			c.Error(err)
		}
	})
	// Real nodes have no Services with an address, such as the API server's.
	server, err := url.Parse(c.URL())
	if err != nil {
		c.Fatal(err)
	}
	c.must(ofManager, "set", "env", "deployment/flux-elastic", "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	c.must(ofManager, "rollout", "status", "deployment/flux-elastic", "--timeout="+patience.String())
	if version := c.must(ofManager, "exec", "deployment/flux-elastic", "--", "/manager", "--version"); version != "latest" {
		c.Errorf("the manager says that it has the version %q", version)
	}
	if _, err := c.kubectl(ofManager, "run", "root", "--image="+app, "--dry-run=server"); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		c.Errorf("a pod that may be root is not refused: %v", err)
	}
}

// leader waits until a manager leads, and returns its pod and node.
func (c *cluster) leader() (pod, node string) {
	c.Helper()
	eventually(c.T, "a manager leads", func() error {
		holder, err := c.kubectl(ofManager, "get", "lease", "manager.flux-framework.org", "--output=jsonpath={.spec.holderIdentity}")
		pod, _, _ = strings.Cut(holder, "_")
		if err != nil || pod == "" {
			return errors.Join(errors.New("nobody leads"), err)
		}
		node, err = c.kubectl(ofManager, "get", "pod", pod, "--output=jsonpath={.spec.nodeName}")
		return err
	})
	return pod, node
}

func (c *cluster) connectNode(name string) {
	c.Helper()
	if err := c.Connect(context.WithoutCancel(c.Context()), name); err != nil {
		c.Error(err)
	}
}

// endsOnce waits until the command has ended, in its first attempt.
func (m *miniCluster) endsOnce() {
	m.Helper()
	if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 0 {
		m.Errorf("attempts %+v", mc.Status.Attempts)
	}
}
