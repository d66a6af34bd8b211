// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Report implements minicluster.Scheduler.
func (s *Scheduler) Report(mc *v1alpha2.MiniCluster, wants state.Wants) (offer elastic.Offer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	switch wants.Want {
	case state.NodesNow:
		e := s.line.enter(&entry{miniCluster: mc, pod: wants.Pod, quota: wants.Quota, refusal: refusal{refused: wants.Refused}})
		s.catalog.services[mc.UID] = wants.Services
		d := &e.decision
		offer = elastic.Offer{Verdict: d.Verdict, Message: d.Message, Blocked: d.Blocked}
		if e.refused = wants.Refused; e.refused == "" {
			offer.Nodes, offer.Deadlines = d.Nodes, e.deadlines
			if s.catalog.pods[mc.UID] != wants.Pod {
				s.catalog.setPod(mc.UID, wants.Pod)
			}
		}
	case state.NodesLater:
		s.line.remove(mc, check{uid: mc.UID, waits: true})
	case state.NoNodes:
		now := check{uid: mc.UID}
		if meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
			now = check{} // it never waits again
		}
		if mc.IsSuspended() {
			s.line.endWait(name, metrics.WaitSuspended, s.Clock.Now())
		}
		s.line.remove(mc, now)
	case state.Gone:
		s.line.forget(name, s.Clock.Now())
	}
	return offer
}

// Order implements minicluster.Scheduler.
func (s *Scheduler) Order(mc *v1alpha2.MiniCluster, pod *corev1.Pod, displaced []int, most *int) elastic.Order {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if most != nil && s.catalog.limit(mc.UID, *most) {
		s.due.wake()
	}
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

// Place implements minicluster.Scheduler.
func (s *Scheduler) Place(mc *v1alpha2.MiniCluster) (queue string, waits bool, freed time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.line.entries[client.ObjectKeyFromObject(mc)]
	waits = e != nil && e.decision.Verdict != "" && e.decision.Verdict != elastic.Admitted
	if e != nil && e.miniCluster.UID == mc.UID {
		return e.queue, waits, e.freed
	}
	return s.line.queueOf(mc), waits, time.Time{}
}

// MostPods implements minicluster.Scheduler.
func (s *Scheduler) MostPods(pod *corev1.Pod) int {
	requests := state.Requests(pod)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ledger.MostPods(requests)
}

// Overlooks implements minicluster.Scheduler.
func (s *Scheduler) Overlooks(namespace string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ledger.Overlooks(namespace)
}

// Decided implements minicluster.Scheduler.
func (s *Scheduler) Decided() <-chan event.GenericEvent { return s.mail.decided }
