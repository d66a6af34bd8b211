// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// The status is all that is remembered of the usage from one decision to the next.
func TestUsageIsRecorded(t *testing.T) {
	mc := wanted4().Defaulted()
	now := fixture.Noon
	decide := func(after time.Duration, step life.Step) {
		t.Helper()
		o, err := state.Observe(state.View{MiniCluster: mc, Node: func(string) *corev1.Node { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(after)
		mc.Status = compute(t, Input{MiniCluster: mc, Observation: o, Now: now, Plan: life.Plan{Step: step, State: life.StateRunning}})
	}
	decide(0, life.Admit{Attempt: 1, Nodes: []string{"a", "b"}})
	if a := mc.Status.Admission; a.Usage != nil || mc.Status.Usage != nil {
		t.Errorf("it has used %+v, %+v before it could", a.Usage, mc.Status.Usage)
	}
	decide(10*time.Second, life.GiveUp{})
	decide(time.Hour, life.Admit{Attempt: 2, Nodes: []string{"a", "b", "c"}})
	decide(1900*time.Millisecond, life.Start{Quorum: 3})
	if u := mc.Status.Admission.Usage; u == nil || u.NodeSeconds != 3 || u.StartingNodeSeconds != 3 || *mc.Status.Usage != (v1alpha2.Usage{LostNodeSeconds: 20}) {
		t.Errorf("after its start it has used %+v, and before %+v", u, mc.Status.Usage)
	}
	decide(1200*time.Millisecond, life.Finish{Outcome: life.OutcomeSucceeded})
	decide(time.Hour, life.Wait{})
	if want := (v1alpha2.Usage{UsefulNodeSeconds: 6, LostNodeSeconds: 23}); mc.Status.Usage == nil || *mc.Status.Usage != want {
		t.Errorf("it has used %+v, want %+v", mc.Status.Usage, want)
	}
	if a := mc.Status.Attempts; len(a) != 1 || a[0].NodeSeconds != 20 {
		t.Errorf("its attempts are %+v", a)
	}

	for name, tc := range map[string]struct {
		after time.Time
		want  v1alpha2.Usage
	}{
		"all":                       {time.Time{}, v1alpha2.Usage{UsefulNodeSeconds: 6, LostNodeSeconds: 23}},
		"the attempt that succeeds": {fixture.Noon.Add(time.Minute), v1alpha2.Usage{UsefulNodeSeconds: 6, LostNodeSeconds: 3}},
		"nothing":                   {now, v1alpha2.Usage{}},
	} {
		if got := state.SpentAfter(mc, tc.after); got.Usage != tc.want || tc.want != (v1alpha2.Usage{}) && !got.Until.Equal(mc.Status.CompletionTime.Time) {
			t.Errorf("%s: it spent %+v, want %+v", name, got, tc.want)
		}
	}
}
