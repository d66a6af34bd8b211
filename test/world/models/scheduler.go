// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Times of kube-scheduler (pkg/scheduler/backend/queue/scheduling_queue.go).
const (
	schedulerBackoffLeast = time.Second
	schedulerBackoffMost  = 10 * time.Second
	schedulerFlush        = 5 * time.Minute // a pod without a node is tried again without any event
)

// Scheduler is kube-scheduler (pkg/scheduler) with those plugins of its default profile that matter here: scheduling
// gates, cordons, taints, node affinity and selectors, resources. It does not score: of the nodes that fit it takes any.
// It leaves out preemption, volumes, ports, affinity between pods, spreading and dynamic resources.
type Scheduler struct {
	cluster *Cluster
	paused  bool
	waiting map[types.UID]*waitingPod
	// assumed are the nodes of pods that were chosen and are not bound yet.
	assumed []assumption
	readAt  [2]int
}

// waitingPod is a pod for which no node was found, or whose binding failed.
type waitingPod struct {
	attempts      int
	next          time.Time
	unschedulable bool // it waits for an event
}

type assumption struct {
	pod  *corev1.Pod
	node string
}

// NewScheduler makes a scheduler.
func NewScheduler(c *Cluster) *Scheduler {
	return &Scheduler{cluster: c, waiting: map[types.UID]*waitingPod{}}
}

// Name is the name of the model.
func (s *Scheduler) Name() string { return "kube-scheduler" }

// Pause lets the scheduler do nothing until Resume.
func (s *Scheduler) Pause() { s.paused = true }

// Resume lets the scheduler go on.
func (s *Scheduler) Resume() { s.paused = false }

// Step binds a pod, chooses a node for one, or says why it has none.
func (s *Scheduler) Step(ctx context.Context) bool {
	if s.paused {
		return false
	}
	if len(s.assumed) > 0 {
		next := s.assumed[0]
		s.assumed = s.assumed[1:]
		s.bind(ctx, next)
		return true
	}
	pods := s.queue(ctx)
	if len(pods) == 0 {
		return false
	}
	pod := pods[0]
	node, why := s.choose(ctx, pod)
	if why == "" {
		s.assumed = append(s.assumed, assumption{pod, node})
		return true
	}
	w := s.fails(pod)
	w.unschedulable, w.next = true, time.Now().Add(schedulerFlush)
	s.explain(ctx, pod, why)
	return true
}

// Next is when the next pod is tried again.
func (s *Scheduler) Next() time.Time {
	var next time.Time
	if s.paused {
		return next
	}
	for _, w := range s.waiting {
		next = soonest(next, w.next)
	}
	return next
}

// queue are the pods that may be scheduled now, in their order.
func (s *Scheduler) queue(ctx context.Context) []*corev1.Pod {
	now, pods := time.Now(), s.cluster.Pods(ctx)
	s.cluster.Nodes(ctx)
	readAt := [2]int{s.cluster.pods.count, s.cluster.nodes.count}
	moved := readAt != s.readAt
	s.readAt = readAt
	there := map[types.UID]bool{}
	var out []*corev1.Pod
	for _, pod := range pods {
		if !schedulable(pod) {
			continue
		}
		there[pod.UID] = true
		w := s.waiting[pod.UID]
		if w != nil && moved && w.unschedulable { // an event may have made room: back to the queue after the backoff
			w.unschedulable = false
			w.next = now.Add(min(schedulerBackoffLeast<<min(w.attempts-1, 4), schedulerBackoffMost))
		}
		if w == nil || !w.next.After(now) {
			out = append(out, pod)
		}
	}
	maps.DeleteFunc(s.waiting, func(uid types.UID, _ *waitingPod) bool { return !there[uid] })
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(int(ptr.Deref(b.Spec.Priority, 0)-ptr.Deref(a.Spec.Priority, 0)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	return out
}

func schedulable(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && !podEnded(pod) &&
		(pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName)
}

func (s *Scheduler) fails(pod *corev1.Pod) *waitingPod {
	w := s.waiting[pod.UID]
	if w == nil {
		w = &waitingPod{}
		s.waiting[pod.UID] = w
	}
	w.attempts++
	return w
}

// choose chooses any node that fits, or says why none does.
func (s *Scheduler) choose(ctx context.Context, pod *corev1.Pod) (node, why string) {
	var fit []string
	nodes, reasons := s.cluster.Nodes(ctx), map[string]int{}
	used := usedOn(s.cluster.Pods(ctx))
	for _, a := range s.assumed {
		used.add(a.node, a.pod)
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, n := range nodes {
		refusals := refusalsOf(pod, n, required, used[n.Name])
		if len(refusals) == 0 {
			fit = append(fit, n.Name)
		}
		for _, refusal := range refusals {
			reasons[refusal]++
		}
	}
	if len(fit) > 0 {
		return fit[s.cluster.Random.IntN(len(fit))], ""
	}
	var parts []string
	for reason, n := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	why = fmt.Sprintf("0/%d nodes are available:", len(nodes))
	if len(parts) > 0 {
		why += " " + strings.Join(parts, ", ") + "."
	}
	return "", why
}

// refusalsOf are the reasons of the first plugin that refuses a node; none if the pod fits.
func refusalsOf(pod *corev1.Pod, node *corev1.Node, required nodeaffinity.RequiredNodeAffinity, used usage) []string {
	matches, _ := required.Match(node)
	switch {
	case !matches && names(pod) && !named(pod, node.Name): // the plugin does not look at other nodes
		return []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}
	case node.Spec.Unschedulable && !tolerates(pod, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return []string{"node(s) were unschedulable"}
	case untolerated(pod, node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute) != nil:
		return []string{"node(s) had untolerated taint(s)"}
	case !matches:
		return []string{"node(s) didn't match Pod's node affinity/selector"}
	}
	return used.lacks(pod, node)
}

// bind binds a pod to its node.
func (s *Scheduler) bind(ctx context.Context, a assumption) {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.pod.Namespace, Name: a.pod.Name, UID: a.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: a.node},
	}
	if err := s.cluster.Client.SubResource("binding").Create(ctx, a.pod.DeepCopy(), binding); err != nil {
		w := s.fails(a.pod)
		w.next = time.Now().Add(min(schedulerBackoffLeast<<min(w.attempts-1, 4), schedulerBackoffMost))
	}
}

// explain says in the status of a pod why it has no node.
func (s *Scheduler) explain(ctx context.Context, pod *corev1.Pod, why string) {
	has := podCondition(pod, corev1.PodScheduled)
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
		LastTransitionTime: has.LastTransitionTime,
	}
	if has.Status == condition.Status && has.Reason == condition.Reason && has.Message == why {
		return
	}
	if has.Status != condition.Status {
		condition.LastTransitionTime = metav1.NewTime(time.Now())
	}
	data, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	_ = s.cluster.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, data)) // the next attempt explains it again
}
