// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Times of kube-controller-manager.
const (
	nodeGrace      = 50 * time.Second // from the last heartbeat of a node (pkg/controller/nodelifecycle/config)
	nodePeriod     = 5 * time.Second  // between two looks at the nodes
	podGCPeriod    = 20 * time.Second // between two looks of the collector of pods (pkg/controller/podgc)
	nodeQuarantine = 40 * time.Second // from the deletion of a node to that of its pods
)

// NodeLifecycle is what kube-controller-manager does about nodes (pkg/controller/nodelifecycle, tainteviction, podgc). A
// node without heartbeats becomes unknown, its pods not ready, and then it gets taints. Pods that do not
// tolerate a taint, or not for longer, are deleted. Pods of nodes that are gone or out of service are deleted by force.
type NodeLifecycle struct {
	cluster  *Cluster
	kubelets *Kubelets
	nodes    map[string]*watchedNode
	evict    map[types.UID]time.Time // when pods are deleted for a taint
	todo     []func(ctx context.Context)
	readAt   [2]int
	due      time.Time
}

// watchedNode is what the controller keeps of a node.
type watchedNode struct {
	unknownAt time.Time // zero while it has heartbeats
	taintAt   time.Time // when it gets the taint NoExecute
	missing   time.Time // since when a node is missed that has pods
	collectAt time.Time // when its pods that have to go are deleted by force
}

// NewNodeLifecycle makes the controller. The kubelets tell it of heartbeats.
func NewNodeLifecycle(c *Cluster, k *Kubelets) *NodeLifecycle {
	return &NodeLifecycle{cluster: c, kubelets: k, nodes: map[string]*watchedNode{}, evict: map[types.UID]time.Time{}}
}

// Name is the name of the model.
func (l *NodeLifecycle) Name() string { return "node-lifecycle" }

// Next is when a node or a pod is due.
func (l *NodeLifecycle) Next() time.Time {
	next := l.due
	for _, node := range l.cluster.nodes.objects {
		if w := l.nodes[node.Name]; w == nil || w.unknownAt.IsZero() {
			if renewed := l.kubelets.Renewed(node.Name); !renewed.IsZero() && renewed.Before(time.Now()) {
				next = soonest(next, renewed.Add(nodeGrace))
			}
		}
	}
	return next
}

// Step does one write for a node or a pod.
func (l *NodeLifecycle) Step(ctx context.Context) bool {
	if len(l.todo) == 0 {
		l.look(ctx)
	}
	if len(l.todo) == 0 {
		return false
	}
	do := l.todo[0]
	l.todo = l.todo[1:]
	do(ctx)
	return true
}

// look finds what has to be written.
func (l *NodeLifecycle) look(ctx context.Context) {
	now := time.Now()
	nodes, pods := l.cluster.Nodes(ctx), l.cluster.Pods(ctx)
	readAt := [2]int{l.cluster.nodes.count, l.cluster.pods.count}
	if readAt == l.readAt && !l.isDue(nodes, now) {
		return
	}
	l.readAt, l.due = readAt, time.Time{}
	byNode, there := map[string][]*corev1.Pod{}, map[string]bool{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	evict := map[types.UID]time.Time{}
	for _, node := range nodes {
		there[node.Name] = true
		w := l.nodes[node.Name]
		if w == nil {
			w = &watchedNode{}
			l.nodes[node.Name] = w
		}
		w.missing = time.Time{}
		l.lookAt(node, w, byNode[node.Name], now)
		l.lookAtPods(node, w, byNode[node.Name], evict, now)
	}
	l.evict = evict
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		if !there[name] {
			l.lookForMissing(name, byNode[name], now)
		}
	}
}

func (l *NodeLifecycle) isDue(nodes []*corev1.Node, now time.Time) bool {
	if due(l.due, now) {
		return true
	}
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool {
		w, renewed := l.nodes[node.Name], l.kubelets.Renewed(node.Name)
		unknown := !renewed.IsZero() && now.Sub(renewed) >= nodeGrace
		return w == nil || unknown == w.unknownAt.IsZero()
	})
}

// lookAt looks at the heartbeats and the taints of a node.
func (l *NodeLifecycle) lookAt(node *corev1.Node, w *watchedNode, pods []*corev1.Pod, now time.Time) {
	ready := nodeReady(node)
	if l.isUnknown(node, w, now) && ready.Status != corev1.ConditionUnknown {
		l.todo = append(l.todo, func(ctx context.Context) {
			writeNodeReady(ctx, l.cluster, node, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
		})
		return
	}
	if ready.Status != corev1.ConditionTrue {
		for _, pod := range pods {
			if podReady(pod) {
				l.todo = append(l.todo, func(ctx context.Context) { l.markNotReady(ctx, pod) })
			}
		}
	}
	l.taint(node, w, now)
}

// isUnknown reports whether a node was found to have no heartbeats.
func (l *NodeLifecycle) isUnknown(node *corev1.Node, w *watchedNode, now time.Time) bool {
	renewed := l.kubelets.Renewed(node.Name)
	switch unknown := !renewed.IsZero() && now.Sub(renewed) >= nodeGrace; {
	case !unknown:
		w.unknownAt = time.Time{}
	case w.unknownAt.IsZero(): // it is seen at the next look
		w.unknownAt = now.Add(l.cluster.between(0, nodePeriod))
	}
	if w.unknownAt.After(now) {
		l.wake(w.unknownAt)
		return false
	}
	return !w.unknownAt.IsZero()
}

// taint gives a node the taints of its condition.
func (l *NodeLifecycle) taint(node *corev1.Node, w *watchedNode, now time.Time) {
	wanted := taintsOf(node)
	if len(wanted) == 0 || wanted[0].Key == corev1.TaintNodeUnschedulable {
		w.taintAt = time.Time{}
	} else if w.taintAt.IsZero() {
		w.taintAt = now.Add(l.cluster.between(0, nodePeriod))
	}
	if w.taintAt.After(now) { // this taint comes later than the others
		wanted = slices.DeleteFunc(wanted, func(t corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoExecute && !hasTaint(node, t)
		})
		l.wake(w.taintAt)
	}
	if taints, moved := retaint(node.Spec.Taints, wanted, now); moved {
		l.todo = append(l.todo, func(ctx context.Context) {
			node := node.DeepCopy()
			node.Spec.Taints = taints
			_ = l.cluster.Client.Update(ctx, node) // it is looked at again, also after a conflict
		})
	}
}

// wake has the cluster looked at again.
func (l *NodeLifecycle) wake(at time.Time) { l.due = soonest(l.due, at) }

// taintsOf are the taints that a node has to have for its condition and its cordon.
func taintsOf(node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	both := func(key string) {
		taints = append(taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	switch nodeReady(node).Status {
	case corev1.ConditionFalse:
		both(corev1.TaintNodeNotReady)
	case corev1.ConditionUnknown:
		both(corev1.TaintNodeUnreachable)
	}
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return taints
}

// retaint gives a node the wanted taints of those that the controller manages, and keeps all others.
func retaint(has, wanted []corev1.Taint, now time.Time) (taints []corev1.Taint, moved bool) {
	managed := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable}
	for _, taint := range has {
		i := slices.IndexFunc(wanted, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
		if i < 0 && slices.Contains(managed, taint.Key) {
			moved = true
			continue
		}
		if i >= 0 {
			wanted = slices.Delete(slices.Clone(wanted), i, i+1)
		}
		taints = append(taints, taint)
	}
	for _, taint := range wanted {
		taint.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
		taints, moved = append(taints, taint), true
	}
	return taints, moved
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
}

// markNotReady makes a pod not ready whose node is not (pkg/controller/util/node).
func (l *NodeLifecycle) markNotReady(ctx context.Context, pod *corev1.Pod) {
	pod = pod.DeepCopy()
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(time.Now().Truncate(time.Second))
		}
	}
	_ = l.cluster.Client.Status().Update(ctx, pod) // it is looked at again
}

// lookAtPods deletes pods for the taints of their node.
func (l *NodeLifecycle) lookAtPods(node *corev1.Node, w *watchedNode, pods []*corev1.Pod, evict map[types.UID]time.Time, now time.Time) {
	outOfService := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	isCollected := outOfService && nodeReady(node).Status != corev1.ConditionTrue
	if !isCollected {
		w.collectAt = time.Time{}
	} else if w.collectAt.IsZero() {
		w.collectAt = now.Add(l.cluster.between(0, podGCPeriod))
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			if isCollected && w.collectAt.After(now) {
				l.wake(w.collectAt)
			} else if isCollected {
				l.remove(pod, nil)
			}
			continue
		}
		after, evicted := toleratedFor(pod, node)
		if !evicted {
			continue
		}
		at, known := l.evict[pod.UID]
		if !known || now.Add(after).Before(at) {
			at = now.Add(after)
		}
		if evict[pod.UID] = at; at.After(now) {
			l.wake(at)
			continue
		}
		l.todo = append(l.todo, func(ctx context.Context) {
			l.disrupt(ctx, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", false)
		}, func(ctx context.Context) { l.delete(ctx, pod) })
	}
}

// toleratedFor is for how long a pod tolerates the taints of its node; false if for ever.
func toleratedFor(pod *corev1.Pod, node *corev1.Node) (after time.Duration, evicted bool) {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		tolerated, least := false, time.Duration(-1)
		for _, t := range pod.Spec.Tolerations {
			one := corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{t}}}
			if !tolerates(&one, taint) {
				continue
			}
			tolerated = true
			if t.TolerationSeconds != nil {
				d := time.Duration(max(*t.TolerationSeconds, 0)) * time.Second
				if least < 0 || d < least {
					least = d
				}
			}
			break // the first toleration that matches counts
		}
		switch {
		case !tolerated:
			return 0, true
		case least >= 0 && (!evicted || least < after):
			after, evicted = least, true
		}
	}
	return after, evicted
}

func (l *NodeLifecycle) delete(ctx context.Context, pod *corev1.Pod, options ...client.DeleteOption) {
	options = append(options, client.Preconditions{UID: &pod.UID})
	_ = l.cluster.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, options...)
}
