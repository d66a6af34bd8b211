// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2ekueue runs MiniClusters beside the real Kueue, on a real control plane with simulated
// nodes.
package e2ekueue

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

const nodeCount = 96

// allIntegrations lets Kueue look at all that belongs to a MiniCluster: Jobs, JobSets and pods.
const allIntegrations = "integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod]}\n"

// env is what all tests share.
var env struct {
	*harness.Suite
	cluster *cluster
}

func TestMain(m *testing.M) { harness.Main(m, "e2e-kueue", start) }

// start brings up the cluster that tests share.
func start(ctx context.Context, dir string) (end func() error, err error) {
	// Fewer at once than in other suites: many tests start a cluster of their own.
	if err := flag.Set("test.parallel", "12"); err != nil {
		return nil, err
	}
	if env.Suite, err = harness.NewSuite(ctx, dir, "make kueue", localcluster.Kueue); err != nil {
		return nil, err
	}
	if err := kueueapi.AddToScheme(env.Scheme); err != nil {
		return nil, err
	}
	if env.cluster, err = up(ctx, "cluster", nodeCount, ""); err != nil {
		return nil, err
	}
	return env.cluster.down, nil
}

// cluster is a cluster with Kueue and a manager.
type cluster struct {
	*harness.Cluster
	manager *harness.Manager
	history *harness.History
}

// up starts a cluster. The configuration is a part of Kueue's (see localcluster.KueueConfig).
func up(ctx context.Context, name string, nodes int, configuration string) (*cluster, error) {
	if !strings.HasPrefix(configuration, "integrations:") {
		configuration = allIntegrations + configuration
	}
	kueue := &localcluster.KueueConfig{Configuration: configuration}
	shared, err := env.Up(ctx, name, nodes, func(c *localcluster.Config) { c.Kueue = kueue })
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: shared}
	c.history, err = c.Record(ctx, map[client.Object]client.ObjectList{
		&corev1.Pod{}: &corev1.PodList{}, &v1alpha2.MiniCluster{}: &v1alpha2.MiniClusterList{},
		&kueueapi.Workload{}: &kueueapi.WorkloadList{}, &kueueapi.ClusterQueue{}: &kueueapi.ClusterQueueList{},
	})
	if err != nil {
		return nil, errors.Join(err, c.Down())
	}
	if err = c.startManager(c.ManagerKubeconfig); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

func (c *cluster) startManager(kubeconfig string) (err error) {
	c.manager, err = env.StartManager(kubeconfig, harness.JobSetEmbedded)
	return err
}

func (c *cluster) down() error {
	c.manager.Stop()
	return c.Down()
}

// newCluster starts a cluster for a test that ends programs or needs another configuration of Kueue.
func newCluster(t *testing.T, nodes int, configuration string) *cluster {
	t.Helper()
	c, err := up(context.WithoutCancel(t.Context()), t.Name(), nodes, configuration)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startKueue starts Kueue again with a configuration, and waits until its webhooks answer.
func (c *cluster) startKueue(t *testing.T, configuration string) {
	t.Helper()
	config := localcluster.KueueConfig{Configuration: allIntegrations + configuration}
	if err := c.StartKueue(t.Context(), env.Binaries, config); err != nil {
		t.Fatal(err)
	}
}
