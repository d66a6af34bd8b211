// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A pod does not start while a Secret or ConfigMap does not exist that the pod mounts. No check knows that before, since the
// manager may not read Secrets, and only events of the kubelet say so.

const (
	// mountGrace is how long a kubelet may take to mount the volumes of a pod before events are read.
	mountGrace = 10 * time.Second
	// failedMount is the reason of the kubelet's events.
	failedMount = "FailedMount"
)

// saysUnmounted matches what a kubelet says of an object that a volume needs, and that does not exist.
var saysUnmounted = regexp.MustCompile(`(?:secrets?|configmaps?) "([^"]*)" not found`)

// lookForMounts finds out why the pods of an attempt do not start that could not have begun: their nodes go back if what they
// mount does not exist.
func (r *Reconciler) lookForMounts(ctx context.Context, seen *observed) {
	o := seen.observation
	if o.Admission == nil || o.Outcome != "" || o.Workload != life.Active || o.MayRun(seen.now) {
		return
	}
	waits := map[types.UID]time.Duration{}
	for _, pod := range seen.view.Brokers() {
		placed := pod.Broker.Placed
		if placed.IsZero() || !awaitsVolumes(pod.Pod) {
			continue
		}
		waited := seen.now.Sub(placed)
		seen.lookAgain = elastic.Earliest(seen.lookAgain, seen.now.Add(max(mountGrace-waited, waited, time.Second)))
		if waited >= mountGrace {
			waits[pod.UID] = waited
		}
	}
	if len(waits) == 0 {
		return
	}
	events, err := r.refusals.in(seen.view.JobSet.Namespace, seen.now).read(ctx, r.Live, seen.view.JobSet.Namespace, seen.now)
	switch {
	case errors.Is(err, errReading):
		seen.lookAgain = elastic.Earliest(seen.lookAgain, seen.now.Add(time.Second))
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Reading why pods do not start")
	}
	if why := unmounted(events, waits, seen.now, jobset.FileNames(seen.view.MiniCluster, seen.view.JobSet)); why != "" {
		r.refuse(seen, "brokers cannot start: "+why)
	}
}

// awaitsVolumes reports whether a kubelet has not mounted all volumes of a pod yet: it makes the sandbox after that.
func awaitsVolumes(pod *corev1.Pod) bool {
	isSandbox := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	}
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.Conditions, isSandbox)
}

// unmounted is what a volume of one of some pods needs, and what does not exist; "" if that is not known. waits says how long
// the pods have waited. A kubelet tries again after pauses that double: an event that is older than half of the time is out
// of date, and so is one of the first seconds. The manager makes the files of the JobSet by itself, maybe after the pods.
func unmounted(events []failure, waits map[types.UID]time.Duration, now time.Time, files []string) string {
	const slack = 2 * time.Second // of clocks
	for _, e := range events {
		waited, ours := waits[e.uid]
		age := now.Sub(e.at)
		if !ours || e.kind != "Pod" || age < -slack || age > min(waited/2+slack, waited-mountGrace/2) {
			continue
		}
		for _, found := range saysUnmounted.FindAllStringSubmatch(e.message, -1) {
			if !slices.Contains(files, found[1]) {
				return found[0]
			}
		}
	}
	return ""
}
