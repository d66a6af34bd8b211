// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// installKueue adds the definitions of Kueue's objects, from its module, and a queue with a quota of CPUs and a check.
func (p *play) installKueue(cpus string, checks ...string) *Kueue {
	p.Helper()
	if err := p.server.InstallModule("sigs.k8s.io/kueue", "config/components/crd/bases"); err != nil {
		p.Fatal(err)
	}
	queue := &kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: kueueapi.ClusterQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{},
		Preemption:        &kueueapi.ClusterQueuePreemption{WithinClusterQueue: kueueapi.PreemptionPolicyLowerPriority},
		ResourceGroups: []kueueapi.ResourceGroup{{
			CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
			Flavors: []kueueapi.FlavorQuotas{{Name: "any", Resources: []kueueapi.ResourceQuota{
				{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse(cpus)},
			}}},
		}},
	}}
	for _, check := range checks {
		queue.Spec.AdmissionChecksStrategy = &kueueapi.AdmissionChecksStrategy{
			AdmissionChecks: []kueueapi.AdmissionCheckStrategyRule{{Name: kueueapi.AdmissionCheckReference(check)}},
		}
	}
	p.create(&kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "any"}})
	p.create(queue)
	p.create(&kueueapi.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: "team"}, Spec: kueueapi.LocalQueueSpec{ClusterQueue: "all"}})
	k := NewKueue(p.cluster)
	p.models = append(p.models, k)
	return k
}

// ask asks for quota for pods of a CPU: a lead, and workers of which some may be left out.
func (p *play) ask(name string, workers, least, priority int32) {
	p.Helper()
	set := func(name kueueapi.PodSetReference, count int32, least *int32) kueueapi.PodSet {
		return kueueapi.PodSet{Name: name, Count: count, MinCount: least, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		}}}
	}
	p.create(&kueueapi.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: name}, Spec: kueueapi.WorkloadSpec{
		QueueName: "team", Active: ptr.To(true), Priority: &priority, PodSets: []kueueapi.PodSet{set("lead", 1, nil), set("workers", workers, &least)},
	}})
}

func (p *play) workload(name string) *kueueapi.Workload {
	p.Helper()
	var w kueueapi.Workload
	if err := p.Get(p.ctx, types.NamespacedName{Namespace: fixture.Namespace, Name: name}, &w); err != nil {
		p.Fatal(err)
	}
	return &w
}

// quota is how many pods of a Workload have quota.
func (p *play) quota(name string) (pods int32) {
	p.Helper()
	if w := p.workload(name); w.Status.Admission != nil {
		for _, set := range w.Status.Admission.PodSetAssignments {
			pods += *set.Count
		}
	}
	return pods
}

func (p *play) changeWorkload(name string, change func(*kueueapi.WorkloadStatus)) {
	p.Helper()
	w := p.workload(name)
	change(&w.Status)
	if err := p.Status().Update(p.ctx, w); err != nil {
		p.Fatal(err)
	}
}

// Kueue gives quota to as many workers as it has some for, and evicts for a higher priority. Quota comes back from its owner.
func TestKueue(t *testing.T) {
	inBubble(t, 1, 0, func(p *play) {
		k := p.installKueue("8")
		p.ask("a", 9, 3, 0)
		p.until("a is admitted with what there is", func() bool { return isTrue(p.workload("a"), kueueapi.WorkloadAdmitted) && p.quota("a") == 8 })
		p.ask("b", 3, 3, 0)
		p.until("b hears why it waits", func() bool {
			for _, c := range p.workload("b").Status.Conditions {
				if c.Type == kueueapi.WorkloadQuotaReserved && strings.Contains(c.Message, "insufficient unused quota for cpu") {
					return true
				}
			}
			return false
		})
		p.ask("c", 7, 7, 10)
		p.until("a is evicted for c", func() bool { return isTrue(p.workload("a"), kueueapi.WorkloadEvicted) })
		p.settle(1)
		if p.quota("c") != 0 {
			t.Error("c has the quota of a")
		}
		p.changeWorkload("a", func(s *kueueapi.WorkloadStatus) { // as its owner does
			s.Admission = nil
			for i := range s.Conditions {
				if s.Conditions[i].Type == kueueapi.WorkloadQuotaReserved || s.Conditions[i].Type == kueueapi.WorkloadAdmitted {
					s.Conditions[i].Status = metav1.ConditionFalse
				}
			}
		})
		p.until("c has quota", func() bool { return p.quota("c") == 8 && isTrue(p.workload("c"), kueueapi.WorkloadAdmitted) })
		w := p.workload("c")
		w.Spec.Active = ptr.To(false)
		if err := p.Update(p.ctx, w); err != nil {
			t.Fatal(err)
		}
		p.until("c is evicted, and a has its quota at once", func() bool { return isTrue(p.workload("c"), kueueapi.WorkloadEvicted) && p.quota("a") > 0 })
		k.Evict(p.workload("a").UID, kueueapi.WorkloadEvictedByPreemption)
		p.until("a is evicted", func() bool { return isTrue(p.workload("a"), kueueapi.WorkloadEvicted) })
	})
}

// A Workload is admitted once its check is ready. A check that wants to be asked again evicts it.
func TestKueueChecks(t *testing.T) {
	inBubble(t, 1, 0, func(p *play) {
		p.installKueue("8", "placement")
		p.ask("a", 3, 3, 0)
		p.until("a has quota, and waits for its check", func() bool { return p.quota("a") == 4 && len(p.workload("a").Status.AdmissionChecks) == 1 })
		p.settle(1)
		if isTrue(p.workload("a"), kueueapi.WorkloadAdmitted) {
			t.Error("it is admitted before its check is ready")
		}
		state := func(state kueueapi.CheckState) {
			p.changeWorkload("a", func(s *kueueapi.WorkloadStatus) { s.AdmissionChecks[0].State = state })
		}
		state(kueueapi.CheckStateReady)
		p.until("a is admitted", func() bool { return isTrue(p.workload("a"), kueueapi.WorkloadAdmitted) })
		state(kueueapi.CheckStateRetry)
		p.until("a is evicted, and its check pending again", func() bool {
			w := p.workload("a")
			return isTrue(w, kueueapi.WorkloadEvicted) && w.Status.AdmissionChecks[0].State == kueueapi.CheckStatePending && w.Status.RequeueState != nil
		})
		state(kueueapi.CheckStateRejected)
		p.until("a is deactivated", func() bool { return !ptr.Deref(p.workload("a").Spec.Active, true) })
	})
}
