// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kubelets are the kubelets of all nodes (pkg/kubelet), with the container runtimes and the processes on their nodes.
// They know what runs also where the API server does not. Statuses follow from what runs, and are written one at a
// time. A heartbeat is no write: the lifecycle of nodes asks Renewed.
type Kubelets struct {
	cluster   *Cluster
	nodes     []*kubelet // in the order in which they were first seen
	byName    map[string]*kubelet
	instances []*instance
	faults    []*startFault
	processes []*Process
	readAt    [2]int
}

// kubelet is a node, with its kubelet.
type kubelet struct {
	all     *Kubelets
	name    string
	node    *corev1.Node // as last seen; nil if the object is gone
	workers []*worker    // in the order in which their pods came
	// cut is true if the kubelet does not reach the API server, alone if brokers do not reach those of other nodes, and
	// off if the node has no power.
	cut, alone, off bool
	down            time.Time // the kubelet does not run until then
	renewed         time.Time // its last heartbeat, while it is not reachable
	unread          bool      // it has to read its pods although none has changed
}

// NewKubelets makes kubelets that have seen no node.
func NewKubelets(c *Cluster) *Kubelets {
	return &Kubelets{cluster: c, byName: map[string]*kubelet{}}
}

// Name is the name of the model.
func (k *Kubelets) Name() string { return "kubelets" }

// Step lets happen what is due on the nodes, and writes one status, or deletes one pod that has ended.
func (k *Kubelets) Step(ctx context.Context) bool {
	k.look(ctx)
	moved := k.advance(ctx)
	return k.write(ctx) || moved
}

// Next is when something happens on a node by time alone.
func (k *Kubelets) Next() time.Time {
	var next time.Time
	for _, n := range k.nodes {
		next = soonest(next, n.down)
		for _, w := range n.workers {
			next = soonest(next, w.next())
		}
	}
	for _, i := range k.instances {
		next = soonest(next, i.next())
	}
	return next
}

// Renewed is the last heartbeat of a node; zero if the node is not known.
func (k *Kubelets) Renewed(node string) time.Time {
	n := k.byName[node]
	switch {
	case n == nil:
		return time.Time{}
	case n.runs() && !n.cut:
		return time.Now()
	}
	return n.renewed
}

// runs reports whether the kubelet's own process runs.
func (n *kubelet) runs() bool { return !n.off && n.down.IsZero() }

// look lets kubelets that reach the API server see its pods.
func (k *Kubelets) look(ctx context.Context) {
	pods, nodes := k.cluster.Pods(ctx), k.cluster.Nodes(ctx)
	readAt := [2]int{k.cluster.pods.count, k.cluster.nodes.count}
	unread := slices.ContainsFunc(k.nodes, func(n *kubelet) bool { return n.unread && n.runs() && !n.cut })
	if readAt == k.readAt && !unread {
		return
	}
	k.readAt = readAt
	there := map[string]*corev1.Node{}
	for _, node := range nodes {
		there[node.Name] = node
		if k.byName[node.Name] == nil {
			k.byName[node.Name] = &kubelet{all: k, name: node.Name}
			k.nodes = append(k.nodes, k.byName[node.Name])
		}
	}
	bound := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound[pod.Spec.NodeName] = append(bound[pod.Spec.NodeName], pod)
		}
	}
	for _, n := range k.nodes {
		if n.runs() && !n.cut {
			n.unread = false
			n.node = there[n.name]
			n.see(bound[n.name])
		} else {
			n.unread = true
		}
	}
}

// see compares the pods of the node in the API server with those that the kubelet knows.
func (n *kubelet) see(pods []*corev1.Pod) {
	there := map[types.UID]*corev1.Pod{}
	for _, pod := range pods {
		there[pod.UID] = pod
	}
	for _, w := range n.workers {
		pod := there[w.pod.UID]
		delete(there, w.pod.UID)
		if pod == nil {
			w.gone = true
		} else if pod.ResourceVersion != w.pod.ResourceVersion || pod != w.pod {
			w.update(pod)
		}
	}
	for _, pod := range pods {
		if there[pod.UID] != nil {
			n.workers = append(n.workers, newWorker(n, pod))
		}
	}
}

// advance lets everything happen that is due by now.
func (k *Kubelets) advance(ctx context.Context) (moved bool) {
	now := time.Now()
	for again := true; again; {
		again = false
		for _, n := range k.nodes {
			if !n.down.IsZero() && !n.off && !now.Before(n.down) {
				n.down, n.unread, again = time.Time{}, true, true
			}
			for _, w := range n.workers {
				again = w.advance(ctx, now) || again
			}
			n.workers = slices.DeleteFunc(n.workers, func(w *worker) bool { return w.isForgotten() })
		}
		for _, i := range k.instances {
			again = i.advance(now) || again
		}
		moved = moved || again
	}
	k.instances = slices.DeleteFunc(k.instances, func(i *instance) bool { return len(i.brokers) == 0 })
	return moved
}

// write makes one of the writes that kubelets have to make.
func (k *Kubelets) write(ctx context.Context) bool {
	var waiting []func(context.Context)
	for _, n := range k.nodes {
		if !n.runs() || n.cut {
			continue
		}
		if n.isUnreported() {
			waiting = append(waiting, n.report)
		}
		for _, w := range n.workers {
			if write := w.toWrite(); write != nil {
				waiting = append(waiting, write)
			}
		}
	}
	if len(waiting) == 0 {
		return false
	}
	waiting[k.cluster.Random.IntN(len(waiting))](ctx)
	return true
}

// isUnreported reports whether the API server says that the node is not ready.
func (n *kubelet) isUnreported() bool {
	return n.node != nil && nodeReady(n.node).Status != corev1.ConditionTrue
}

// report says that the node is ready.
func (n *kubelet) report(ctx context.Context) {
	writeNodeReady(ctx, n.all.cluster, n.node, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	n.node = nil // until it is read again
	n.unread = true
}
