// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs MiniClusters on a real control plane with simulated nodes, by
// the manager as it is shipped: a process of its own, with the rights of its own
// service account and no more.
package e2e

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

const nodeCount = 144

// env is what all tests share.
var env struct {
	*harness.Suite
	cluster *harness.Cluster
	client  client.Client // of the cluster
	manager *harness.Manager
	watch   *podWatch
}

func TestMain(m *testing.M) { harness.Main(m, "e2e", start) }

// start brings up the cluster, the simulator and the manager.
func start(ctx context.Context, dir string) (end func() error, err error) {
	if env.Suite, err = harness.NewSuite(ctx, dir, "make control-plane"); err != nil {
		return nil, err
	}
	if env.cluster, err = env.Up(ctx, "cluster", nodeCount); err != nil {
		return nil, err
	}
	end = func() error {
		if env.manager != nil {
			env.manager.Stop()
		}
		return env.cluster.Down()
	}
	env.client = env.cluster.Client
	restConfig, err := env.cluster.RESTConfig()
	if err != nil {
		return end, err
	}
	if env.watch, err = watchPods(ctx, restConfig); err != nil {
		return end, err
	}
	if env.manager, err = startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded); err != nil {
		return end, err
	}
	return end, env.cluster.AwaitGarbageCollector(ctx)
}

func kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return env.cluster.Kubectl(ctx, args...)
}

// Short names of what the suites share.
const (
	timeout        = harness.Timeout
	jobSetEmbedded = harness.JobSetEmbedded
	jobSetExternal = harness.JobSetExternal
)

var (
	wallClock  = harness.WallClock
	poll       = harness.Poll
	pollFor    = harness.PollFor
	final      = harness.Final
	eventually = harness.Eventually
)

func startManager(kubeconfig, jobSet string, args ...string) (*harness.Manager, error) {
	return env.StartManager(kubeconfig, jobSet, args...)
}
