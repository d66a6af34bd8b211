// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2epython runs programs in Python with the client in sdk/python against a real control plane with simulated
// nodes, by the manager as it is shipped.
package e2epython

import (
	"context"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

const nodeCount = 64

// env is what all tests share.
var env struct {
	*harness.Suite
	cluster *harness.Cluster
}

func TestMain(m *testing.M) { harness.Main(m, "e2e-python", start) }

// start brings up the cluster, the logs of its nodes and the manager.
func start(ctx context.Context, dir string) (end func() error, err error) {
	if env.Suite, err = harness.NewSuite(ctx, dir, "make control-plane"); err != nil {
		return nil, err
	}
	if env.cluster, err = env.Up(ctx, "cluster", nodeCount); err != nil {
		return nil, err
	}
	end = env.cluster.Down
	if err := serveLogs(ctx, env.cluster.Client); err != nil {
		return end, err
	}
	manager, err := env.cluster.StartManager(harness.JobSetEmbedded)
	if err != nil {
		return end, err
	}
	end = func() error {
		manager.Stop()
		return env.cluster.Down()
	}
	return end, env.cluster.AwaitGarbageCollector(ctx)
}
