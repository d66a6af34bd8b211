// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/test/lives"
)

// What is the same on simulated nodes, where TestLives has the same lives. They are there at
// once, but for those that grow, and wait for each other: a node has room for three brokers.
func testLives(c *cluster) {
	var node corev1.Node
	if err := c.client.Get(c.Context(), client.ObjectKey{Name: localcluster.RealNodeName(0)}, &node); err != nil {
		c.Fatal(err)
	}
	third := *resource.NewMilliQuantity(node.Status.Allocatable.Cpu().MilliValue()*3/10, resource.DecimalSI)
	play := func(life lives.Life) {
		mc := life.MiniCluster.Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: third}
		}).New()
		c.T.Run(mc.Name, func(t *testing.T) {
			m := &miniCluster{cluster: c.in(t), name: mc.Name}
			t.Cleanup(m.remove)
			err := life.Play(t.Context(), c.client, mc, func(is func() error) error { return poll(t.Context(), is) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	// A MiniCluster gives what it has above its size to those that wait, so those that grow live before the others.
	grow := func(life lives.Life) bool { return life.MiniCluster.New().Spec.MaxSize > 0 }
	var all sync.WaitGroup
	for _, life := range lives.All() {
		if grow(life) {
			play(life)
		}
	}
	for _, life := range lives.All() {
		if !grow(life) {
			all.Go(func() { play(life) })
		}
	}
	all.Wait()
}
