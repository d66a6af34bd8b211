// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// binder decides who binds the pods of a JobSet.
type binder struct {
	client    client.Client
	scheduler Scheduler
	keepGates bool
	// leavesGates is true if the API server last said that it does not bind pods when it creates them, and hasBound if it
	// ever said that it does.
	leavesGates, hasBound atomic.Bool
}

// chooseBinder decides how the pods of a new JobSet will be placed. The choice stays with the
// pods.
func (b *binder) chooseBinder(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if b.keepGates || seen.observation.Trial || seen.view.MiniCluster.Spec.Pod.SchedulerName != "" {
		return nil
	}
	pod, err := checkedPod(seen)
	if err != nil {
		return err
	}
	if b.needsScheduler(pod) {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: only a scheduler can bind them")
		return nil
	}
	return b.bindSetAtAdmission(ctx, seen, set)
}

// anyNode is in the place of the node of a lead that has none yet.
const anyNode = "flux-elastic"

// learn asks the API server whether it binds pods when it creates them, for a MiniCluster that waits, if nobody has asked yet.
// Until then, nodes are held for all pods that Jobs list: without the policies of config/admission, anybody may write such lists.
func (b *binder) learn(ctx context.Context, seen *observed) {
	known := b.keepGates || b.leavesGates.Load() || b.hasBound.Load()
	if mc := seen.view.MiniCluster; known || seen.check == nil || !seen.check.passed() || seen.check.pod == nil || mc.Status.Admission != nil || b.needsScheduler(seen.check.pod) {
		return
	}
	set, err := jobset.JobSet(seen.view.MiniCluster, 1)
	if err == nil {
		nodes := make([]string, jobset.Brokers(set))
		nodes[0] = anyNode
		jobset.BindAtAdmission(set, nodes, len(nodes), seen.now)
		_, err = b.bindsAtAdmission(ctx, seen, jobset.FirstPod(seen.view.MiniCluster, set), anyNode)
	}
	if err != nil { // the next pass asks again
		ctrl.LoggerFrom(ctx).V(1).Info("It is not known whether the API server binds pods", "reason", err.Error())
	}
}

// needsScheduler reports whether only kube-scheduler can check all that keeps a pod from nodes.
func (b *binder) needsScheduler(pod *corev1.Pod) bool {
	return jobset.NeedsScheduler(pod) || b.scheduler.Overlooks(pod.Namespace)
}

// checkedPod is a pod of the gang as the API server would create it, with changes by webhooks. It
// is the pod before that if the check is not needed any more.
func checkedPod(seen *observed) (*corev1.Pod, error) {
	if seen.check != nil && seen.check.pod != nil {
		return seen.check.pod, nil
	}
	return jobset.Pod(seen.view.MiniCluster)
}

const (
	// boundFor is how long the API server's answer holds that it binds pods when it creates them. Pods
	// that it does not bind after all keep their gates, and are placed.
	boundFor = time.Minute
	// gatedFor is how long the answer holds that it does not.
	gatedFor = shapeInterval
)

// binding is an answer of the API server: whether it binds pods when it creates them.
type binding struct {
	binds bool
	until time.Time // the answer holds
}

// note notes an answer.
func (b *binder) note(binds bool) {
	b.leavesGates.Store(!binds)
	if binds {
		b.hasBound.Store(true)
	}
}

// mayBind reports whether the API server may bind pods when they are created.
func (b *binder) mayBind() bool {
	return !b.keepGates && (b.hasBound.Load() || !b.leavesGates.Load())
}

// bindSetAtAdmission lets the API server bind the pods of a new JobSet when they are created, if it
// would. Quota of Kueue may be admitted after the pods are made.
func (b *binder) bindSetAtAdmission(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	mc, admission := seen.view.MiniCluster, seen.observation.Admission
	if seen.quota.Needed() || mc.Status.Admission.Quota != nil {
		return nil
	}
	nodes := slices.Clone(admission.Nodes)
	for _, rank := range admission.Vacated {
		nodes[rank] = ""
	}
	bound := set.DeepCopy()
	jobset.BindAtAdmission(bound, nodes, admission.Quorum, admission.At)
	if !jobset.AnnotationsFit(bound) || weight.ExcessOfJobSet(mc, bound) != "" {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: the names of their nodes are too long for the JobSet", "nodes", len(nodes))
		return nil
	}
	binds, err := b.bindsAtAdmission(ctx, seen, jobset.FirstPod(mc, bound), nodes[0])
	if binds {
		bound.DeepCopyInto(set)
	}
	return err
}

// bindsAtAdmission asks the API server whether it would bind a pod to a node when it creates the pod.
func (b *binder) bindsAtAdmission(ctx context.Context, seen *observed, pod *corev1.Pod, node string) (binds bool, err error) {
	shared := seen.check.answer()
	if last := shared.Load(); last != nil && seen.now.Before(last.until) {
		b.note(last.binds)
		return last.binds, nil
	}
	err = b.client.Create(ctx, pod, client.DryRunAll)
	answer := &binding{until: seen.now.Add(gatedFor)}
	switch {
	// For example by a policy against pods with nodes, or by a webhook that looks for the Job of the pod.
	case wouldRefuse(err):
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: the API server would not create a bound pod", "reason", err.Error())
	case err != nil:
		return false, fmt.Errorf("asking whether the API server would bind a pod: %w", err)
	case jobset.NeedsScheduler(pod):
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: only a scheduler can bind them")
	case pod.Spec.NodeName != node || len(pod.Spec.SchedulingGates) > 0:
		ctrl.LoggerFrom(ctx).V(1).Info("The pods are left to a scheduler: no policy binds them when they are created")
	default:
		answer = &binding{binds: true, until: seen.now.Add(boundFor)}
	}
	shared.Store(answer)
	b.note(answer.binds)
	return answer.binds, nil
}
