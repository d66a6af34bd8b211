// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// change changes a Workload.
type change func(*kueueapi.Workload)

// workload is that of a MiniCluster of four brokers, of which two are enough.
func workload(changes ...change) *kueueapi.Workload {
	wl := made(queued("a").Size(4).MinSize(2))
	wl.UID = "wl"
	for _, change := range changes {
		change(wl)
	}
	return wl
}

// condition sets a condition ten seconds after noon.
func condition(kind, reason, message string) change {
	return func(wl *kueueapi.Workload) {
		set(wl, Input{Now: fixture.Noon.Add(10 * time.Second)}, kind, metav1.ConditionTrue, reason, message)
	}
}

// withQuota reserves quota for so many workers at noon.
func withQuota(count int32) change {
	return func(wl *kueueapi.Workload) {
		flavors := map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": "flavor"}
		wl.Status.Admission = &kueueapi.Admission{ClusterQueue: "cq", PodSetAssignments: []kueueapi.PodSetAssignment{
			{Name: lead, Count: ptr.To(int32(1)), Flavors: flavors}, {Name: workers, Count: &count, Flavors: flavors},
		}}
		set(wl, Input{Now: fixture.Noon}, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "")
	}
}

var (
	admitted = condition(kueueapi.WorkloadAdmitted, "Admitted", "")
	inactive = func(wl *kueueapi.Workload) { wl.Spec.Active = ptr.To(false) }
	rests    = func(wl *kueueapi.Workload) { wl.Annotations[neverFitsAnnotation] = "needs more" }
	deleting = func(wl *kueueapi.Workload) { wl.DeletionTimestamp = &metav1.Time{Time: fixture.Noon} }
)

// pending is a Workload without quota, with Kueue's reason.
func pending(wl *kueueapi.Workload) {
	set(wl, Input{Now: fixture.Noon}, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "couldn't assign flavors to pod set workers")
}

// check adds an admission check: placement is this project's.
func check(name kueueapi.AdmissionCheckReference, state kueueapi.CheckState) change {
	return func(wl *kueueapi.Workload) {
		wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, kueueapi.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(fixture.Noon)})
	}
}

// reclaimable gives back the quota of so many workers.
func reclaimable(n int32) change {
	return func(wl *kueueapi.Workload) {
		wl.Status.ReclaimablePods = []kueueapi.ReclaimablePod{{Name: workers, Count: n}}
	}
}

// requeue is a Workload that was queued again.
func requeue(wl *kueueapi.Workload) {
	wl.Status.RequeueState = &kueueapi.RequeueState{Count: ptr.To(int32(2)), RequeueAt: ptr.To(metav1.NewTime(fixture.Noon.Add(time.Minute)))}
}

// waiting is the input of the MiniCluster that waits, at noon.
func waiting(changes ...func(*Input)) Input {
	mc := queued("a").Size(4).MinSize(2).Defaulted()
	mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
	in := Input{MiniCluster: mc, Uses: true, Want: workload(), Cluster: cluster, Now: fixture.Noon}
	in.Want.UID = ""
	for _, change := range changes {
		change(&in)
	}
	return in
}

// running is the input of the MiniCluster with so many nodes.
func running(size int, changes ...func(*Input)) Input {
	in := waiting()
	in.Want = nil
	in.MiniCluster.Status.Admission = &v1alpha2.Admission{
		Size: int32(size), Quota: &v1alpha2.Quota{ClusterQueue: "cq", Workload: "wl", Time: metav1.NewTime(fixture.Noon), Size: 4},
	}
	for rank := range size {
		in.Ranks = append(in.Ranks, rank)
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func TestRead(t *testing.T) {
	const placement, provisioning = "placement", "provisioning"
	evicted := func(reason, message string) change { return condition(kueueapi.WorkloadEvicted, reason, message) }
	later := running(4)
	later.MiniCluster.Status.Admission.Quota.Time = metav1.NewTime(fixture.Noon.Add(-time.Hour))
	other := running(4)
	other.MiniCluster.Status.Admission.Quota.Workload = "before"
	elsewhere := running(4)
	elsewhere.MiniCluster.Status.Admission.Quota.ClusterQueue = "another"
	edited := waiting(func(in *Input) { in.Want = made(queued("a").Size(5)) })
	moved := waiting(func(in *Input) { in.Want.Spec.QueueName = "other" })
	for name, tc := range map[string]struct {
		wl        *kueueapi.Workload
		in        Input
		state     life.QuotaState
		placeable bool
		size      int32 // of the quota; 0 for none
		message   string
	}{
		"no Workload":           {nil, waiting(), life.QuotaMissing, false, 0, "asks Kueue for quota"},
		"the Workload has gone": {nil, running(4), life.QuotaMissing, false, 0, "its Workload was deleted"},
		"new":                   {workload(), waiting(), life.QuotaMissing, false, 0, `waits for quota in Kueue's queue "team": Kueue has not decided yet`},
		"pending":               {workload(pending), waiting(), life.QuotaMissing, false, 0, "queue \"team\": couldn't assign flavors to pod set workers"},
		"with a position":       {workload(pending), waiting(func(in *Input) { in.Position = Position{3, 12} }), life.QuotaMissing, false, 0, `queue "team" (position 3; in its ClusterQueue among the first 12): couldn't assign`},
		"pending, without a check": {
			workload(pending, requeue, func(wl *kueueapi.Workload) { wl.Status.RequeueState.Count = nil }), waiting(), life.QuotaMissing, false, 0, "workers; queued again at 2026-11-21T12:01:00Z",
		},
		"pending again":           {workload(pending, requeue), waiting(), life.QuotaMissing, false, 0, "workers; queued again 2 times, next at 2026-11-21T12:01:00Z"},
		"being deleted":           {workload(withQuota(3), admitted, deleting), running(4), life.QuotaMissing, false, 0, "was deleted"},
		"finished by another":     {workload(withQuota(3), admitted, condition(kueueapi.WorkloadFinished, "OwnerNotFound", "no owner")), running(4), life.QuotaMissing, false, 0, "for finished: no owner"},
		"preempted":               {workload(withQuota(3), admitted, evicted("Preempted", "by default/b")), running(4), life.QuotaMissing, false, 0, "Kueue took the quota back: by default/b"},
		"evicted, to come back":   {workload(withQuota(3), evicted("AdmissionCheck", "no room"), requeue), waiting(), life.QuotaMissing, false, 0, "no room; queued again 2 times"},
		"deactivated":             {workload(withQuota(3), inactive, evicted("Deactivated", "The workload is deactivated")), running(4), life.QuotaMissing, false, 0, "The workload is deactivated"},
		"never fits":              {workload(inactive, rests, evicted("Deactivated", "")), waiting(), life.QuotaMissing, false, 0, "needs more; asks Kueue again at 2026-11-21T13:00:10Z"},
		"inactive":                {workload(withQuota(3), admitted, inactive), running(4), life.QuotaMissing, false, 0, "is not active"},
		"our check":               {workload(withQuota(3), check(placement, kueueapi.CheckStatePending)), waiting(), life.QuotaReserved, true, 4, ""},
		"our check found no room": {workload(withQuota(3), check(placement, kueueapi.CheckStateRetry)), waiting(), life.QuotaReserved, false, 4, "gives its quota back"},
		"no check":                {workload(withQuota(3)), waiting(), life.QuotaReserved, false, 4, "has quota, and waits until Kueue admits it"},
		"a check of others":       {workload(withQuota(3), check(provisioning, kueueapi.CheckStatePending)), waiting(), life.QuotaReserved, false, 4, "admission checks of Kueue: provisioning"},
		"and ours":                {workload(withQuota(3), check(placement, kueueapi.CheckStateReady), check(provisioning, kueueapi.CheckStateRetry)), waiting(), life.QuotaReserved, false, 4, "checks of Kueue: provisioning"},
		"theirs is ready":         {workload(withQuota(3), check(placement, kueueapi.CheckStatePending), check(provisioning, kueueapi.CheckStateReady)), waiting(), life.QuotaReserved, true, 4, ""},
		"theirs is, without ours": {workload(withQuota(3), check(provisioning, kueueapi.CheckStateReady)), waiting(), life.QuotaReserved, false, 4, "until Kueue admits it"},
		"admitted":                {workload(withQuota(3), admitted), waiting(), life.QuotaAdmitted, true, 4, ""},
		"admitted in part":        {workload(withQuota(2), admitted), waiting(), life.QuotaAdmitted, true, 3, ""},
		"running":                 {workload(withQuota(3), admitted, reclaimable(2)), running(2), life.QuotaAdmitted, true, 4, ""},
		"used before":             {workload(withQuota(3), admitted, reclaimable(2)), waiting(), life.QuotaAdmitted, false, 4, "gives back the quota of its last attempt"},
		"reserved anew":           {workload(withQuota(3), admitted), later, life.QuotaMissing, false, 0, "granted other quota"},
		"at once, for fewer":      {workload(withQuota(2)), running(4), life.QuotaMissing, false, 0, "granted other quota"},
		"at once, of another":     {workload(withQuota(3)), elsewhere, life.QuotaMissing, false, 0, "granted other quota"},
		"replaced":                {workload(withQuota(3), admitted), other, life.QuotaMissing, false, 0, "granted other quota"},
		"edited":                  {workload(withQuota(3), admitted), edited, life.QuotaMissing, false, 0, "for its new spec"},
		"edited after it started": {workload(withQuota(3), admitted), running(4), life.QuotaAdmitted, true, 4, ""},
		"in another queue":        {workload(withQuota(3), admitted), moved, life.QuotaMissing, false, 0, "for its new spec"},
		"to be in another queue":  {workload(pending), moved, life.QuotaMissing, false, 0, "couldn't assign"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Read(tc.wl, tc.in)
			if got.State != tc.state || got.Placeable != tc.placeable || !strings.Contains(got.Message, tc.message) || (tc.message == "") != (got.Message == "") {
				t.Errorf("got %+v", got)
			}
			if size := ptr.Deref(got.Quota, v1alpha2.Quota{}).Size; size != tc.size {
				t.Errorf("quota for %d", size)
			}
		})
	}
}

// flavors are a cluster with some flavors, by their node labels ("a=b", or "") and with a toleration
// of a taint with their name.
func flavors(labels map[string]string) Cluster {
	c := cluster
	c.Flavor = func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
		label, there := labels[string(name)]
		if !there {
			return nil
		}
		flavor := &kueueapi.ResourceFlavor{}
		if key, value, found := strings.Cut(label, "="); found {
			flavor.Spec.NodeLabels = map[string]string{key: value}
		}
		flavor.Spec.Tolerations = []corev1.Toleration{{Key: string(name), Operator: corev1.TolerationOpExists}}
		return flavor
	}
	return c
}

func TestQuotaOfFlavors(t *testing.T) {
	of := func(leads, others string) *kueueapi.Workload {
		wl := workload(withQuota(2), admitted)
		sets := wl.Status.Admission.PodSetAssignments
		sets[0].Flavors = map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": kueueapi.ResourceFlavorReference(leads)}
		sets[1].Flavors = map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": kueueapi.ResourceFlavorReference(leads), "gpu": kueueapi.ResourceFlavorReference(others)}
		return wl
	}
	updated := func(selector map[string]string) *kueueapi.Workload {
		wl := of("spot", "spot")
		update := kueueapi.PodSetUpdate{Name: workers, NodeSelector: selector, Tolerations: []corev1.Toleration{{Key: "new"}}}
		wl.Status.AdmissionChecks = []kueueapi.AdmissionCheckState{{Name: "provisioning", State: kueueapi.CheckStateReady, PodSetUpdates: []kueueapi.PodSetUpdate{update, update}}}
		return wl
	}
	tolerates := func(names ...string) (out []corev1.Toleration) {
		for _, name := range names {
			out = append(out, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		}
		return out
	}
	in := waiting(func(in *Input) {
		in.Cluster = flavors(map[string]string{"any": "", "spot": "pool=spot", "lasting": "pool=lasting", "gpu": "gpu=h100"})
	})
	for name, tc := range map[string]struct {
		wl          *kueueapi.Workload
		selector    map[string]string
		tolerations []corev1.Toleration
		refused     string
	}{
		"one":                   {of("spot", "spot"), map[string]string{"pool": "spot"}, tolerates("spot"), ""},
		"without labels":        {of("any", "any"), nil, tolerates("any"), ""},
		"of two resources":      {of("spot", "gpu"), map[string]string{"pool": "spot", "gpu": "h100"}, tolerates("gpu", "spot"), ""},
		"that share no node":    {of("spot", "lasting"), nil, nil, "has quota of flavors that share no node: one has pool=lasting, another pool=spot"},
		"that are not there":    {of("spot", "none"), nil, nil, `has quota of the flavor "none", which does not exist`},
		"with those of a check": {updated(map[string]string{"made": "now"}), map[string]string{"pool": "spot", "made": "now"}, append(tolerates("spot"), corev1.Toleration{Key: "new"}), ""},
		"against a check":       {updated(map[string]string{"pool": "new"}), nil, nil, "has quota of flavors that share no node: one has pool=spot, another pool=new"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Read(tc.wl, in)
			if tc.refused != "" {
				if got.Quota != nil || got.Placeable || got.Message != tc.refused || got.State != life.QuotaAdmitted {
					t.Errorf("got %+v", got)
				}
				return
			}
			want := &v1alpha2.Quota{
				ClusterQueue: "cq", Workload: "wl", Size: 3, Time: metav1.NewTime(fixture.Noon), NodeSelector: tc.selector, Tolerations: tc.tolerations,
			}
			if diff := cmp.Diff(want, got.Quota); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfine(t *testing.T) {
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{"disk": "ssd"}
		s.Tolerations = append(make([]corev1.Toleration, 0, 4), corev1.Toleration{Key: "own"})
	}).Obj()
	before := pod.DeepCopy()
	quota := &v1alpha2.Quota{NodeSelector: map[string]string{"pool": "a"}, Tolerations: []corev1.Toleration{{Key: "pool"}}}
	got := Confine(pod, quota)
	if diff := cmp.Diff(map[string]string{"disk": "ssd", "pool": "a"}, got.Spec.NodeSelector); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Key: "own"}, {Key: "pool"}}, got.Spec.Tolerations); diff != "" {
		t.Error(diff)
	}
	Confine(pod, &v1alpha2.Quota{Tolerations: []corev1.Toleration{{Key: "another"}}})
	if diff := cmp.Diff(before, pod); diff != "" || got.Spec.Tolerations[1].Key != "pool" {
		t.Errorf("a shared object was changed:\n%s", diff)
	}
	if Confine(pod, nil) != pod || Confine(pod, &v1alpha2.Quota{}) != pod || Confine(nil, quota) != nil {
		t.Error("a quota without nodes confines")
	}
}
