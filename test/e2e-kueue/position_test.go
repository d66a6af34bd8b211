// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The message of a MiniCluster that waits for quota has its position in Kueue's queues, which follows
// the queues.
func TestPosition(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	queue := s.newQueue("team", 8)
	s.Create(&kueueapi.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "other"},
		Spec:       kueueapi.LocalQueueSpec{ClusterQueue: kueueapi.ClusterQueueReference(queue.Name)},
	})
	holder := s.create(s.miniCluster("holder").Size(1), "team")
	s.AwaitState(holder, v1alpha2.StateRunning)
	first := s.newUrgent("first", "other", s.newPriority("high", 100), podSet("lead", 1, "8"))
	s.awaitCondition(first, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	second := s.create(s.miniCluster("second").Size(1), "team")
	s.awaitWaiting(second, `queue "team" (position 1; in its ClusterQueue position 2): `)
	third := s.miniCluster("third").Size(1).New()
	third.Namespace = s.Namespace
	third.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team", v1alpha2.KueuePriorityLabel: s.newPriority("low", -100)}
	s.Create(third)
	s.awaitWaiting(third, `queue "team" (position 2; in its ClusterQueue position 3): `)
	s.Delete(first)
	s.awaitWaiting(second, `queue "team" (position 1): `)
	s.awaitWaiting(third, `queue "team" (position 2): `)
}
