// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs MiniClusters on a real control plane with simulated nodes, by
// the manager as it is shipped: a process of its own, with the rights of its own
// service account and no more.
package e2e

import (
	"context"
	"sync"
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

// restartManager starts the manager that tests share.
func restartManager(t *testing.T) {
	t.Helper()
	var err error
	if env.manager, err = startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded); err != nil {
		t.Error(err)
	}
}

// stopManager stops the manager that tests share, until the function that it returns is called.
func stopManager(t *testing.T) (start func()) {
	t.Helper()
	operate(t, false)
	env.manager.Stop()
	return func() { restartManager(t) }
}

// operation says who carries out the MiniClusters of the cluster: the manager that tests share, or operators of sites.
// A MiniCluster must not have both.
var operation = struct {
	tests   int
	bySites bool
	idle    *sync.Cond
}{idle: sync.NewCond(&sync.Mutex{})}

// operate waits until the tests that run want the manager that tests share, or want it to be stopped.
func operate(t *testing.T, bySites bool) {
	t.Helper()
	lock := operation.idle.L
	lock.Lock()
	defer lock.Unlock()
	for operation.tests > 0 && operation.bySites != bySites {
		operation.idle.Wait()
	}
	operation.tests++
	t.Cleanup(func() {
		lock.Lock()
		defer lock.Unlock()
		operation.tests--
		operation.idle.Broadcast()
	})
	switch {
	case bySites && !operation.bySites:
		env.manager.Stop()
	case !bySites && operation.bySites:
		restartManager(t)
	}
	operation.bySites = bySites
}
