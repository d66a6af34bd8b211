// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

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
