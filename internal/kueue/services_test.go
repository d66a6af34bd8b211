// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// withServices is a Workload of four brokers and a services pod, with quota in different flavors.
func withServices(changes ...change) *kueueapi.Workload {
	wl := workload()
	CountServices(wl, fixture.Pod("services").Obj())
	withQuota(3)(wl)
	wl.Status.Admission.PodSetAssignments = append(wl.Status.Admission.PodSetAssignments, kueueapi.PodSetAssignment{
		Name: services, Count: ptr.To(int32(1)), Flavors: map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": "spot"},
	})
	for _, change := range changes {
		change(wl)
	}
	return wl
}

// The services pod has a pod set of its own. It is no broker: it is not in their group, and the grant is
// without it.
func TestServicesAreCounted(t *testing.T) {
	wl := withServices()
	set := wl.Spec.PodSets[2]
	if len(wl.Spec.PodSets) != 3 || set.Name != services || set.Count != 1 || set.TopologyRequest != nil || len(set.Template.Spec.Containers) == 0 {
		t.Errorf("its pod set is %+v", set)
	}
	if wl.Annotations[shapeAnnotation] == workload().Annotations[shapeAnnotation] {
		t.Error("the shape is that without services")
	}
	none := workload()
	if CountServices(none, nil); len(none.Spec.PodSets) != 2 {
		t.Error("there is a pod set for no services")
	}
	assign(assignment("rack", slice([]int32{1}, "r1")), assignment("rack", slice([]int32{3}, "r1")), assignment("host", slice([]int32{1}, "h")))(wl)
	grant := Read(wl, running(4))
	if grant.Quota == nil || grant.Quota.Size != 4 || grant.Quota.NodeSelector["pool"] == "spot" || grant.Quota.Topology.Domains[0].Brokers != 4 {
		t.Errorf("the brokers have %+v", grant.Quota)
	}
	if Size(wl) != 4 {
		t.Errorf("its size is %d", Size(wl))
	}
}

func TestServicesQuota(t *testing.T) {
	cluster := Cluster{Check: cluster.Check, Flavor: func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
		if name != "spot" {
			return nil
		}
		return &kueueapi.ResourceFlavor{Spec: kueueapi.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": "spot"}}}
	}}
	missing := func(wl *kueueapi.Workload) {
		wl.Status.Admission.PodSetAssignments[2].Flavors["cpu"] = "gone"
	}
	for name, tc := range map[string]struct {
		wl   *kueueapi.Workload
		want string
	}{
		"its flavor":         {withServices(), "map[pool:spot]"},
		"its domain":         {withServices(assign(nil, nil, assignment("block,rack", slice([]int32{1}, "b1", "r-7")))), "map[block:b1 pool:spot rack:r-7]"},
		"not counted before": {workload(withQuota(3)), "map[]"},
		"no Workload":        {nil, ""},
		"no quota":           {workload(pending), ""},
		"evicted":            {withServices(condition(kueueapi.WorkloadEvicted, "Preempted", "")), ""},
		"being deleted":      {withServices(deleting), ""},
		"no such flavor":     {withServices(missing), ""},
	} {
		got := ""
		if q := ServicesQuota(tc.wl, cluster); q != nil {
			got = fmt.Sprint(q.NodeSelector)
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The quota of the services pod goes back when nothing may run on it any more.
func TestServicesGiveBack(t *testing.T) {
	needed := func(in *Input) { in.Services = true }
	alike := func(in *Input) { in.Want = withServices() }
	ended := func(in *Input) { in.Finished, in.Ranks = "Succeeded", nil }
	evicted := condition(kueueapi.WorkloadEvicted, "PodsReadyTimeout", "")
	for name, tc := range map[string]struct {
		wl   *kueueapi.Workload
		in   Input
		want string
	}{
		"it may come":        {withServices(), running(4, needed), "nothing"},
		"a broker has left":  {withServices(), running(3, needed), "reclaimable workers 1"},
		"it is the last pod": {withServices(), running(4, ended, needed), "reclaimable lead 1 workers 3"},
		"it is gone":         {withServices(), running(4, ended), "Finished True Succeeded"},
		"evicted":            {withServices(evicted), waiting(alike, needed), "nothing"},
		"evicted, and gone":  {withServices(evicted), waiting(alike), "QuotaReserved False Pending; Requeued False PodsReadyTimeout; Admitted False NoReservation; no admission"},
	} {
		write, after := Next(tc.wl, tc.in)
		if got := summary(write, tc.wl, after); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
