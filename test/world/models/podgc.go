// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookForMissing deletes the pods of a node that has not existed for a while (pkg/controller/podgc).
func (l *NodeLifecycle) lookForMissing(name string, pods []*corev1.Pod, now time.Time) {
	w := l.nodes[name]
	if w == nil {
		w = &watchedNode{}
		l.nodes[name] = w
	}
	if w.missing.IsZero() {
		w.missing = now.Add(nodeQuarantine + l.cluster.between(0, podGCPeriod))
	}
	if w.missing.After(now) {
		l.wake(w.missing)
		return
	}
	for _, pod := range pods {
		l.remove(pod, &corev1.PodCondition{Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists"})
	}
}

// remove fails a pod that has not ended, and deletes it by force.
func (l *NodeLifecycle) remove(pod *corev1.Pod, why *corev1.PodCondition) {
	if seconds := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp != nil && seconds != nil && *seconds == 0 && podEnded(pod) {
		return // only finalizers keep it
	}
	if !podEnded(pod) {
		l.todo = append(l.todo, func(ctx context.Context) {
			reason, message := "", ""
			if why != nil {
				reason, message = why.Reason, why.Message
			}
			l.disrupt(ctx, pod, reason, message, true)
		})
	}
	l.todo = append(l.todo, func(ctx context.Context) { l.delete(ctx, pod, client.GracePeriodSeconds(0)) })
}

// disrupt says in the status of a pod that the cluster ends it (with a reason), and that it has failed.
func (l *NodeLifecycle) disrupt(ctx context.Context, pod *corev1.Pod, reason, message string, fails bool) {
	var now corev1.Pod
	err := l.cluster.Client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, &now)
	if err != nil || now.UID != pod.UID {
		return
	}
	if reason != "" {
		set(&now.Status, corev1.DisruptionTarget, corev1.ConditionTrue, reason, message, metav1.NewTime(time.Now()))
	}
	if fails {
		now.Status.Phase = corev1.PodFailed
	}
	_ = l.cluster.Client.Status().Update(ctx, &now) // the pod is deleted anyway
}
