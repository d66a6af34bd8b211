// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

const (
	// growthWait is how long a MiniCluster waits for quota to grow, and how long such quota stays
	// unused. Nodes are promised meanwhile.
	growthWait = 20 * time.Second
	// growthPause is when a MiniCluster asks for quota to grow after a refusal. It doubles with
	// each refusal, up to growthPauseMost.
	growthPause     = 30 * time.Second
	growthPauseMost = 10 * time.Minute
	// growthInfix is between the name of the first Workload and the number of a further one.
	growthInfix = "-grow-"
)

// pauseAfter is how long a MiniCluster does not ask for quota to grow after some refusals.
func pauseAfter(refusals int) time.Duration {
	return min(growthPause<<min(max(refusals-1, 0), 10), growthPauseMost)
}

// GrowthOf are the Workloads of a list that ask for quota to grow for a MiniCluster, the oldest
// first.
func GrowthOf(mc *v1alpha2.MiniCluster, list []kueueapi.Workload) []*kueueapi.Workload {
	var out []*kueueapi.Workload
	for i := range list {
		if wl := &list[i]; metav1.IsControlledBy(wl, mc) && growthNumber(mc, wl) > 0 {
			out = append(out, wl)
		}
	}
	slices.SortFunc(out, func(a, b *kueueapi.Workload) int { return cmp.Compare(growthNumber(mc, a), growthNumber(mc, b)) })
	return out
}

// growthNumber is the number in the name of a Workload that asks for quota to grow; 0 for others.
func growthNumber(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload) int {
	text, found := strings.CutPrefix(wl.Name, Name(mc)+growthInfix)
	number, err := strconv.Atoi(text)
	if !found || err != nil {
		return 0
	}
	return number
}

// growth asks for quota for more workers of a MiniCluster with nodes, on nodes of the flavors that it
// has. Any other Workload goes before it, and may preempt it.
func growth(first *kueueapi.Workload, in Input) *kueueapi.Workload {
	mc, number := in.MiniCluster, 1
	if n := len(in.Growth); n > 0 {
		number += growthNumber(mc, in.Growth[n-1])
	}
	pod := Confine(in.Pod, mc.Status.Admission.Quota)
	wl := newWorkload(mc, fmt.Sprintf("%s%s%d", Name(mc), growthInfix, number))
	wl.Spec.PodSets = []kueueapi.PodSet{{Name: workers, Count: int32(in.Ask), MinCount: ptr.To[int32](1), Template: corev1.PodTemplateSpec{Spec: countedFields(&pod.Spec)}}}
	wl.Spec.QueueName, wl.Spec.Priority = first.Spec.QueueName, ptr.To[int32](math.MinInt32)
	return wl
}

// Grown is the number of brokers for which further Workloads of a MiniCluster hold quota that it may
// use.
func Grown(mc *v1alpha2.MiniCluster, growth []*kueueapi.Workload, cluster Cluster) int {
	sum := 0
	for _, wl := range growth {
		if usable(mc, wl, cluster) {
			sum += Size(wl)
		}
	}
	return sum
}

// usable reports whether a further Workload holds quota that the MiniCluster may use: Kueue has
// admitted it, and it stays.
func usable(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload, cluster Cluster) bool {
	return isTrue(wl, kueueapi.WorkloadAdmitted) && reserved(wl) &&
		hasFinalizer(wl) && !isLeaving(wl) && sameNodes(mc, wl, cluster)
}

// isLeaving reports whether a further Workload loses its quota, or will not get any.
func isLeaving(wl *kueueapi.Workload) bool {
	return wl.DeletionTimestamp != nil || !ptr.Deref(wl.Spec.Active, true) ||
		isTrue(wl, kueueapi.WorkloadEvicted) || isTrue(wl, kueueapi.WorkloadFinished)
}

// sameNodes reports whether the flavors of a further Workload are on nodes of the first one's.
func sameNodes(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload, cluster Cluster) bool {
	if !reserved(wl) || mc.Status.Admission == nil || mc.Status.Admission.Quota == nil {
		return true
	}
	q, err := quota(wl, cluster)
	if err != nil {
		return true // what is used stays
	}
	for label, value := range q.NodeSelector {
		if mc.Status.Admission.Quota.NodeSelector[label] != value {
			return false
		}
	}
	return true
}

// NextGrowth returns the next write to a further Workload of a MiniCluster, and the Workload as it is
// to be. Ranks use the quota of the first Workload first, so that the others give theirs back before.
func NextGrowth(first *kueueapi.Workload, in Input) (Write, *kueueapi.Workload) {
	need := len(in.Ranks) - Size(first)
	if in.Keep > 0 {
		need = len(in.Ranks) - in.Keep
	}
	asks := false
	for _, leave := range []bool{false, true} {
		for _, wl := range in.Growth {
			if isLeaving(wl) != leave {
				continue
			}
			used := 0
			if hasFinalizer(wl) {
				used = min(max(need, 0), Size(wl))
				need -= used
			}
			if write, next := in.nextOf(wl, used); write != Nothing {
				return write, next
			}
			asks = asks || used == 0
		}
	}
	if in.Ask > 0 && !asks && first != nil {
		return Create, growth(first, in)
	}
	return Nothing, nil
}

// nextOf is the next write to a further Workload, of whose quota some brokers use a part.
func (in Input) nextOf(wl *kueueapi.Workload, used int) (Write, *kueueapi.Workload) {
	next := wl.DeepCopy()
	switch {
	case !hasFinalizer(wl) && wl.DeletionTimestamp == nil:
		return Delete, next
	case used == 0 && in.isUnneeded(wl) && DropFinalizer(next):
		return Patch, next
	case isLeaving(wl) || !reserved(wl):
		return Nothing, nil
	case setGrowth(next, in, used):
		return PatchStatus, next
	}
	return Nothing, nil
}

// isUnneeded reports whether a further Workload is not needed if nobody uses its quota.
func (in Input) isUnneeded(wl *kueueapi.Workload) bool {
	return in.MiniCluster.Status.Admission == nil || in.Finished != "" || isLeaving(wl) ||
		!sameNodes(in.MiniCluster, wl, in.Cluster) || !in.Now.Before(growthEnd(wl))
}

// growthEnd is when a further Workload goes that has no quota, or whose quota nobody has used. A busy Kueue takes its time.
func growthEnd(wl *kueueapi.Workload) time.Time {
	if reserved(wl) {
		return reservedAt(wl).Add(growthWait)
	}
	return wl.CreationTimestamp.Add(growthWait)
}

// setGrowth makes the status of a further Workload with quota follow its MiniCluster. The nodes are
// promised, and the MiniCluster runs without its new brokers, so nothing waits for them.
func setGrowth(wl *kueueapi.Workload, in Input, used int) bool {
	changed := answerChecks(wl, in, kueueapi.CheckStateReady, "The MiniCluster has nodes")
	if used > 0 {
		changed = set(wl, in, kueueapi.WorkloadPodsReady, metav1.ConditionTrue, kueueapi.WorkloadStarted, "The MiniCluster runs") || changed
		changed = setReclaimable(wl, map[kueueapi.PodSetReference]int32{workers: int32(used)}) || changed
	}
	return changed
}

// LookAtGrowth is when time alone may change what there is to say by further Workloads; zero if it
// never does.
func LookAtGrowth(in Input) time.Time {
	var next time.Time
	for _, wl := range in.Growth {
		if at := growthEnd(wl); in.Now.Before(at) {
			next = elastic.Earliest(next, at)
		}
	}
	return next
}

// refused reports whether a further Workload that is let go was never used.
func refused(wl *kueueapi.Workload) bool { return !isTrue(wl, kueueapi.WorkloadPodsReady) }

func hasFinalizer(wl *kueueapi.Workload) bool {
	return slices.Contains(wl.Finalizers, kueueapi.ResourceInUseFinalizerName)
}
