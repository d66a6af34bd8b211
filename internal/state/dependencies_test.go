// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// waiting is a MiniCluster that waits for others: names, or names and conditions as in prepare=Failed.
func waiting(name string, after ...string) *v1alpha2.MiniCluster {
	return fixture.MiniCluster(name).Spec(func(s *v1alpha2.MiniClusterSpec) {
		for _, text := range after {
			on, condition, _ := strings.Cut(text, "=")
			if condition == "" {
				condition = string(v1alpha2.DependencySucceeded)
			}
			s.After = append(s.After, v1alpha2.Dependency{Name: on, Condition: v1alpha2.DependencyCondition(condition)})
		}
	}).Obj()
}

// finished is MiniCluster prepare once it has finished.
func finished(reason string) *v1alpha2.MiniCluster {
	return fixture.MiniCluster("prepare").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, reason).Obj()
}

func TestHeld(t *testing.T) {
	started := fixture.MiniCluster("prepare").Status(func(s *v1alpha2.MiniClusterStatus) { s.Runs = 1 }).Obj()
	for name, tc := range map[string]struct {
		mc      *v1alpha2.MiniCluster
		others  []*v1alpha2.MiniCluster
		met     int
		verdict elastic.Verdict
		message string
	}{
		"no dependency":           {mc: waiting("a")},
		"one that does not exist": {mc: waiting("a", "prepare"), verdict: elastic.Dependency, message: "waits for MiniCluster prepare, which does not exist"},
		"one that waits": {
			mc: waiting("a", "prepare"), others: []*v1alpha2.MiniCluster{waiting("prepare")}, verdict: elastic.Dependency, message: "waits until MiniCluster prepare has succeeded",
		},
		"one that runs":          {mc: waiting("a", "prepare"), others: []*v1alpha2.MiniCluster{started}, verdict: elastic.Dependency, message: "waits until MiniCluster prepare has succeeded"},
		"one that has to run":    {mc: waiting("a", "prepare=Started"), others: []*v1alpha2.MiniCluster{started}, met: 1},
		"one that has succeeded": {mc: waiting("a", "prepare"), others: []*v1alpha2.MiniCluster{finished("Succeeded")}, met: 1},
		"one that has to finish": {mc: waiting("a", "prepare=Finished"), others: []*v1alpha2.MiniCluster{finished("LeadLost")}, met: 1},
		"one that has to fail":   {mc: waiting("a", "prepare=Failed"), others: []*v1alpha2.MiniCluster{finished("LeadLost")}, met: 1},
		"one that can succeed no more": {
			mc: waiting("a", "prepare"), others: []*v1alpha2.MiniCluster{finished("CommandFailed")}, verdict: elastic.Dependency,
			message: "never starts: MiniCluster prepare has finished (CommandFailed), and has not succeeded; change spec.after, or delete this MiniCluster",
		},
		"one that never started": {
			mc: waiting("a", "prepare=Started"), others: []*v1alpha2.MiniCluster{finished("StartLimitExceeded")}, verdict: elastic.Dependency,
			message: "never starts: MiniCluster prepare has finished (StartLimitExceeded), and has not started; change spec.after, or delete this MiniCluster",
		},
		"the second of two": {
			mc: waiting("a", "prepare", "check"), others: []*v1alpha2.MiniCluster{finished("Succeeded"), waiting("check")}, met: 1,
			verdict: elastic.Dependency, message: "waits until MiniCluster check has succeeded",
		},
		"itself": {
			mc: waiting("a", "a"), others: []*v1alpha2.MiniCluster{waiting("a", "a")}, verdict: elastic.Dependency,
			message: "never starts: MiniClusters wait for each other (a for a); change spec.after of one of them",
		},
		"a circle": {
			mc: waiting("a", "b"), others: []*v1alpha2.MiniCluster{waiting("b", "x", "c"), waiting("c", "a")}, verdict: elastic.Dependency,
			message: "never starts: MiniClusters wait for each other (a for b for c for a); change spec.after of one of them",
		},
		"others in a circle": {
			mc: waiting("a", "b"), others: []*v1alpha2.MiniCluster{waiting("b", "c"), waiting("c", "b")}, verdict: elastic.Dependency, message: "waits until MiniCluster b has succeeded",
		},
	} {
		named := func(name string) *v1alpha2.MiniCluster {
			if i := slices.IndexFunc(tc.others, func(mc *v1alpha2.MiniCluster) bool { return mc.Name == name }); i >= 0 {
				return tc.others[i]
			}
			return nil
		}
		met := Met(tc.mc, named)
		if len(met) != tc.met {
			t.Errorf("%s: met are %v", name, met)
		}
		if held := Held(tc.mc, named, fixture.Noon).Verdict; held != elastic.Dependency && len(tc.mc.Spec.After) > 0 {
			t.Errorf("%s: not held before anything is recorded", name)
		}
		tc.mc.Status.MetDependencies = met
		got := Held(tc.mc, named, fixture.Noon)
		if got.Verdict != tc.verdict || got.Message != tc.message {
			t.Errorf("%s: %+v, want %s: %s", name, got, tc.verdict, tc.message)
		}
		tc.others = nil
		if again := Met(tc.mc, named); !slices.Equal(met, again) {
			t.Errorf("%s: met are %v once the others are gone, and were %v", name, again, met)
		}
		if left := len(tc.mc.Spec.After) - len(met); (Held(tc.mc, named, fixture.Noon).Verdict != "") != (left > 0) {
			t.Errorf("%s: once the others are gone, %d are left", name, left)
		}
	}
}

func TestHeldUntil(t *testing.T) {
	mc := waiting("a")
	mc.Spec.NotBefore = &metav1.Time{Time: fixture.Noon.Add(time.Hour)}
	none := func(string) *v1alpha2.MiniCluster { return nil }
	if got := Held(mc, none, fixture.Noon.Add(time.Hour-1)); got != elastic.Refuse(elastic.Later, "waits until 2026-11-21T13:00:00Z (notBefore)") {
		t.Errorf("before: %+v", got)
	}
	if got := Held(mc, none, fixture.Noon.Add(time.Hour)); got.Verdict != "" {
		t.Errorf("then: %+v", got)
	}
}

// A MiniCluster that has finished is awaited until the MiniClusters that wait for it have recorded that.
func TestAwaits(t *testing.T) {
	recorded := waiting("a", "prepare")
	recorded.Status.MetDependencies = recorded.Spec.After
	running := waiting("a", "prepare")
	running.Status.Admission = &v1alpha2.Admission{}
	for name, tc := range map[string]struct {
		mc, on *v1alpha2.MiniCluster
		want   bool
	}{
		"not recorded":            {waiting("a", "prepare"), finished("Succeeded"), true},
		"recorded":                {recorded, finished("Succeeded"), false},
		"not as it was to be":     {waiting("a", "prepare"), finished("CommandFailed"), false},
		"for another MiniCluster": {waiting("a", "check"), finished("Succeeded"), false},
		"for nothing":             {running, finished("Succeeded"), false},
	} {
		if got := Awaits(tc.mc, tc.on); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// However many MiniClusters wait for each other, few are looked up for a circle, and few are named.
func TestCircles(t *testing.T) {
	name := func(i int) string { return fmt.Sprint("m", i) }
	all := map[string]*v1alpha2.MiniCluster{}
	for i := range 2000 {
		var after []string
		for j := range 64 {
			after = append(after, name((i+1+j*j)%2000))
		}
		all[name(i)] = waiting(name(i), append(after[:63], "missing")...)
	}
	looked := map[string]int{}
	named := func(name string) *v1alpha2.MiniCluster {
		looked[name]++
		return all[name]
	}
	Held(all[name(7)], named, fixture.Noon)
	if n := len(looked); n > 2*mostInCircle+64 || looked["missing"] > 2 {
		t.Errorf("%d names were looked up, and the missing one %d times", n, looked["missing"])
	}
	for i := range 50 {
		all[name(i)] = waiting(name(i), name((i+1)%50))
	}
	const want = "never starts: MiniClusters wait for each other (m0 for m1 for m2 for m3 for 43 others for m47 for m48 for m49 for m0); change spec.after of one of them"
	if got := Held(all[name(0)], named, fixture.Noon).Message; got != want {
		t.Errorf("got %s", got)
	}
}

// Who waits for a MiniCluster has a pass at once when that may end the wait.
func TestMayMeet(t *testing.T) {
	started := fixture.MiniCluster("prepare").Status(func(s *v1alpha2.MiniClusterStatus) { s.Runs = 1 }).Obj()
	held := fixture.MiniCluster("prepare").Condition(v1alpha2.ConditionAdmitted, metav1.ConditionFalse, v1alpha2.ReasonDependency).Obj()
	for name, tc := range map[string]struct {
		old, mc     *v1alpha2.MiniCluster
		meets, said bool
	}{
		"nothing":       {waiting("prepare"), waiting("prepare"), false, false},
		"it starts":     {waiting("prepare"), started, true, false},
		"it ends":       {started, finished("Succeeded"), true, false},
		"it waits":      {waiting("prepare", "x"), waiting("prepare", "y"), false, true},
		"it is told so": {waiting("prepare"), held, false, true},
	} {
		held.Status.Conditions[0].Message = "waits"
		if meets, said := MayMeet(tc.old, tc.mc), WaitsForOthers(tc.old, tc.mc); meets != tc.meets || said != tc.said {
			t.Errorf("%s: %t, %t", name, meets, said)
		}
	}
}

// A MiniCluster waits in its queue from the moment on in which it may: before, it did not hold out for its size.
func TestReleased(t *testing.T) {
	for reason, want := range map[string]bool{"Dependency": true, "Later": true, "NoRoom": false, "Singleton": false} {
		mc := fixture.MiniCluster("a").Condition(v1alpha2.ConditionAdmitted, metav1.ConditionFalse, reason).Obj()
		mc.CreationTimestamp = metav1.NewTime(fixture.Noon)
		then := fixture.Noon.Add(time.Hour)
		Released(mc, then)
		if got := QueuedSince(mc).Equal(then); got != want {
			t.Errorf("%s: since %s", reason, QueuedSince(mc))
		}
		mc.Status.RequeueState = &v1alpha2.RequeueState{Count: 1, RequeueAt: new(metav1.NewTime(fixture.Noon))} // after an attempt
		Released(mc, then)
		if got := QueuedSince(mc).Equal(then); got != want {
			t.Errorf("%s, after an attempt: since %s", reason, QueuedSince(mc))
		}
		pause := metav1.NewTime(then.Add(time.Minute))
		mc.Status.RequeueState.RequeueAt = &pause
		if Released(mc, then); !QueuedSince(mc).Equal(pause.Time) {
			t.Errorf("%s, in a pause: since %s", reason, QueuedSince(mc))
		}
	}
}
