// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
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
		s.catalog.setServices(mc.UID, wants.Services)
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
func (s *Scheduler) Order(mc *v1alpha2.MiniCluster, has state.Has) elastic.Order {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if has.Most != nil {
		s.limit(mc.UID, *has.Most)
	}
	if has.Pod != nil && s.catalog.pods[mc.UID] == nil { // as after a restart
		s.catalog.setPod(mc.UID, has.Pod)
		s.due.wake()
	}
	order, _ := s.ledger.OrderOf(mc.UID)
	switch {
	case len(has.Displaced) == 0:
		delete(s.catalog.repairs, mc.UID)
	case order == nil && !slices.Equal(s.catalog.repairs[mc.UID], has.Displaced):
		s.catalog.repairs[mc.UID] = has.Displaced
		s.due.wake()
	}
	return order
}

// limit sets the largest size of a MiniCluster with quota from Kueue.
func (s *Scheduler) limit(uid types.UID, most int) {
	if s.catalog.limits[uid] == most {
		return
	}
	if order, _ := s.ledger.OrderOf(uid); most < s.catalog.limits[uid] {
		if _, grows := order.(elastic.Grow); grows {
			s.ledger.Cancel(uid)
		}
	}
	s.catalog.limits[uid] = most
	s.catalog.outdate(uid)
	s.due.wake()
}

// Place implements minicluster.Scheduler.
func (s *Scheduler) Place(mc *v1alpha2.MiniCluster) (place state.Place) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.line.of(mc); e != nil {
		place.Queue, place.Freed = e.queue, e.freed
	} else {
		place.Queue = s.line.queueOf(mc)
	}
	e := s.line.entries[client.ObjectKeyFromObject(mc)]
	place.Waits = e != nil && e.decision.Verdict != "" && e.decision.Verdict != elastic.Admitted
	return place
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
