// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// follower records the changes that it sees.
type follower struct {
	*watcher
	jobs   bool               // the gangs are Jobs
	sizes  map[string]int     // of the gangs
	events map[string]float64 // counts, by reason
	begun  time.Time
	pods   map[types.UID]bool // pods that exist and are to be deleted: all but those of leads
}

// follow submits the gangs and follows them until all of them are over and their pods are deleted,
// or until the limit is over.
func (f *follower) follow(ctx context.Context, e *experiment, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.about.Limit*float64(time.Second)))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	f.begun = time.Now()
	for _, gang := range e.gangs {
		f.record.Submitted(gang, f.begun.Add(gang.At))
		f.sizes[gang.Name] = gang.Size
	}
	go e.submit(ctx, c, f.begun, fail)
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	var tidy <-chan time.Time // set when all gangs are over
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				say("the time limit is over")
				return nil
			}
			return context.Cause(ctx)
		case seen := <-f.changes:
			f.takeAll(seen)
			if tidy == nil && f.record.Over() {
				tidy = time.After(tidyTimeout)
			}
			if tidy != nil && len(f.pods) == 0 {
				return nil
			}
		case <-tidy:
			return nil
		case <-ticker.C:
			say(fmt.Sprintf("%5.0f s: %d of %d gangs finished, %d nodes held", time.Since(f.begun).Seconds(), f.record.Finished(), len(e.gangs), f.holding()))
		}
	}
}

// takeAll adds a change to the table, the timeline and the record.
func (f *follower) takeAll(seen change) {
	if gang := gangOf(seen.object); gang != "" && f.sizes[gang] == 0 {
		return // the first gang
	}
	f.take(seen)
	switch object := seen.object.(type) {
	case *corev1.Pod:
		f.takeMember(object, seen)
	case *eventsv1.Event:
		if !seen.gone && !object.CreationTimestamp.Time.Before(f.begun.Truncate(time.Second)) {
			f.events[object.Reason]++
		}
	}
}

// gangOf returns the name of the gang of an object; "" for an event.
func gangOf(object client.Object) string {
	switch object := object.(type) {
	case *corev1.Pod:
		m, _ := memberOf(object)
		return m.gang
	case *v1alpha2.MiniCluster:
		return object.Name
	}
	return ""
}

// statusOf returns what the record needs of a MiniCluster.
func statusOf(mc *v1alpha2.MiniCluster, revision uint64) clog.Status {
	s := clog.Status{Gang: mc.Name, Created: mc.CreationTimestamp.Time, Revision: revision, Started: mc.Status.StartTime != nil}
	if mc.Status.Admission != nil {
		s.Attempt = int(mc.Status.Admission.Attempt)
		s.Nodes, _ = state.Nodes(mc)
	}
	s.Finished = meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
	if finished := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished); finished != nil {
		s.Succeeded = s.Finished && finished.Reason == v1alpha2.ReasonSucceeded
	}
	return s
}

// takeMember notes whether a pod is to be deleted.
func (f *follower) takeMember(pod *corev1.Pod, seen change) {
	m, ok := memberOf(pod)
	if !ok {
		return
	}
	if seen.gone {
		delete(f.pods, pod.UID)
	} else if m.rank > 0 || f.jobs {
		f.pods[pod.UID] = true
	}
}

// isReady reports whether a pod is ready.
func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
