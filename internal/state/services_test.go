// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A services pod that waits is seen, and whether the brokers have their nodes.
func TestObserveServices(t *testing.T) {
	unschedulable := fixture.BrokerPod("lmp", 1).Pinned("b").Obj()
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	lead, follower := fixture.BrokerPod("lmp", 0).On("a").Obj(), fixture.BrokerPod("lmp", 1).On("b").Obj()
	services := fixture.ServicesPod("lmp")
	for name, tc := range map[string]struct {
		pods     []*corev1.Pod
		change   func(*View)
		gated    bool
		bound    int // brokers that kube-scheduler has done with
		occupied int
	}{
		"all have their nodes":          {[]*corev1.Pod{lead, follower, services.Obj()}, nil, true, 2, 2},
		"one is placed, and not there":  {[]*corev1.Pod{lead, fixture.BrokerPod("lmp", 1).Pinned("b").Obj(), services.Obj()}, nil, true, 1, 2},
		"one waits to be placed":        {[]*corev1.Pod{lead, fixture.BrokerPod("lmp", 1).Obj(), services.Obj()}, nil, true, 1, 1},
		"one is missing":                {[]*corev1.Pod{lead, services.Obj()}, nil, true, 1, 1},
		"one cannot be there":           {[]*corev1.Pod{lead, unschedulable, services.Obj()}, nil, true, 2, 2},
		"it runs, and one is made anew": {[]*corev1.Pod{lead, fixture.BrokerPod("lmp", 1).Obj(), services.Obj()}, func(v *View) { v.MiniCluster.Status.StartTime = ptr.To(metav1.NewTime(fixture.Noon)) }, true, 1, 1},
		"it is made for a trial":        {[]*corev1.Pod{services.Obj()}, func(v *View) { v.MiniCluster.Status.Admission = nil }, false, 0, 0},
		"it has ended":                  {[]*corev1.Pod{lead, follower, services.Obj()}, func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetCompleted).Obj() }, false, 2, 2},
		"it runs already":               {[]*corev1.Pod{lead, follower, fixture.ServicesPod("lmp").On("c").Obj()}, nil, false, 2, 3},
		"it leaves":                     {[]*corev1.Pod{lead, follower, fixture.ServicesPod("lmp").Leaving().Obj()}, nil, false, 2, 2},
		"it is of a JobSet before":      {[]*corev1.Pod{lead, follower, fixture.ServicesPod("lmp").Label(jobsetapi.JobSetUIDKey, "before").Obj()}, nil, false, 2, 2},
		"there are none":                {[]*corev1.Pod{lead, follower}, nil, false, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			v := view(tc.change)
			v.Pods = read(tc.pods...)
			o, err := Observe(v)
			if err != nil {
				t.Fatal(err)
			}
			bound := 0
			for _, b := range o.Brokers {
				if b.Bound || b.Unbindable {
					bound++
				}
			}
			if o.ServicesGated != tc.gated || bound != tc.bound {
				t.Errorf("the services wait: %t, and %d brokers have nodes; want %t, %d", o.ServicesGated, bound, tc.gated, tc.bound)
			}
			if o.Occupied != tc.occupied || o.Done != 0 || len(v.Brokers()) > 2 {
				t.Errorf("%d pods hold nodes, %d are done, %d are brokers'", o.Occupied, o.Done, len(v.Brokers()))
			}
		})
	}
}

// The services pod needs quota while it may come, and then as long as it is there behind no gate.
func TestServicesNeedQuota(t *testing.T) {
	gated, free := fixture.ServicesPod("lmp").Obj(), fixture.ServicesPod("lmp").Spec(func(s *corev1.PodSpec) { s.SchedulingGates = nil }).Obj()
	other := free.DeepCopy()
	other.Labels[v1alpha2.UIDLabel] = "another"
	ended := free.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	holds := &life.Admission{Nodes: []string{"a", "b"}}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		record life.Record
		want   bool
	}{
		"its MiniCluster waits":   {gated, life.Record{}, false},
		"it may come":             {gated, life.Record{Admission: holds}, true},
		"it does not wait":        {free, life.Record{}, true},
		"its MiniCluster is done": {free, life.Record{Admission: holds, Outcome: life.OutcomeSucceeded}, true},
		"it will not come":        {gated, life.Record{Admission: holds, Outcome: life.OutcomeSucceeded}, false},
		"it has ended":            {ended, life.Record{}, false},
		"of another MiniCluster":  {other, life.Record{}, false},
	} {
		mc := fixture.MiniCluster("lmp").Obj()
		mc.UID = types.UID(gated.Labels[v1alpha2.UIDLabel])
		v := View{MiniCluster: mc, Pods: []protocol.Pod{protocol.Read(tc.pod)}}
		if ranks, services := v.NeedsQuota(&life.Observation{Record: tc.record}); services != tc.want || (tc.record.Outcome != "" && len(ranks) > 0) {
			t.Errorf("%s: ranks %v and services %v", name, ranks, services)
		}
	}
}
