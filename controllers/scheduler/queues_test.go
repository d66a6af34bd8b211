// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

// The status of a queue counts all that wait, and lists the first.
func TestQueueListsTheFirst(t *testing.T) {
	q := newQueue(t, "a")
	for i := range 60 {
		q.offer(fixture.MiniCluster(fmt.Sprintf("mc-%02d", i)).Size(2).Created(fixture.Noon.Add(time.Duration(i) * time.Second)))
	}
	q.offer(fixture.MiniCluster("small").Size(1).Queue("other"))
	q.cycle()
	report, _ := q.report("default")
	got := status.Queue(strict("default"), report)
	if got.Pending != 60 || len(got.Waiting) != v1alpha2.MostWaiting || got.Waiting[49].Name != "mc-49" || got.Waiting[49].Position != 50 {
		t.Errorf("%d are pending, and %d listed: %+v", got.Pending, len(got.Waiting), got.Waiting)
	}
}

// Those in the middle of a queue hear how many are before them, but not after every cycle.
func TestQueueTellsPositions(t *testing.T) {
	q := newQueue(t, "a", "b")
	runs := fixture.MiniCluster("runs").Size(2).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	})
	q.seen.miniClusters = append(q.seen.miniClusters, runs.Obj())
	for i := range 4 {
		q.offer(fixture.MiniCluster(fmt.Sprintf("mc-%d", i)).Size(2).Created(fixture.Noon.Add(time.Duration(i) * time.Second)))
	}
	step := func(what, want string) {
		t.Helper()
		if told := q.cycle(); told != want {
			t.Errorf("%s: %q are told, want %q", what, told, want)
		}
	}
	step("at first", "mc-0 mc-1 mc-2 mc-3")
	q.Forget(types.NamespacedName{Namespace: fixture.Namespace, Name: "mc-0"})
	q.seen.miniClusters = slices.DeleteFunc(q.seen.miniClusters, func(mc *v1alpha2.MiniCluster) bool { return mc.Name == "mc-0" })
	step("when the first is gone", "mc-1")
	if at := q.now.Add(newsInterval); !q.due.lookAgain.Equal(at) {
		t.Errorf("the next look is at %s, want %s", q.due.lookAgain, at)
	}
	q.now = q.now.Add(newsInterval)
	step("later", "mc-2 mc-3")
	step("again", "")
}
