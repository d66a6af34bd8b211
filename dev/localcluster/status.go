// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status describes a cluster.
type Status struct {
	Cluster   *Cluster
	Version   string // of Kubernetes
	Nodes     int
	Ready     int // nodes
	Pods      int
	Processes []ProcessStatus
}

// ProcessStatus describes a process of a cluster.
type ProcessStatus struct {
	Name  string
	PID   int
	Alive bool
	Log   string
}

// GetStatus returns the status of the cluster in a directory.
func GetStatus(ctx context.Context, dir string) (*Status, error) {
	c, err := Open(dir)
	if err != nil {
		return nil, err
	}
	running, err := processes(dir)
	if err != nil {
		return nil, err
	}
	status := &Status{Cluster: c}
	for _, p := range running {
		status.Processes = append(status.Processes, ProcessStatus{Name: p.Name, PID: p.PID, Alive: p.alive(), Log: p.Log})
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server: %w", err)
	}
	status.Version = version.GitVersion
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	status.Nodes = len(nodes.Items)
	for i := range nodes.Items {
		if nodeReady(&nodes.Items[i]) {
			status.Ready++
		}
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	status.Pods = len(pods.Items)
	return status, nil
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
