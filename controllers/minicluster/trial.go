// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A policy or webhook may deny to the manager what it allows to the controllers of Kubernetes, which make the Jobs and pods.
// Then a trial finds out: the JobSet is made, and its pods stay behind their gates and hold no nodes.

// trialTime is how long one MiniCluster of a namespace may take, before others try.
const trialTime = time.Minute

// try goes on with a check that was denied. One MiniCluster of a namespace tries at a time. Once a pod is there, the check
// has passed, also for MiniClusters that are alike. Pods of an admission are made anyway.
func (c *checker) try(ctx context.Context, seen *observed) error {
	memory, o, mc := seen.memory, seen.observation, seen.view.MiniCluster
	denied := memory.check
	if !denied.denied {
		c.memories.endTrial(mc)
		return nil
	}
	made := denied.pod
	if o.Admission == nil {
		var err error
		if made, err = c.madePod(ctx, seen); err != nil {
			return err
		}
		if made == nil {
			o.Trial = c.memories.mayTry(mc, seen.now)
			return nil
		}
	}
	passed := faultOf(seen.now, made, denied.services, denied.failures)
	if passed == nil {
		passed = &check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: made, services: denied.services, at: seen.now, tried: true}
	}
	passed.generation, passed.binding = mc.Generation, denied.binding
	memory.check = passed
	c.memories.endTrial(mc)
	if o.Admission != nil {
		return nil
	}
	return c.shapes.settle(seen.stored, *passed)
}

// madePod is a broker's pod of a trial as the API server has made it; nil if there is none. Anybody who may make pods can
// give them our labels, so the pod belongs to a Job of the JobSet, and requests what was asked for.
func (c *checker) madePod(ctx context.Context, seen *observed) (*corev1.Pod, error) {
	cached := seen.view.Admitted()
	if cached == nil || seen.observation.Workload != life.Ahead {
		return nil, nil
	}
	var pod corev1.Pod
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(cached), &pod); err != nil {
		return nil, fmt.Errorf("reading pod %q: %w", cached.Name, err)
	}
	owner := metav1.GetControllerOfNoCopy(&pod)
	if owner == nil || owner.Kind != "Job" {
		return nil, nil
	}
	var job batchv1.Job
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, &job); err != nil {
		return nil, fmt.Errorf("reading Job %q: %w", owner.Name, err)
	}
	has := state.PodRequests(&pod)
	for name, asked := range state.PodRequests(seen.memory.check.pod) {
		if amount := has[name]; amount.Cmp(asked) < 0 {
			return nil, nil
		}
	}
	if job.UID != owner.UID || !metav1.IsControlledBy(&job, seen.view.JobSet) {
		return nil, nil
	}
	pod.ManagedFields = nil
	return protocol.Unpinned(&pod), nil
}

// trial is the MiniCluster of a namespace that tries, and since when.
type trial struct {
	uid   types.UID
	since time.Time
}

// mayTry reports whether a MiniCluster is the one of its namespace that tries. Its time may be up when others want to.
func (m *memories) mayTry(mc *v1alpha2.MiniCluster, now time.Time) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if one, ok := m.trials[mc.Namespace]; ok && now.Sub(one.since) < trialTime {
		return one.uid == mc.UID
	}
	if m.trials == nil {
		m.trials = map[string]trial{}
	}
	m.trials[mc.Namespace] = trial{uid: mc.UID, since: now}
	return true
}

// endTrial lets another MiniCluster of the namespace try.
func (m *memories) endTrial(mc *v1alpha2.MiniCluster) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.trials[mc.Namespace].uid == mc.UID {
		delete(m.trials, mc.Namespace)
	}
}
