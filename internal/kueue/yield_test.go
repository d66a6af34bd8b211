// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const preemptedFor = "Preempted to accommodate a workload (UID: 7c2f-1, JobUID: UNKNOWN) due to prioritization in the ClusterQueue; " +
	"preemptor path: /team; preemptee path: /team"

// preempted is a Workload of 8 brokers of 7 CPUs and 1 GiB that was preempted at noon.
func preempted() *kueueapi.Workload {
	wl := &kueueapi.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	usage := func(count int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(7*count, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(count<<30, resource.BinarySI),
		}
	}
	wl.Spec.PodSets = []kueueapi.PodSet{{Name: lead, Count: 1}, {Name: workers, Count: 9}}
	wl.Status.Admission = &kueueapi.Admission{PodSetAssignments: []kueueapi.PodSetAssignment{
		{Name: lead, Count: ptr.To[int32](1), ResourceUsage: usage(1)}, {Name: workers, Count: ptr.To[int32](7), ResourceUsage: usage(7)},
	}}
	wl.Status.AdmissionChecks = []kueueapi.AdmissionCheckState{{Name: "placement", State: kueueapi.CheckStatePending}}
	is(wl, kueueapi.WorkloadQuotaReserved, "QuotaReserved", "")
	is(wl, kueueapi.WorkloadEvicted, kueueapi.WorkloadEvictedByPreemption, preemptedFor)
	return wl
}

func is(wl *kueueapi.Workload, kind, reason, message string) {
	meta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon),
	})
}

func TestPreemptor(t *testing.T) {
	cases := map[string]struct {
		change func(*kueueapi.Workload)
		want   types.UID
	}{
		"preempted":                      {func(*kueueapi.Workload) {}, "7c2f-1"},
		"for one that Kueue cannot name": {func(wl *kueueapi.Workload) { is(wl, kueueapi.WorkloadEvicted, "Preempted", "Preempted to make room") }, ""},
		"evicted for another reason": {func(wl *kueueapi.Workload) {
			is(wl, kueueapi.WorkloadEvicted, kueueapi.WorkloadEvictedByPodsReadyTimeout, preemptedFor)
		}, ""},
		"it goes on": {func(wl *kueueapi.Workload) { goOn(wl, Input{Keep: 1, Cluster: placementCluster}) }, ""},
		"it has no quota any more": {func(wl *kueueapi.Workload) {
			meta.RemoveStatusCondition(&wl.Status.Conditions, kueueapi.WorkloadQuotaReserved)
		}, ""},
		"deleted": {func(wl *kueueapi.Workload) { wl.DeletionTimestamp = &metav1.Time{Time: noon} }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wl := preempted()
			c.change(wl)
			if got := Preemptor(wl); got != c.want {
				t.Errorf("Preemptor = %q, want %q", got, c.want)
			}
		})
	}
	if got := Preemptor(nil); got != "" {
		t.Errorf("without a Workload: %q", got)
	}
}

func TestKeep(t *testing.T) {
	requesting := func(sets ...corev1.ResourceList) *kueueapi.Workload {
		wl := &kueueapi.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "urgent"}}
		for _, amounts := range sets {
			wl.Status.ResourceRequests = append(wl.Status.ResourceRequests, kueueapi.PodSetRequest{Resources: amounts})
		}
		return wl
	}
	list := func(name corev1.ResourceName, text string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(text)}
	}
	urgent := func(change func(*kueueapi.Workload)) *kueueapi.Workload {
		wl := requesting(list("cpu", "8"))
		change(wl)
		return wl
	}
	reclaimed := func(wl *kueueapi.Workload) {
		wl.Status.ReclaimablePods = []kueueapi.ReclaimablePod{{Name: workers, Count: 4}} // 5 of 9 are left
	}
	inDomains := func(wl *kueueapi.Workload) {
		wl.Status.Admission.PodSetAssignments[1].TopologyAssignment = &kueueapi.TopologyAssignment{}
	}
	cases := map[string]struct {
		change    func(*kueueapi.Workload)
		preemptor *kueueapi.Workload
		after     time.Duration
		want      Yield
	}{
		"one broker is enough":                  {nil, requesting(list("cpu", "7")), 0, Yield{Size: 7}},
		"two are":                               {nil, requesting(list("cpu", "7100m")), 0, Yield{Size: 6}},
		"the sum counts":                        {nil, requesting(list("cpu", "7"), list("cpu", "7"), list("cpu", "1")), 0, Yield{Size: 5}},
		"each resource counts":                  {nil, requesting(list("cpu", "7"), list("memory", "2049Mi")), 0, Yield{Size: 5}},
		"all workers":                           {nil, requesting(list("cpu", "49")), 0, Yield{Size: 1}},
		"more than there is":                    {nil, requesting(list("cpu", "57")), 0, Yield{}},
		"a resource that is not there":          {nil, requesting(list("nvidia.com/gpu", "1")), 0, Yield{}},
		"what is left counts":                   {reclaimed, requesting(list("cpu", "14")), 0, Yield{Size: 4}},
		"the other is gone":                     {nil, nil, 0, Yield{Size: 8}},
		"or being deleted":                      {nil, urgent(func(wl *kueueapi.Workload) { wl.DeletionTimestamp = &metav1.Time{Time: noon} }), 0, Yield{Size: 8}},
		"or has quota":                          {nil, urgent(func(wl *kueueapi.Workload) { is(wl, kueueapi.WorkloadQuotaReserved, "x", "") }), 0, Yield{Size: 8}},
		"or has finished":                       {nil, urgent(func(wl *kueueapi.Workload) { is(wl, kueueapi.WorkloadFinished, "x", "") }), 0, Yield{Size: 8}},
		"or is not active":                      {nil, urgent(func(wl *kueueapi.Workload) { wl.Spec.Active = ptr.To(false) }), 0, Yield{Size: 8}},
		"its requests come soon":                {nil, requesting(), requestsGrace - time.Second, Yield{Undecided: true}},
		"but not for ever":                      {nil, requesting(), requestsGrace, Yield{}},
		"domains are not given back one by one": {inDomains, requesting(list("cpu", "7")), 0, Yield{}},
		"domains for another that is gone":      {inDomains, nil, 0, Yield{Size: 8}},
		"checks of others": {func(wl *kueueapi.Workload) {
			wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, kueueapi.AdmissionCheckState{Name: "budget", State: kueueapi.CheckStatePending})
		}, requesting(list("cpu", "7")), 0, Yield{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wl := preempted()
			if c.change != nil {
				c.change(wl)
			}
			if c.preemptor != nil && name != "checks of others" {
				c.want.For = "ns/urgent"
			}
			if got := Keep(wl, c.preemptor, placementCluster, noon.Add(c.after)); got != c.want {
				t.Errorf("Keep = %+v, want %+v", got, c.want)
			}
			if wl.Namespace = "other"; c.want.For != "" {
				c.want.For = "a Workload of another namespace"
			}
			if got := Keep(wl, c.preemptor, placementCluster, noon.Add(c.after)); got != c.want {
				t.Errorf("in another namespace Keep = %+v, want %+v", got, c.want)
			}
		})
	}
}

// placementCluster has our admission check, with the name placement, and one of others.
var placementCluster = Cluster{Check: func(name kueueapi.AdmissionCheckReference) *kueueapi.AdmissionCheck {
	check := &kueueapi.AdmissionCheck{}
	if name == "placement" {
		check.Spec.ControllerName = v1alpha2.PlacementCheck
	}
	return check
}}

// A preempted Workload keeps its quota until the surplus is gone, and then goes on with the rest.
func TestGoOn(t *testing.T) {
	in := Input{MiniCluster: &v1alpha2.MiniCluster{}, Keep: 3, Ranks: []int{0, 1, 2, 5}, Cluster: placementCluster, Now: noon.Add(time.Minute)}
	in.MiniCluster.Status.Admission = &v1alpha2.Admission{Quota: &v1alpha2.Quota{Time: metav1.NewTime(noon), Size: 8}}
	wl := preempted()
	if write, _ := Next(wl, in); write != Nothing {
		t.Errorf("with a broker too many: write %d", write)
	}
	in.Ranks = []int{0, 1, 2}
	write, next := Next(wl, in)
	if write != PatchStatus || isTrue(next, kueueapi.WorkloadEvicted) || !isTrue(next, kueueapi.WorkloadQuotaReserved) {
		t.Fatalf("write %d, conditions %v", write, next.Status.Conditions)
	}
	if size, check := Size(next), next.Status.AdmissionChecks[0].State; size != 3 || check != kueueapi.CheckStateReady {
		t.Errorf("it keeps the quota of %d brokers, and its check is %s", size, check)
	}
	in.Keep = 0
	if write, _ := Next(wl, in); write != Nothing {
		t.Errorf("it ends, with write %d", write)
	}
}
