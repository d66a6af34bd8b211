// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// kwok simulates the nodes with this label.
const (
	simulatedLabel = "type"
	simulatedValue = "simulated"
)

// nodeTimeout is how much longer the cluster may take to start for each node.
const nodeTimeout = 100 * time.Millisecond

// NodeConfig describes the simulated nodes.
type NodeConfig struct {
	// Count is the number of nodes. Their names are node-000, node-001, ...
	Count int
	// CPU and Memory are the resources of each node, as quantities.
	CPU, Memory string
	// Pods is how many pods each node can have.
	Pods int
}

// makeNodes creates the simulated nodes.
func (c *Cluster) makeNodes(ctx context.Context, config NodeConfig) error {
	capacity, err := config.capacity()
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range config.Count {
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(groupCtx, newNode(NodeName(i), capacity), metav1.CreateOptions{})
			return ignoreAlreadyExists(err)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("making nodes: %w", err)
	}
	return nil
}

// awaitNodes waits until count nodes are ready. It asks less often for many nodes, since each answer has
// all of them.
func (c *Cluster) awaitNodes(ctx context.Context, count int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	interval := pollInterval * time.Duration(1+count/100)
	timeout := startTimeout + time.Duration(count)*nodeTimeout
	err = wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range nodes.Items {
			// A node keeps the taint not-ready for a moment after it has become ready.
			if nodeReady(&nodes.Items[i]) && len(nodes.Items[i].Spec.Taints) == 0 {
				ready++
			}
		}
		return ready >= count, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the nodes: %w", err)
	}
	return nil
}

// NodeName returns the name of the i-th simulated node.
func NodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func (n NodeConfig) capacity() (corev1.ResourceList, error) {
	capacity := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: n.CPU, corev1.ResourceMemory: n.Memory, corev1.ResourcePods: strconv.Itoa(n.Pods),
	} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s of a node, %q: %w", name, text, err)
		}
		capacity[name] = quantity
	}
	return capacity, nil
}

func newNode(name string, capacity corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				simulatedLabel:           simulatedValue,
				corev1.LabelHostname:     name,
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   runtime.GOARCH,
				corev1.LabelInstanceType: simulatedValue,
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
