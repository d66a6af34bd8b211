// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// What is ordered is written down in one write, and told.
func TestComputeOrders(t *testing.T) {
	cases := map[string]struct {
		vacated, drain string
		plan           life.Plan
		want, event    string
	}{
		"drain": {"", "", life.Plan{Step: life.Drain{Ranks: []int{2, 3}, Quorum: 4, Deadline: fixture.Noon}, Message: "2 leave"},
			`n[1-4], vacated "", drain "2-3", quorum 4`, "Normal Draining: 2 leave, ranks 2-3"},
		"vacate": {"1", "3", life.Plan{Step: life.Vacate{Ranks: []int{3}, Quorum: 2}, Message: "1 left"},
			`n[1-4], vacated "1,3", drain "", quorum 2`, "Normal Vacated: 1 left, ranks 3 left"},
		"vacate some": {"", "1,3", life.Plan{Step: life.Vacate{Ranks: []int{3}, Quorum: 2}, Message: "1 left"},
			`n[1-4], vacated "3", drain "1", quorum 2`, "Normal Vacated: 1 left, ranks 3 left"},
		"lower the quorum": {"", "", life.Plan{Step: life.LowerQuorum{Quorum: 2, Leaving: []int{1, 3}}, Message: "starts with 2"},
			`n[1-4], vacated "", drain "1,3", quorum 2`, "Warning QuorumLowered: Lowered the quorum: starts with 2"},
		"keep": {"1", "2-3", life.Plan{Step: life.Keep{Ranks: []int{3}, Quorum: 2}},
			`n[1-4], vacated "1", drain "2", quorum 2`, "Normal Kept: The command had begun with ranks 3, too, which stay: 2 of 4 brokers, tasks 16 of 32"},
		"keep all": {"", "3", life.Plan{Step: life.Keep{Ranks: []int{3}, Quorum: 4}},
			`n[1-4], vacated "", drain "", quorum 4`, "Normal Kept: The command had begun with ranks 3, too, which stay: 4 of 4 brokers, tasks 32 of 32"},
		"grow": {"1,3", "", life.Plan{Step: life.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "x"}, {Rank: 4, Node: "n5"}}, Quorum: 4}, Message: "grows"},
			`n[1-3],x,n5, vacated "1", drain "", quorum 4`, "Normal Grew: Grows, ranks 3-4 on x,n5"},
		"move": {"1", "", life.Plan{Step: life.Move{Pods: []elastic.Pod{{Rank: 2, Node: "x"}}}, Message: "moves"},
			`n[1-2],x,n4, vacated "1", drain "", quorum 4`, "Normal Moved: Moves, ranks 2 on x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := wanted4().Admitted(1, 4, "n[1-4]").Status(func(s *v1alpha2.MiniClusterStatus) {
				s.Admission.Vacated = tc.vacated
				if tc.drain != "" {
					s.Admission.Drain = &v1alpha2.Drain{Ranks: tc.drain}
				}
			}).Defaulted()
			tc.plan.State = life.StateRunning
			in := Input{MiniCluster: mc, Observation: &life.Observation{Policy: policy}, Plan: tc.plan, Now: fixture.Noon, Queue: "q"}
			s := compute(t, in)
			drain := ""
			if s.Admission.Drain != nil {
				drain = s.Admission.Drain.Ranks
				if tc.drain == "" && !s.Admission.Drain.Time.Time.Equal(fixture.Noon) {
					t.Errorf("they leave since %s", s.Admission.Drain.Time)
				}
			}
			got := fmt.Sprintf("%s, vacated %q, drain %q, quorum %d", s.Admission.Nodes, s.Admission.Vacated, drain, s.Admission.Quorum)
			if got != tc.want || s.Queue != "q" {
				t.Errorf("got %s (queue %s), want %s", got, s.Queue, tc.want)
			}
			if events := toldOf(in, &s); !slices.Equal(events, []string{tc.event}) {
				t.Errorf("events %v, want %s", events, tc.event)
			}
		})
	}
}

// Why it was evicted stays said until it waits again.
func TestComputeEviction(t *testing.T) {
	started := fixture.Noon
	mc := wanted4().Admitted(1, 4, "n[1-4]").Defaulted()
	in := Input{MiniCluster: mc, Observation: &life.Observation{Policy: policy}, Now: started.Add(time.Minute),
		Plan: life.Plan{Step: life.Evict{Reason: v1alpha2.ReasonPreempted}, State: life.StateReleasing, Message: "x needs it"}}
	s := compute(t, in)
	said := func() string {
		c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
		return fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message)
	}
	if s.Admission != nil || s.StartTime != nil || s.RequeueState == nil || s.RequeueState.Count != 0 || !s.RequeueState.RequeueAt.Time.Equal(in.Now) || said() != "False Preempted: X needs it" {
		t.Errorf("admission %v, started %v, requeue %v, %s", s.Admission, s.StartTime, s.RequeueState, said())
	}
	if events := toldOf(in, &s); !slices.Equal(events, []string{"Warning Preempted: Gave back nodes for 4 brokers: x needs it"}) {
		t.Errorf("events %v", events)
	}
	in.MiniCluster.Status = s
	in.Plan = life.Plan{Step: life.Release{}, State: life.StateReleasing, Message: "waits"}
	if s = compute(t, in); said() != "False Preempted: X needs it" {
		t.Errorf("while it is released: %s", said())
	}
	in.MiniCluster.Status = s
	in.Plan = life.Plan{Step: life.Wait{}, State: life.StateQueued, Message: "over its capacity"}
	in.Observation.Offer = elastic.Offer{Verdict: elastic.QueueFull, Message: "over its capacity"}
	if s = compute(t, in); said() != "False QueueFull: Over its capacity" {
		t.Errorf("while it waits: %s", said())
	}
}

// The quota of the admission is recorded with it, and stays as it is.
func TestComputeRecordsQuota(t *testing.T) {
	quota := &v1alpha2.Quota{ClusterQueue: "cq", Workload: "wl", Size: 3, Time: metav1.NewTime(fixture.Noon), NodeSelector: map[string]string{"pool": "a"}}
	in := Input{MiniCluster: wanted4().Defaulted(), Observation: &life.Observation{Policy: policy}, Now: fixture.Noon, Quota: quota, Queue: v1alpha2.KueueQueue,
		Plan: life.Plan{Step: life.Admit{Attempt: 1, Nodes: []string{"a", "b", "c"}}, State: life.StateStarting}}
	s := compute(t, in)
	if !reflect.DeepEqual(s.Admission.Quota, quota) || s.Queue != v1alpha2.KueueQueue {
		t.Errorf("quota %+v, queue %q", s.Admission.Quota, s.Queue)
	}
	in.MiniCluster.Status = s
	in.Plan = life.Plan{Step: life.Wait{}, State: life.StateStarting}
	for _, later := range []*v1alpha2.Quota{nil, {ClusterQueue: "other", Workload: "new", Size: 4}} {
		in.Quota = later
		if s = compute(t, in); !reflect.DeepEqual(s.Admission.Quota, quota) {
			t.Errorf("later quota %+v", s.Admission.Quota)
		}
	}
}

// It says why Kueue took the quota back until it waits again, and then what Kueue says.
func TestComputeQuotaWithdrawn(t *testing.T) {
	in := Input{MiniCluster: wanted4().Admitted(1, 4, "n[1-4]").Defaulted(), Observation: &life.Observation{Policy: policy}, Now: fixture.Noon.Add(time.Minute)}
	for _, tc := range []struct {
		plan life.Plan
		want string
	}{
		{life.Plan{Step: life.Evict{Reason: v1alpha2.ReasonQuotaWithdrawn}, State: life.StateReleasing, Message: "Kueue took the quota back: preempted"}, "QuotaWithdrawn: Kueue took the quota back: preempted"},
		{life.Plan{Step: life.Wait{}, State: life.StateReleasing, Message: "waits for pods"}, "QuotaWithdrawn: Kueue took the quota back: preempted"},
		{life.Plan{Step: life.Wait{}, State: life.StateQueued}, "WaitingForQuota: Waits for quota in Kueue's queue"},
	} {
		in.Plan = tc.plan
		in.Observation.Offer = elastic.Offer{Verdict: elastic.WaitingForQuota, Message: "waits for quota in Kueue's queue"}
		s := compute(t, in)
		c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
		if got := c.Reason + ": " + c.Message; got != tc.want || c.Status != metav1.ConditionFalse {
			t.Errorf("got %s %s\nwant %s", c.Status, got, tc.want)
		}
		in.MiniCluster.Status = s
	}
}
