// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Wants is what a MiniCluster wants of the scheduler.
type Wants struct {
	Want
	// Pod is one of its pods after admission by the API server, and Services its services pod; nil if it has none.
	Pod, Services *corev1.Pod
	// Quota is what Kueue granted; nil if it needs none.
	Quota *v1alpha2.Quota
	// Refused is the refusal of its pods or objects by a quota; "" if they were accepted. Then it is offered no nodes. Its
	// pods are as before admission by the API server, if a quota refused them.
	Refused string
}

// Want says whether a MiniCluster wants nodes.
type Want int

// Wants of nodes.
const (
	// NoNodes: it is in no queue. Nodes that it was offered and has not taken become free.
	NoNodes Want = iota
	// NodesLater is NoNodes for one that waits, and cannot be decided on yet: it was not checked, or pods of before are
	// going. What an autoscaler was asked for it stays.
	NodesLater
	// NodesNow: it is in its queue.
	NodesNow
	// Gone is NoNodes for one that does not exist any more. Only its name counts.
	Gone
)

// Has is what a MiniCluster with nodes has.
type Has struct {
	// Pod is one of its pods after admission by the API server; nil if there is none.
	Pod *corev1.Pod
	// Displaced are the ranks that need other nodes.
	Displaced []int
	// Most is the largest size to which it may grow with quota from Kueue; nil if it needs none, or that is not known.
	Most *int
}

// Place is how the scheduler sees a MiniCluster.
type Place struct {
	// Queue is the queue: the one that the MiniCluster names, or the one of its namespace.
	Queue string
	// Waits is true if it waits, and has no offer of nodes.
	Waits bool
	// Freed is when the quotas that refused it were last seen to have room; zero if never.
	Freed time.Time
}
