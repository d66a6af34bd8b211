// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// growing is a MiniCluster with nodes, and the first Workload, which holds quota for three brokers.
func growing() (*v1alpha2.MiniCluster, *kueueapi.Workload) {
	mc := fixture.MiniCluster("grows").Size(3).MaxSize(8).Defaulted()
	mc.UID = "uid"
	mc.Status.Admission = &v1alpha2.Admission{Quota: &v1alpha2.Quota{NodeSelector: map[string]string{"pool": "a"}}}
	first := newWorkload(mc, Name(mc))
	first.Spec.PodSets = []kueueapi.PodSet{{Name: lead, Count: 1}, {Name: workers, Count: 2}}
	first.Status.Admission = &kueueapi.Admission{PodSetAssignments: []kueueapi.PodSetAssignment{{Name: lead}, {Name: workers}}}
	is(first, kueueapi.WorkloadQuotaReserved, "x", "")
	return mc, first
}

// further is a further Workload for some brokers. Its conditions are true, and it was made at noon.
func further(mc *v1alpha2.MiniCluster, number, count int, conditions ...string) *kueueapi.Workload {
	wl := newWorkload(mc, fmt.Sprintf("%s-grow-%d", Name(mc), number))
	wl.CreationTimestamp = metav1.NewTime(noon)
	wl.Spec.PodSets = []kueueapi.PodSet{{Name: workers, Count: int32(count)}}
	for _, kind := range conditions {
		is(wl, kind, "x", "")
		if kind == kueueapi.WorkloadQuotaReserved {
			wl.Status.Admission = &kueueapi.Admission{PodSetAssignments: []kueueapi.PodSetAssignment{{Name: workers, Count: ptr.To(int32(count))}}}
			wl.Status.AdmissionChecks = []kueueapi.AdmissionCheckState{{Name: "placement", State: kueueapi.CheckStatePending}}
		}
	}
	return wl
}

const (
	quotaReserved = kueueapi.WorkloadQuotaReserved
	accepted      = kueueapi.WorkloadAdmitted
)

func TestNextGrowth(t *testing.T) {
	// used has nothing more to say with its brokers.
	used := func(wl *kueueapi.Workload) {
		wl.Status.AdmissionChecks[0].State = kueueapi.CheckStateReady
		is(wl, kueueapi.WorkloadPodsReady, kueueapi.WorkloadStarted, "The MiniCluster runs")
	}
	type state struct {
		number, count int
		conditions    []string
		change        func(*kueueapi.Workload)
	}
	in := func(conditions ...string) []string { return conditions }
	cases := map[string]struct {
		states []state
		ranks  int
		ask    int
		after  time.Duration
		change func(*Input)
		want   string
	}{
		"nothing to do":              {nil, 3, 0, 0, nil, "nothing"},
		"it asks":                    {nil, 3, 2, 0, nil, "create 1 of 2"},
		"once":                       {[]state{{1, 2, nil, nil}}, 3, 2, 0, nil, "nothing"},
		"for the rest":               {[]state{{1, 2, in(quotaReserved, accepted), used}}, 5, 1, 0, nil, "create 2 of 1"},
		"the check is ready at once": {[]state{{1, 2, in(quotaReserved), nil}}, 3, 2, 0, nil, "status 1 Ready"},
		"a refusal":                  {[]state{{1, 2, nil, nil}}, 3, 2, growthWait, nil, "release 1"},
		"quota that nobody uses":     {[]state{{1, 2, in(quotaReserved, accepted), nil}}, 3, 0, growthWait, nil, "release 1"},
		"quota that a busy Kueue gave late": {[]state{{1, 2, in(quotaReserved, accepted), func(wl *kueueapi.Workload) {
			wl.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
		}}}, 3, 0, growthWait - time.Second, nil, "status 1 Ready"},
		"quota that is used":              {[]state{{1, 2, in(quotaReserved, accepted), used}}, 5, 0, time.Hour, nil, "nothing"},
		"what is not used goes back":      {[]state{{1, 2, in(quotaReserved, accepted), used}}, 4, 0, 0, nil, "status 1 Ready -1"},
		"the last goes first":             {[]state{{1, 2, in(quotaReserved, accepted), used}, {2, 1, in(quotaReserved, accepted), used}}, 5, 0, time.Hour, nil, "release 2"},
		"then the one before":             {[]state{{1, 2, in(quotaReserved, accepted), used}}, 3, 0, time.Hour, nil, "release 1"},
		"an eviction waits for its ranks": {[]state{{1, 2, in(quotaReserved, accepted, kueueapi.WorkloadEvicted), used}}, 4, 0, time.Hour, nil, "nothing"},
		"which others may do without":     {[]state{{1, 2, in(quotaReserved, accepted, kueueapi.WorkloadEvicted), used}, {2, 1, in(quotaReserved, accepted), used}}, 4, 0, time.Hour, nil, "release 1"},
		"without ranks it is released":    {[]state{{1, 2, in(quotaReserved, accepted, kueueapi.WorkloadEvicted), used}}, 3, 0, 0, nil, "release 1"},
		"a deletion waits as well": {[]state{{1, 2, in(quotaReserved, accepted), func(wl *kueueapi.Workload) {
			wl.DeletionTimestamp = &metav1.Time{Time: noon}
		}}}, 4, 0, time.Hour, nil, "nothing"},
		"what is released is deleted": {[]state{{1, 2, in(quotaReserved, accepted), func(wl *kueueapi.Workload) { wl.Finalizers = nil }}}, 3, 0, 0, nil, "delete 1"},
		"at the end":                  {[]state{{1, 2, in(quotaReserved, accepted), used}}, 3, 0, 0, func(in *Input) { in.Finished = "Succeeded" }, "release 1"},
		"or in the queue": {[]state{{1, 2, in(quotaReserved, accepted), used}}, 0, 0, 0, func(in *Input) {
			in.MiniCluster.Status.Admission = nil
		}, "release 1"},
		"not while pods are there": {[]state{{1, 2, in(quotaReserved, accepted), used}}, 5, 0, 0, func(in *Input) {
			in.MiniCluster.Status.Admission = nil
		}, "nothing"},
		"the first one gives back, not this": {[]state{{1, 2, in(quotaReserved, accepted), used}}, 4, 0, 0, func(in *Input) { in.Keep = 2 }, "nothing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mc, first := growing()
			in := Input{MiniCluster: mc, Ask: c.ask, Pod: fixture.BrokerPod("grows", 0).Obj(), Cluster: placementCluster, Now: noon.Add(c.after)}
			for rank := range c.ranks {
				in.Ranks = append(in.Ranks, rank)
			}
			for _, s := range c.states {
				wl := further(mc, s.number, s.count, s.conditions...)
				if s.change != nil {
					s.change(wl)
				}
				in.Growth = append(in.Growth, wl)
			}
			if c.change != nil {
				c.change(&in)
			}
			write, next := NextGrowth(first, in)
			if got := written(mc, write, next); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// written describes a write to a further Workload.
func written(mc *v1alpha2.MiniCluster, write Write, wl *kueueapi.Workload) string {
	if write == Nothing {
		return "nothing"
	}
	number := growthNumber(mc, wl)
	switch write {
	case Create:
		return fmt.Sprintf("create %d of %d", number, wl.Spec.PodSets[0].Count)
	case Delete:
		return fmt.Sprintf("delete %d", number)
	case Patch:
		if hasFinalizer(wl) {
			return fmt.Sprintf("patch %d", number)
		}
		return fmt.Sprintf("release %d", number)
	}
	text := fmt.Sprintf("status %d %s", number, wl.Status.AdmissionChecks[0].State)
	for _, r := range wl.Status.ReclaimablePods {
		text += fmt.Sprintf(" -%d", r.Count)
	}
	return text
}

// Quota counts that Kueue has admitted, that stays, and that is on nodes of the first Workload's.
func TestGrown(t *testing.T) {
	mc, _ := growing()
	cluster := placementCluster
	cluster.Flavor = func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
		return &kueueapi.ResourceFlavor{Spec: kueueapi.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": string(name)}}}
	}
	of := func(flavor kueueapi.ResourceFlavorReference, conditions ...string) *kueueapi.Workload {
		wl := further(mc, 1, 2, append(conditions, quotaReserved)...)
		wl.Status.Admission.PodSetAssignments[0].Flavors = map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": flavor}
		return wl
	}
	released := of("a", accepted)
	released.Finalizers = nil
	cases := map[string]struct {
		wl   *kueueapi.Workload
		want int
	}{
		"admitted":       {of("a", accepted), 2},
		"only reserved":  {of("a"), 0},
		"evicted":        {of("a", accepted, kueueapi.WorkloadEvicted), 0},
		"finished":       {of("a", accepted, kueueapi.WorkloadFinished), 0},
		"released":       {released, 0},
		"on other nodes": {of("b", accepted), 0},
		"pending":        {further(mc, 1, 2), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Grown(mc, []*kueueapi.Workload{c.wl}, cluster); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestGrowthOf(t *testing.T) {
	mc, first := growing()
	other := further(mc, 3, 1)
	other.OwnerReferences = nil
	list := []kueueapi.Workload{*further(mc, 10, 1), *first, *other, *further(mc, 2, 1)}
	var got []string
	for _, wl := range GrowthOf(mc, list) {
		got = append(got, strings.TrimPrefix(wl.Name, first.Name))
	}
	if want := "[-grow-2 -grow-10]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestPauseAfter(t *testing.T) {
	for refusals, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 5: 8 * time.Minute, 6: 10 * time.Minute, 1000: 10 * time.Minute} {
		if got := pauseAfter(refusals); got != want {
			t.Errorf("after %d: %s, want %s", refusals, got, want)
		}
	}
}

// A preempted MiniCluster that has grown goes on once the first Workload's surplus is gone.
func TestGoOnGrown(t *testing.T) {
	mc, _ := growing()
	wl := preempted()
	mc.Status.Admission.Quota.Time, mc.Status.Admission.Quota.Size = reservedAt(wl), 8
	in := Input{MiniCluster: mc, Keep: 3, Ranks: []int{0, 1, 2, 3, 4, 5}, Cluster: placementCluster, Now: noon.Add(time.Minute)}
	in.Growth = []*kueueapi.Workload{further(mc, 1, 2, quotaReserved, accepted)}
	if write, _ := Next(wl, in); write != Nothing {
		t.Errorf("with a broker too many: write %d", write)
	}
	in.Ranks = in.Ranks[:5]
	write, next := Next(wl, in)
	if write != PatchStatus || meta.IsStatusConditionTrue(next.Status.Conditions, kueueapi.WorkloadEvicted) || Size(next) != 3 {
		t.Errorf("write %d, and it keeps quota for %d", write, Size(next))
	}
}
