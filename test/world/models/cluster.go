// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Model is a program of the cluster.
type Model interface {
	Name() string
	// Step does at most one write, and reports whether it did something.
	Step(ctx context.Context) (did bool)
	// Next is when the model may have something to do though no object changes; zero for never. It holds after a
	// Step that did nothing.
	Next() time.Time
}

// Cluster is what models share: a way to the API server, and what they have read of it.
type Cluster struct {
	Client client.Client
	Random *rand.Rand
	// Changed is the last resource version of a kind, for example of "Pod". While it stays the same, models
	// look at what they have read before. Without it they read each time.
	Changed func(kind string) uint64

	pods  reading[*corev1.Pod]
	nodes reading[*corev1.Node]
	jobs  reading[*batchv1.Job]
}

// reading is what was read of a kind.
type reading[T any] struct {
	version uint64
	objects []T
	// count grows with each reading that may differ from the one before.
	count int
}

// Pods are all pods in the order of names. Models only read them.
func (c *Cluster) Pods(ctx context.Context) []*corev1.Pod {
	return read(c, &c.pods, "Pod", func() []*corev1.Pod {
		var list corev1.PodList
		c.list(ctx, &list)
		return pointers(list.Items)
	})
}

// Nodes are all nodes in the order of names.
func (c *Cluster) Nodes(ctx context.Context) []*corev1.Node {
	return read(c, &c.nodes, "Node", func() []*corev1.Node {
		var list corev1.NodeList
		c.list(ctx, &list)
		return pointers(list.Items)
	})
}

// Jobs are all Jobs in the order of names.
func (c *Cluster) Jobs(ctx context.Context) []*batchv1.Job {
	return read(c, &c.jobs, "Job", func() []*batchv1.Job {
		var list batchv1.JobList
		c.list(ctx, &list)
		return pointers(list.Items)
	})
}

func (c *Cluster) list(ctx context.Context, list client.ObjectList) {
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		panic(fmt.Sprintf("reading objects in memory: %v", err)) // nothing refuses a model
	}
}

func read[T client.Object](c *Cluster, r *reading[T], kind string, list func() []T) []T {
	if c.Changed != nil {
		version := c.Changed(kind)
		if version == r.version && r.count > 0 {
			return r.objects
		}
		r.version = version
	}
	r.count++
	r.objects = list()
	slices.SortFunc(r.objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return r.objects
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// between draws a duration.
func (c *Cluster) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(c.Random.Int64N(int64(most-least)))
}

// chance is true with a probability.
func (c *Cluster) chance(p float64) bool { return c.Random.Float64() < p }

// soonest is the earlier of two times, of which zero is never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func nameOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }
