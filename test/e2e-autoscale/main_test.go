// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2eautoscale runs MiniClusters on clusters that begin without a node. Karpenter makes nodes for CapacityBuffers: the
// real one, with its own provider of simulated nodes. A double answers ProvisioningRequests, because the Cluster Autoscaler's
// program is not to be had (double_test.go).
package e2eautoscale

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// env is what all tests share.
var env struct {
	*harness.Suite
	cluster *cluster // without NodePools: each test makes its own
}

func TestMain(m *testing.M) { harness.Main(m, "e2e-autoscale", start) }

// start brings up the cluster that tests share.
func start(ctx context.Context, dir string) (end func() error, err error) {
	if env.Suite, err = harness.NewSuite(ctx, dir, "make karpenter", localcluster.Karpenter); err != nil {
		return nil, err
	}
	if env.cluster, err = up(ctx, "cluster", []localcluster.NodePool{}, 0); err != nil {
		return nil, err
	}
	return env.cluster.down, nil
}

// cluster is a cluster without nodes, with Karpenter, the API of ProvisioningRequests, and a manager.
type cluster struct {
	*harness.Cluster
	karpenter localcluster.KarpenterConfig
	manager   *harness.Manager
	history   *harness.History
}

// up starts a cluster, in which nodes take some time to boot. With nil for pools, it has Karpenter's usual ones.
func up(ctx context.Context, name string, pools []localcluster.NodePool, boot time.Duration) (*cluster, error) {
	c := &cluster{karpenter: localcluster.KarpenterConfig{Pools: pools, Boot: boot}}
	var err error
	c.Cluster, err = env.Up(ctx, name, 0, func(config *localcluster.Config) { config.Karpenter = &c.karpenter })
	if err != nil {
		return nil, err
	}
	if err := c.installProvisioningRequests(ctx); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	c.history, err = c.Record(ctx, map[client.Object]client.ObjectList{
		&corev1.Node{}: &corev1.NodeList{}, &corev1.Pod{}: &corev1.PodList{}, &v1alpha2.MiniCluster{}: &v1alpha2.MiniClusterList{},
		objectOf(bufferKind): listOf(bufferKind), objectOf(requestKind): listOf(requestKind), objectOf(claimKind): listOf(claimKind),
	})
	if err != nil {
		return nil, errors.Join(err, c.Down())
	}
	if err = c.startManager(c.ManagerKubeconfig); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// Kinds of the objects by which autoscalers are asked, and of Karpenter's objects. Karpenter serves no other version of
// CapacityBuffers.
var (
	claimKind   = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
	poolKind    = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	bufferKind  = scaleup.Kind(v1alpha2.ProvideByBuffer, "v1beta1")
	requestKind = scaleup.Kind(v1alpha2.ProvideByRequest, "v1")
)

func (c *cluster) startManager(kubeconfig string) (err error) {
	c.manager, err = env.StartManager(kubeconfig, harness.JobSetEmbedded)
	return err
}

func (c *cluster) down() error {
	c.manager.Stop()
	return c.Down()
}

// newCluster starts a cluster for a test that ends programs, or that uses Karpenter's own NodePools.
func newCluster(t *testing.T, pools []localcluster.NodePool) *cluster {
	t.Helper()
	c, err := up(context.WithoutCancel(t.Context()), t.Name(), pools, 0)
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

// startKarpenter starts Karpenter again, with its API.
func (c *cluster) startKarpenter(t *testing.T) {
	t.Helper()
	if err := c.StartKarpenter(t.Context(), env.Binaries, c.karpenter); err != nil {
		t.Fatal(err)
	}
}
