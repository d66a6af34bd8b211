// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// Pods that do not get the node that they should have, and ranks that leave.
func TestObserveOrders(t *testing.T) {
	unschedulable := fixture.BrokerPod("lmp", 0).Pinned("a").Annotation(v1alpha2.DrainAnnotation, "1").Obj()
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."}}
	refused := fixture.BrokerPod("lmp", 1).On("x").Obj()
	refused.Status.Phase, refused.Status.Reason = corev1.PodFailed, "OutOfcpu"
	v := view(func(v *View) {
		v.Pods = read(unschedulable, refused)
		v.MiniCluster.Spec.MaxSize = 2
		v.MiniCluster.Status.Admission.Vacated = "1"
		v.MiniCluster.Status.Admission.Drain = &v1alpha2.Drain{Ranks: "1", Time: new(metav1.NewTime(fixture.Noon)), Deadline: new(metav1.NewTime(fixture.Noon))}
	})
	o, err := Observe(v)
	if err != nil {
		t.Fatal(err)
	}
	lead, follower := o.Brokers[0], o.Brokers[1]
	if !lead.Unbindable || lead.Misplaced || !o.Admission.Has(0) || !follower.Unbindable || !follower.Misplaced || o.Admission.Has(1) || follower.ExitCode != nil {
		t.Errorf("lead %+v, follower %+v", lead, follower)
	}
	if lead.Taken || !follower.Taken {
		t.Errorf("taken: lead %v, follower %v", lead.Taken, follower.Taken)
	}
	unschedulable.Status.Conditions[0].Message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
	v.Pods = read(unschedulable, refused)
	if o, err = Observe(v); err != nil || !o.Brokers[0].Taken {
		t.Errorf("lead %+v, %v", o.Brokers[0], err)
	}
	if d := o.Admission.Draining; d == nil || !slices.Equal(d.Ranks, []int{1}) || !slices.Equal(o.PublishedDrain, []int{1}) || !d.At.Equal(fixture.Noon) || !d.Deadline.Equal(fixture.Noon) {
		t.Errorf("draining %+v, published %v", d, o.PublishedDrain)
	}
	v.MiniCluster.Status.Admission.Drain.Time, v.MiniCluster.Status.Admission.Drain.Deadline = nil, nil
	if o, err = Observe(v); err != nil || !o.Admission.Draining.At.Equal(o.Admission.At) || !o.Admission.Draining.Deadline.IsZero() {
		t.Errorf("draining %+v, %v", o.Admission.Draining, err)
	}
	v.MiniCluster.Status.Admission.Vacated = "2"
	if _, err := Observe(v); err == nil {
		t.Error("a rank that is not there was vacated")
	}
}
