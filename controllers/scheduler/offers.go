// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Offer implements minicluster.Scheduler.
func (s *Scheduler) Offer(mc *v1alpha2.MiniCluster, pod, services *corev1.Pod, quota *v1alpha2.Quota) elastic.Offer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.line.enter(&entry{miniCluster: mc, pod: pod, quota: quota})
	if s.catalog.pods[mc.UID] != pod {
		s.catalog.setPod(mc.UID, pod)
	}
	s.catalog.setServices(mc.UID, services)
	d := &e.decision
	return elastic.Offer{Nodes: d.Nodes, Verdict: d.Verdict, Message: d.Message, Blocked: d.Blocked, Deadlines: e.deadlines}
}

// Refused implements minicluster.Scheduler.
func (s *Scheduler) Refused(mc *v1alpha2.MiniCluster, pod, services *corev1.Pod, why string) elastic.Offer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.line.enter(&entry{miniCluster: mc, pod: pod, refusal: refusal{refused: why}})
	s.catalog.setServices(mc.UID, services)
	e.refused = why
	return elastic.Offer{Verdict: e.decision.Verdict, Message: e.decision.Message, Blocked: e.decision.Blocked}
}

// Freed implements minicluster.Scheduler.
func (s *Scheduler) Freed(mc *v1alpha2.MiniCluster) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.line.of(mc); e != nil {
		return e.freed
	}
	return time.Time{}
}

// QueueOf implements minicluster.Scheduler.
func (s *Scheduler) QueueOf(mc *v1alpha2.MiniCluster) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.line.of(mc); e != nil {
		return e.queue
	}
	return s.line.queueOf(mc)
}

// Waits implements minicluster.Scheduler.
func (s *Scheduler) Waits(name types.NamespacedName) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.line.entries[name]
	return e != nil && e.decision.Verdict != "" && e.decision.Verdict != elastic.Admitted
}

// Order implements minicluster.Scheduler.
func (s *Scheduler) Order(mc *v1alpha2.MiniCluster, pod *corev1.Pod, displaced []int) elastic.Order {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if pod != nil && s.catalog.pods[mc.UID] == nil { // as after a restart
		s.catalog.setPod(mc.UID, pod)
		s.due.wake()
	}
	order, _ := s.ledger.OrderOf(mc.UID)
	switch {
	case len(displaced) == 0:
		delete(s.catalog.repairs, mc.UID)
	case order == nil && !slices.Equal(s.catalog.repairs[mc.UID], displaced):
		s.catalog.repairs[mc.UID] = displaced
		s.due.wake()
	}
	return order
}

// Limit implements minicluster.Scheduler.
func (s *Scheduler) Limit(mc *v1alpha2.MiniCluster, most int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.catalog.limits[mc.UID] == most {
		return
	}
	if order, _ := s.ledger.OrderOf(mc.UID); most < s.catalog.limits[mc.UID] {
		if _, grows := order.(elastic.Grow); grows {
			s.ledger.Cancel(mc.UID)
		}
	}
	s.catalog.limits[mc.UID] = most
	s.catalog.outdate(mc.UID)
	s.due.wake()
}

// Skip implements minicluster.Scheduler.
func (s *Scheduler) Skip(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := check{uid: mc.UID}
	if meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		now = check{} // it never waits again
	}
	if mc.IsSuspended() {
		s.line.endWait(client.ObjectKeyFromObject(mc), metrics.WaitSuspended, s.Clock.Now())
	}
	s.line.remove(mc, now)
}

// Postpone implements minicluster.Scheduler.
func (s *Scheduler) Postpone(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.line.remove(mc, check{uid: mc.UID, waits: true})
}

// Forget implements minicluster.Scheduler.
func (s *Scheduler) Forget(name types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.line.entries[name]; e != nil {
		s.line.endWait(name, metrics.WaitDeleted, s.Clock.Now())
		s.ledger.Forget(e.miniCluster.UID)
		s.due.wake()
	}
	delete(s.line.checked, name)
	delete(s.line.entries, name)
}

// Decided implements minicluster.Scheduler.
func (s *Scheduler) Decided() <-chan event.GenericEvent { return s.mail.decided }
