// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Attempts that ended without success are kept, the last ten, with the nodes to avoid.
func TestAttemptsAreKept(t *testing.T) {
	mc := wanted4().Defaulted()
	admitted := wanted4().Admitted(1, 3, "n[1-3]").Obj().Status.Admission
	for i := range 12 {
		mc.Status.Admission = admitted.DeepCopy()
		mc.Status.Admission.Attempt = int32(i + 1)
		in := Input{
			MiniCluster: mc, Observation: &life.Observation{Policy: policy}, Now: fixture.Noon.Add(time.Duration(i) * time.Minute),
			Plan: life.Plan{Step: life.GiveUp{Most: 2, Avoid: []string{fmt.Sprint("n", i)}}, State: life.StateReleasing, Message: "too few"},
		}
		mc.Status = compute(t, in)
	}
	s := &mc.Status
	if len(s.Attempts) != 10 || s.Attempts[0].Attempt != 3 || s.Attempts[9].Attempt != 12 {
		t.Fatalf("kept are %+v", s.Attempts)
	}
	last := s.Attempts[9]
	if last.Size != 3 || last.Reason != "GaveUp" || last.Message != "Too few" || last.Started != nil || !last.Ended.Time.Equal(fixture.Noon.Add(11*time.Minute)) {
		t.Errorf("the last is %+v", last)
	}
	if s.RequeueState.Count != 12 || s.RequeueState.Size != 2 {
		t.Errorf("it is queued again by %+v", s.RequeueState)
	}
	if s.Avoid == nil || s.Avoid.Nodes != "n[0-1,10-11,2-9]" || !s.Avoid.Until.Time.Equal(fixture.Noon.Add(21*time.Minute)) {
		t.Errorf("it avoids %+v", s.Avoid)
	}
}

// Suspended it begins anew, with the next number of an attempt.
func TestSuspendingForgets(t *testing.T) {
	mc := wanted4().Status(func(s *v1alpha2.MiniClusterStatus) {
		s.RequeueState = &v1alpha2.RequeueState{Count: 3, Size: 2}
		s.Avoid = &v1alpha2.Avoid{Nodes: "n1", Until: metav1.NewTime(fixture.Noon.Add(time.Hour))}
		s.Attempts = []v1alpha2.Attempt{{Attempt: 3}}
		s.BlockedSince = &metav1.Time{Time: fixture.Noon}
	}).Defaulted()
	o := &life.Observation{Policy: policy}
	o.Policy.Suspend = true
	s := compute(t, Input{MiniCluster: mc, Observation: o, Now: fixture.Noon, Plan: life.Plan{Step: life.Withdraw{}, State: life.StateSuspended}})
	if s.RequeueState != nil || s.Avoid != nil || len(s.Attempts) != 1 || s.BlockedSince != nil {
		t.Errorf("it remembers %+v, %+v, %+v, %s", s.RequeueState, s.Avoid, s.Attempts, s.BlockedSince)
	}
}

// What changes an admission without ending it.
func TestComputeLosses(t *testing.T) {
	for name, tc := range map[string]struct {
		plan life.Plan
		want string
	}{
		"brokers that do not come": {life.Plan{Step: life.LowerQuorum{Quorum: 2, Leaving: []int{1, 3}}, Message: "starts with 2"},
			`quorum 2, vacated "", moved "", lost "", avoid "": Lowered the quorum: starts with 2`},
		"a lead that started with fewer": {life.Plan{Step: life.Start{Quorum: 3, Vacated: []int{2}}},
			`quorum 3, vacated "2", moved "", lost "", avoid "": Started with 3 of 4 brokers, tasks 24 of 32`},
		"other nodes": {life.Plan{Step: life.Move{Pods: []elastic.Pod{{Rank: 2, Node: "x"}}, Avoid: []string{"n3"}}, Message: "moves"},
			`quorum 4, vacated "", moved "2", lost "", avoid "n3": Moves, ranks 2 on x`},
		"brokers that are lost": {life.Plan{Step: life.Lose{Ranks: []int{2}}, Message: "1 of 4 brokers were lost"},
			`quorum 4, vacated "", moved "", lost "2", avoid "": 1 of 4 brokers were lost`},
	} {
		t.Run(name, func(t *testing.T) {
			mc := wanted4().Admitted(1, 4, "n[1-4]").Defaulted()
			tc.plan.State = life.StateRunning
			s := compute(t, Input{MiniCluster: mc, Observation: &life.Observation{Policy: policy}, Plan: tc.plan, Now: fixture.Noon})
			lost, avoid := "", ""
			if s.Admission.Loss != nil {
				lost = s.Admission.Loss.Ranks
			}
			if s.Avoid != nil {
				avoid = s.Avoid.Nodes
			}
			got := fmt.Sprintf("quorum %d, vacated %q, moved %q, lost %q, avoid %q: %s", s.Admission.Quorum, s.Admission.Vacated, s.Admission.Moved, lost, avoid, s.LastDecision.Message)
			if got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Whoever changes the size of one that runs is told what it does not do.
func TestOtherSizes(t *testing.T) {
	for name, tc := range map[string]struct {
		size  int32
		bears bool
		want  string
	}{
		"as it was":                  {4, true, ""},
		"smaller":                    {3, true, ""},
		"larger":                     {6, true, ""},
		"larger than pods were made": {9, true, "Warning SizeIgnored: It grows up to 6 brokers, not 9: no more pods were made when it was admitted"},
		"smaller than its minimum":   {1, true, "Warning BelowMinimum: It shrinks to a size of 1, less than its minSize of 2"},
		"of a rigid one":             {3, false, "Warning SizeIgnored: The size of 3 counts from the next start: the command runs with 4 brokers, and cannot gain or lose any"},
	} {
		t.Run(name, func(t *testing.T) {
			mc := wanted4().Admitted(1, 4, "n[1-4]").Status(func(s *v1alpha2.MiniClusterStatus) {
				s.Admission.Wanted, s.MaximumSize, s.ObservedGeneration = 4, 6, 1
				s.StartTime = &metav1.Time{Time: fixture.Noon}
			}).Defaulted()
			mc.Spec.Size, mc.Generation = tc.size, 2
			o := &life.Observation{Policy: policy}
			o.Policy.Malleable = tc.bears
			in := Input{MiniCluster: mc, Observation: o, Now: fixture.Noon, Plan: life.Plan{Step: life.Wait{}, State: life.StateRunning}}
			s := compute(t, in)
			if got := strings.Join(toldOf(in, &s), "\n"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			in.MiniCluster.Status = s
			if again := Events(in, &s); len(again) > 0 {
				t.Errorf("it is said again: %v", again)
			}
			mc.Spec.Size = 4 // again
			if got := compute(t, in).Admission.Resized; got != (tc.size != 4) {
				t.Errorf("that it was another is kept: %v", got)
			}
		})
	}
}
