// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// A command whose MiniCluster sets no deadline is ended by that of its queue at the admission. A later
// change of the queue does not count for what has nodes.
func TestDeadlineOfTheQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	before := s.create(s.miniCluster("before").Size(1).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(before, v1alpha2.StateRunning)
	s.patchQueue(`{"spec":{"defaultDeadline":"2s","maxDeadline":"1h"}}`)

	forgotten := s.create(s.miniCluster("forgotten").Size(2).PodAnnotation(simulator.Runtime, "1h"))
	longer := s.create(s.miniCluster("longer").Size(1).Deadline(7200).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitEnd(forgotten, v1alpha2.ReasonDeadlineExceeded)
	if a := s.get(forgotten).Status.Admission; ptr.Deref(a.DeadlineSeconds, 0) != 2 || a.QueueDeadlines == nil || a.QueueDeadlines.Max.Hours() != 1 {
		t.Errorf("its admission says %d s, by %+v", ptr.Deref(a.DeadlineSeconds, 0), a.QueueDeadlines)
	}
	s.await(longer, "told that its deadline is too long", func(mc *v1alpha2.MiniCluster) bool {
		c := condition(mc, v1alpha2.ConditionAdmitted)
		return c.Reason == v1alpha2.ReasonDeadlineTooLong && strings.Contains(c.Message, "7200 is more than queue "+s.namespace+" allows (1h)")
	})

	s.patchQueue(`{"spec":{"maxDeadline":"2h"}}`)
	s.awaitState(longer, v1alpha2.StateRunning)
	s.patchQueue(`{"spec":{"defaultDeadline":"1s","maxDeadline":"1s"}}`)
	for _, seconds := range []int{3600, 7200} { // a shorter deadline counts at once, and a longer one from the next admission
		s.patch(longer, `{"spec":{"deadlineSeconds":%d}}`, seconds)
		s.await(longer, "with the shorter deadline", func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.ObservedGeneration == mc.Generation && ptr.Deref(mc.Status.Admission.DeadlineSeconds, 0) == 3600
		})
	}
	for _, mc := range []*v1alpha2.MiniCluster{before, longer} {
		s.endCommand(mc)
		s.awaitSuccess(mc)
	}
	if a := s.get(before).Status.Admission; a.DeadlineSeconds != nil || a.QueueDeadlines != nil {
		t.Errorf("what had nodes before has a deadline of %d s, by %+v", ptr.Deref(a.DeadlineSeconds, 0), a.QueueDeadlines)
	}
}

// patchQueue changes the queue, and waits until the scheduler knows.
func (s *site) patchQueue(patch string) {
	s.t.Helper()
	s.patch(queueOf(s), "%s", patch)
	eventually(s.t, func() error {
		var queue v1alpha2.MiniClusterQueue
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(queueOf(s)), &queue); err != nil {
			return err
		}
		if seen := queue.Status.ObservedGeneration; seen != queue.Generation {
			return fmt.Errorf("generation %d of the queue was seen, and not %d", seen, queue.Generation)
		}
		return nil
	})
}

// Followers end before the lead's pod does. This is no loss: no status counts fewer brokers.
func TestFollowersEndFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	record := s.newRecord()
	mc := s.create(s.miniCluster("ends").Size(3).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.await(mc, "running with 3 brokers", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRunning && mc.Status.Size == 3
	})
	for rank := 1; rank < 3; rank++ {
		pod := s.awaitPod(mc, rank, "ready", func(pod *corev1.Pod) bool { return protocol.Read(pod).Broker.Ready })
		ended := fmt.Sprintf(`{"status":{"phase":"Succeeded","containerStatuses":[{"name":%q,"ready":false,"state":{"running":null,"terminated":{"exitCode":0}}}]}}`,
			pod.Spec.Containers[0].Name)
		if err := env.client.Status().Patch(s.ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(ended))); err != nil {
			t.Fatal(err)
		}
	}
	s.patch(mc, `{"spec":{"ttlSecondsAfterFinished":600}}`) // a pass follows, which sees the ends
	s.await(mc, "seen", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.ObservedGeneration == mc.Generation })
	s.endCommand(mc)
	s.awaitSuccess(mc)
	began := false
	for _, seen := range record.of(mc).versions {
		runs := state(seen) == v1alpha2.StateRunning
		began = began || runs && seen.Status.Size == 3
		if began && runs && seen.Status.Size != 3 {
			t.Errorf("it runs with %d brokers: %s", seen.Status.Size, condition(seen, v1alpha2.ConditionReady).Message)
		}
	}
}

// A finished MiniCluster whose spec has no time to live goes after the manager's default. One that
// is made under its name later is new.
func TestDefaultTTL(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 3)
	operator.Operate(s.shared, "--default-ttl=1s")
	stays := s.create(s.miniCluster("stays").Size(1).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.TTLSecondsAfterFinished = new(int32(3600)) }))
	record := s.newRecord()
	for range 2 {
		mc := s.create(s.miniCluster("goes").Size(2))
		record.await(s, mc, "succeeded", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateSucceeded })
		s.awaitGone(mc)
	}
	s.awaitSuccess(stays)
	if s.get(stays).DeletionTimestamp != nil {
		t.Error("the spec does not win")
	}
}
