// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// wanted4 is a MiniCluster of four brokers and 32 tasks that starts with two.
func wanted4() *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("lmp").Size(4).MinSize(2).Tasks(32)
}

// policy is the part of wanted4's policy that a status is made from.
var policy = life.Policy{
	RecreateLimit: 2,
	Sizing:        elastic.Sizing{Min: 2, Size: 4, Operator: elastic.Add, Operand: 1, Tasks: elastic.Tasks{AtSize: 32}, SlotsPerNode: 8},
}

func upBrokers(n int) []life.Broker {
	return slices.Repeat([]life.Broker{{State: life.Up}}, n)
}

// compute is Compute with what is written in the status as the record that was observed.
func compute(t *testing.T, in Input) v1alpha2.MiniClusterStatus {
	t.Helper()
	o, err := state.Observe(state.View{MiniCluster: in.MiniCluster, Node: func(string) *corev1.Node { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	in.Observation.Record = o.Record
	return Compute(in)
}

// conditions are a line for each, in the order of a life.
func conditions(s *v1alpha2.MiniClusterStatus) string {
	var out strings.Builder
	for _, kind := range []string{
		v1alpha2.ConditionAccepted, v1alpha2.ConditionAdmitted, v1alpha2.ConditionQuorumReached, v1alpha2.ConditionFinished, v1alpha2.ConditionReady,
	} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
			fmt.Fprintf(&out, "%s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return out.String()
}

func TestCompute(t *testing.T) {
	cases := map[string]struct {
		mc     *fixture.MiniClusterWrapper
		o      life.Observation
		plan   life.Plan
		check  Check
		want   string
		counts string // size, tasks, nodes
		events string
	}{
		"a spec that is refused": {
			mc: wanted4(), plan: life.Plan{Step: life.Wait{}, State: life.StateRejected, Message: "no such class"},
			check: Check{v1alpha2.ReasonPodRejected, "no such class"},
			want: `Accepted False PodRejected: no such class
Admitted False Rejected: no such class
QuorumReached False NotAdmitted: It has no nodes
Finished False Unfinished: It is not done
JobMiniClusterReady False Rejected: no such class
`,
			counts: "0 brokers, 0 tasks, 0 nodes", events: "Warning PodRejected: no such class",
		},
		"one that waits": {
			mc: wanted4(), o: life.Observation{Offer: elastic.Offer{Verdict: elastic.NoRoom, Message: "1 free"}},
			plan: life.Plan{Step: life.Wait{}, State: life.StateQueued, Message: "1 free"}, check: Check{Reason: v1alpha2.ReasonValid},
			want: `Accepted True Valid: The spec can be carried out
Admitted False NoRoom: 1 free
QuorumReached False NotAdmitted: It has no nodes
Finished False Unfinished: It is not done
JobMiniClusterReady False Queued: 1 free
`,
			counts: "0 brokers, 0 tasks, 0 nodes", events: "Normal NoRoom: 1 free",
		},
		"one that would never fit": {
			mc: wanted4(), o: life.Observation{Offer: elastic.Offer{Verdict: elastic.NeverFits, Message: "too large"}},
			plan: life.Plan{Step: life.Wait{}, State: life.StateQueued, Message: "too large"}, check: Check{Reason: v1alpha2.ReasonValid},
			want: `Accepted True Valid: The spec can be carried out
Admitted False NeverFits: Too large
QuorumReached False NotAdmitted: It has no nodes
Finished False Unfinished: It is not done
JobMiniClusterReady False Queued: Too large
`,
			counts: "0 brokers, 0 tasks, 0 nodes", events: "Warning NeverFits: Too large",
		},
		"one that takes an offer": {
			mc: wanted4(), o: life.Observation{},
			plan: life.Plan{Step: life.Admit{Attempt: 1, Nodes: []string{"n1", "n2", "n3"}}, State: life.StateStarting, Message: "makes its pods"}, check: Check{Reason: v1alpha2.ReasonValid},
			want: `Accepted True Valid: The spec can be carried out
Admitted True Admitted: Holds nodes for 3 of 4 brokers
QuorumReached False WaitingForBrokers: 0 of 3 brokers up
Finished False Unfinished: It is not done
JobMiniClusterReady False Starting: Makes its pods
`,
			counts: "0 brokers, 24 tasks, 3 nodes", events: "Normal Admitted: Placed 3 of 4 brokers on n[1-3]",
		},
		"one that starts": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{Brokers: upBrokers(3), Occupied: 3},
			plan: life.Plan{Step: life.Start{Quorum: 3}, State: life.StateRunning, Message: "3 of 3 brokers up"},
			want: `Admitted True Admitted: Holds nodes for 3 of 4 brokers
QuorumReached True QuorumReached: 3 of 4 brokers, tasks 24 of 32
Finished False Unfinished: It is not done
JobMiniClusterReady True Running: 3 of 3 brokers up
`,
			counts: "3 brokers, 24 tasks, 3 nodes", events: "Normal Started: Started with 3 of 4 brokers, tasks 24 of 32",
		},
		"a launcher that starts": {
			mc: wanted4().CPU("8").Launcher().Admitted(1, 4, "n[1-4]"), o: life.Observation{Brokers: upBrokers(4), Occupied: 4},
			plan: life.Plan{Step: life.Start{Quorum: 4}, State: life.StateRunning, Message: "4 of 4 brokers up"},
			want: `Admitted True Admitted: Holds nodes for 4 of 4 brokers
QuorumReached True QuorumReached: 4 of 4 brokers, tasks 32 of 32
Finished False Unfinished: It is not done
JobMiniClusterReady True Running: 4 of 4 brokers up
`,
			counts: "4 brokers, 32 tasks, 4 nodes", events: "Normal Started: Started with 4 of 4 brokers, tasks 32 of 32; cores that Flux has on each: 8",
		},
		"one whose followers ended with the instance, before the lead's pod": {
			mc: wanted4().Admitted(1, 3, "n[1-3]").Status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime = &metav1.Time{Time: fixture.Noon} }),
			o: life.Observation{
				Brokers: []life.Broker{{State: life.Up}, {State: life.Succeeded}, {State: life.Succeeded, Lingers: true}}, Occupied: 3,
			},
			plan: life.Plan{Step: life.Wait{}, State: life.StateRunning, Message: "3 of 3 brokers up"},
			want: `Admitted True Admitted: Holds nodes for 3 of 4 brokers
QuorumReached True QuorumReached: 3 of 4 brokers, tasks 24 of 32
Finished False Unfinished: It is not done
JobMiniClusterReady True Running: 3 of 3 brokers up
`,
			counts: "3 brokers, 24 tasks, 3 nodes",
		},
		"one that starts with fewer than were placed": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{Brokers: upBrokers(2), Occupied: 3},
			plan: life.Plan{Step: life.LowerQuorum{Quorum: 2}, State: life.StateStarting, Message: "starts with 2 brokers"},
			want: `Admitted True Admitted: Holds nodes for 3 of 4 brokers
QuorumReached False WaitingForBrokers: 2 of 2 brokers up
Finished False Unfinished: It is not done
JobMiniClusterReady False Starting: Starts with 2 brokers
`,
			counts: "2 brokers, 16 tasks, 3 nodes", events: "Warning QuorumLowered: Lowered the quorum: starts with 2 brokers",
		},
		"one that gives up": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{Brokers: upBrokers(1), Occupied: 3},
			plan: life.Plan{Step: life.GiveUp{NotBefore: fixture.Noon}, State: life.StateReleasing, Message: "too few"},
			want: `Admitted False Released: Too few
QuorumReached False NotAdmitted: It has no nodes
Finished False Unfinished: It is not done
JobMiniClusterReady False Releasing: Too few
`,
			counts: "1 brokers, 0 tasks, 3 nodes", events: "Warning GaveUp: Gave up attempt 1 of 3: too few",
		},
		"one that is suspended while it runs": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{Brokers: upBrokers(3), Occupied: 3},
			plan: life.Plan{Step: life.Withdraw{}, State: life.StateSuspended, Message: "it is suspended"},
			want: `Admitted False Suspended: It is suspended
QuorumReached False NotAdmitted: It has no nodes
Finished False Unfinished: It is not done
JobMiniClusterReady False Suspended: It is suspended
`,
			counts: "3 brokers, 0 tasks, 3 nodes", events: "Normal Released: Gave back nodes for 3 brokers: it is suspended",
		},
		"one that succeeds": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{Brokers: upBrokers(2), Occupied: 2},
			plan: life.Plan{Step: life.Finish{Outcome: life.OutcomeSucceeded, ExitCode: new(int)}, State: life.StateSucceeded},
			want: `Admitted False Finished: It is done
Finished True Succeeded: The command ended with exit code 0
JobMiniClusterReady True Succeeded: The command ended with exit code 0; 2 pods are still ending
`,
			counts: "0 brokers, 0 tasks, 2 nodes", events: "Normal Succeeded: The command ended with exit code 0",
		},
		"one that fails": {
			mc: wanted4().Admitted(1, 3, "n[1-3]"), o: life.Observation{},
			plan: life.Plan{Step: life.Finish{Outcome: life.OutcomeCommandFailed, ExitCode: new(3)}, State: life.StateFailed, Message: "the command failed with exit code 3"},
			want: `Admitted False Finished: It is done
Finished True CommandFailed: The command failed with exit code 3
JobMiniClusterReady False Failed: The command failed with exit code 3
`,
			counts: "0 brokers, 0 tasks, 0 nodes", events: "Warning CommandFailed: The command failed with exit code 3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.Policy.Sizing, tc.o.Policy.RecreateLimit, tc.o.Policy.Malleable = policy.Sizing, policy.RecreateLimit, tc.mc.Obj().Spec.Containers[0].Launcher
			tc.o.Policy.Suspend = tc.plan.State == life.StateSuspended
			occupied := map[string]bool{}
			for i := range tc.o.Occupied {
				occupied[fmt.Sprint("n", i+1)] = true
			}
			in := Input{
				MiniCluster: tc.mc.Defaulted(), Observation: &tc.o, Plan: tc.plan, Check: tc.check, OccupiedNodes: occupied,
				Now: fixture.Noon.Add(time.Second),
			}
			got := compute(t, in)
			if text := conditions(&got); text != tc.want {
				t.Errorf("got\n%swant\n%s", text, tc.want)
			}
			if running := meta.IsStatusConditionTrue(got.Conditions, v1alpha2.ConditionRunning); running != (tc.plan.State == life.StateRunning) {
				t.Errorf("in state %s it runs: %t", tc.plan.State, running)
			}
			if text := fmt.Sprintf("%d brokers, %d tasks, %d nodes", got.Size, got.Tasks, got.Nodes); text != tc.counts {
				t.Errorf("got %s, want %s", text, tc.counts)
			}
			events := toldOf(in, &got)
			if text := strings.Join(events, "\n"); text != tc.events {
				t.Errorf("got events %q, want %q", text, tc.events)
			}
			in.MiniCluster.Status = got
			in.Plan.Step = life.Wait{}
			if events := Events(in, &got); len(events) > 0 {
				t.Errorf("said again without a change: %v", events)
			}
		})
	}
}

// toldOf is what people are told of a change.
func toldOf(in Input, s *v1alpha2.MiniClusterStatus) []string {
	var told []string
	for _, e := range Events(in, s) {
		told = append(told, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
	}
	if d := s.LastDecision; d != nil && d.Time.Time.Equal(in.Now) {
		told = append(told, fmt.Sprintf("%s %s: %s", d.Type, d.Reason, d.Message))
	}
	return told
}

// Who changes the spec of a MiniCluster that has finished is told once that this has no effect, and the status says so.
func TestEditedAfterTheEnd(t *testing.T) {
	in := Input{
		MiniCluster: wanted4().Admitted(1, 4, "n[1-4]").Defaulted(), Now: fixture.Noon,
		Observation: &life.Observation{Policy: policy, Record: life.Record{Admission: &life.Admission{Attempt: 1, Quorum: 4, Nodes: []string{"n1", "n2", "n3", "n4"}}}},
		Plan:        life.Plan{Step: life.Finish{Outcome: life.OutcomeSucceeded}, State: life.StateSucceeded},
	}
	in.MiniCluster.Generation = 1
	look := func() (message string, told []string) {
		got := compute(t, in)
		told = toldOf(in, &got)
		in.MiniCluster.Status, in.Now = got, in.Now.Add(time.Second)
		in.Observation.Outcome, in.Plan.Step = life.OutcomeSucceeded, life.Wait{}
		return meta.FindStatusCondition(got.Conditions, v1alpha2.ConditionReady).Message, told
	}
	ended, _ := look()
	in.MiniCluster.Generation = 2
	edited, told := look()
	if edited != ended+"; "+Ignored || len(told) != 1 || !strings.HasPrefix(told[0], "Warning SpecIgnored: It has finished") {
		t.Errorf("the status says %q, and people are told %q", edited, told)
	}
	if again, told := look(); again != edited || len(told) > 0 {
		t.Errorf("then the status says %q, and people are told %q", again, told)
	}
}

// A MiniCluster that was suspended waits since it was resumed.
func TestResumed(t *testing.T) {
	in := Input{MiniCluster: wanted4().Created(fixture.Noon).Defaulted(), Observation: &life.Observation{Policy: policy}}
	for i, tc := range []struct {
		state life.State
		want  time.Duration
	}{{life.StateQueued, 0}, {life.StateSuspended, 0}, {life.StateSuspended, 0}, {life.StateQueued, 3 * time.Hour}, {life.StateQueued, 3 * time.Hour}} {
		in.Plan, in.Now = life.Plan{Step: life.Wait{}, State: tc.state}, fixture.Noon.Add(time.Duration(i)*time.Hour)
		in.MiniCluster.Spec.Suspend = tc.state == life.StateSuspended
		state.Resume(in.MiniCluster, in.Now)
		in.MiniCluster.Status = compute(t, in)
		if got := state.QueuedSince(in.MiniCluster).Sub(fixture.Noon); got != tc.want {
			t.Errorf("after %d hours it waits since %s, want %s", i, got, tc.want)
		}
	}
}

// It remembers since when it was blocked until it has nodes.
func TestBlockedSince(t *testing.T) {
	in := Input{MiniCluster: wanted4().Defaulted(), Observation: &life.Observation{Policy: policy}, Now: fixture.Noon.Add(time.Hour)}
	for _, tc := range []struct {
		blocked time.Time
		plan    life.Plan
		want    time.Time
	}{
		{time.Time{}, life.Plan{Step: life.Wait{}, State: life.StateQueued}, time.Time{}},
		{fixture.Noon, life.Plan{Step: life.Wait{}, State: life.StateQueued}, fixture.Noon},
		{time.Time{}, life.Plan{Step: life.Wait{}, State: life.StateQueued}, fixture.Noon}, // no cycle has run
		{fixture.Noon, life.Plan{Step: life.Admit{Attempt: 1, Nodes: []string{"a", "b", "c"}}, State: life.StateStarting}, time.Time{}},
	} {
		in.Observation.Offer.Blocked, in.Plan = tc.blocked, tc.plan
		s := compute(t, in)
		if got := s.BlockedSince; got == nil != tc.want.IsZero() || got != nil && !got.Time.Equal(tc.want) {
			t.Errorf("%+v: blocked since %s, want %s", tc.plan, got, tc.want)
		}
		in.MiniCluster.Status = s
	}
}

// A node that holds several brokers is one node.
func TestNodesAreCountedOnce(t *testing.T) {
	o := life.Observation{Occupied: 2, Policy: policy}
	in := Input{
		MiniCluster: wanted4().Admitted(1, 3, "n1,n1,n2").Defaulted(), Observation: &o, OccupiedNodes: map[string]bool{"n1": true},
		Plan: life.Plan{Step: life.Wait{}, State: life.StateStarting}, Now: fixture.Noon,
	}
	if got := compute(t, in); got.Nodes != 2 {
		t.Errorf("%d nodes are held, want 2", got.Nodes)
	}
}

// What is said fits an event, whole characters alone.
func TestShorten(t *testing.T) {
	for text, want := range map[string]int{"short": 5, strings.Repeat("x", 1024): 1024, strings.Repeat("x", 1025): 1024, strings.Repeat("ü", 600): 1023} {
		got := shorten(text)
		if len(got) != want || !utf8.ValidString(got) || (len(text) > 1024) != strings.HasSuffix(got, "...") {
			t.Errorf("%d bytes became %d: %q", len(text), len(got), got)
		}
	}
}

// A decision is written down with all that the next pass needs.
func TestComputeDecisions(t *testing.T) {
	now := fixture.Noon.Add(time.Minute)
	decide := func(mc *fixture.MiniClusterWrapper, o life.Observation, plan life.Plan) v1alpha2.MiniClusterStatus {
		o.Policy.Sizing, o.Policy.RecreateLimit = policy.Sizing, policy.RecreateLimit
		return compute(t, Input{MiniCluster: mc.Defaulted(), Observation: &o, Plan: plan, Now: now})
	}
	admitted := decide(wanted4().Status(func(s *v1alpha2.MiniClusterStatus) { s.RequeueState = &v1alpha2.RequeueState{Count: 2} }), life.Observation{}, life.Plan{Step: life.Admit{Attempt: 3, Nodes: []string{"b", "a"}}, State: life.StateStarting})
	if a := admitted.Admission; a == nil || a.Attempt != 3 || a.Size != 2 || a.Quorum != 2 || a.Nodes != "b,a" || !a.Time.Time.Equal(now) {
		t.Errorf("admission %+v", a)
	}
	alone := wanted4().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.Exclusive = true })
	exclusive := decide(alone, life.Observation{}, life.Plan{Step: life.Admit{Attempt: 1, Nodes: []string{"a", "b"}}, State: life.StateStarting})
	if !exclusive.Admission.Exclusive || admitted.Admission.Exclusive {
		t.Error("the admission does not say which nodes are whole")
	}
	started := decide(wanted4().Admitted(1, 2, "a,b"), life.Observation{Brokers: upBrokers(2)}, life.Plan{Step: life.Start{}, State: life.StateRunning})
	if started.StartTime == nil || !started.StartTime.Time.Equal(now) {
		t.Errorf("start time %v", started.StartTime)
	}
	gaveUp := decide(wanted4().Admitted(2, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) { s.RequeueState = &v1alpha2.RequeueState{Count: 1} }), life.Observation{}, life.Plan{Step: life.GiveUp{NotBefore: now.Add(time.Hour)}, State: life.StateReleasing})
	if r := gaveUp.RequeueState; gaveUp.Admission != nil || r == nil || r.Count != 2 || !r.RequeueAt.Time.Equal(now.Add(time.Hour)) {
		t.Errorf("requeue state %+v, admission %v", r, gaveUp.Admission)
	}
	finished := decide(wanted4().Admitted(1, 2, "a,b"), life.Observation{}, life.Plan{Step: life.Finish{Outcome: life.OutcomeCommandFailed, ExitCode: new(3)}, State: life.StateFailed})
	if finished.ExitCode == nil || *finished.ExitCode != 3 || finished.CompletionTime == nil || finished.Admission == nil {
		t.Errorf("exit code %v, completion time %v, admission %v", finished.ExitCode, finished.CompletionTime, finished.Admission)
	}
}

// A MiniCluster that was ready stays so to its end, but not if it has to wait for nodes again.
func TestReadyStays(t *testing.T) {
	started := metav1.NewTime(fixture.Noon)
	for name, tc := range map[string]struct {
		plan life.Plan
		want bool
	}{
		"it runs":              {life.Plan{Step: life.Wait{}, State: life.StateRunning}, true},
		"its command succeeds": {life.Plan{Step: life.Finish{Outcome: life.OutcomeSucceeded}, State: life.StateSucceeded}, true},
		"its command fails":    {life.Plan{Step: life.Finish{Outcome: life.OutcomeCommandFailed}, State: life.StateFailed}, true},
		"it begins again":      {life.Plan{Step: life.GiveUp{}, State: life.StateReleasing}, false},
		"its nodes are taken":  {life.Plan{Step: life.Evict{}, State: life.StateReleasing}, false},
		"the user suspends it": {life.Plan{Step: life.Withdraw{}, State: life.StateSuspended}, false},
	} {
		t.Run(name, func(t *testing.T) {
			mc := wanted4().Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime = &started }).
				Condition(v1alpha2.ConditionReady, metav1.ConditionTrue, v1alpha2.StateRunning)
			o := life.Observation{Policy: policy}
			got := compute(t, Input{MiniCluster: mc.Defaulted(), Observation: &o, Plan: tc.plan, Now: fixture.Noon})
			if ready := meta.IsStatusConditionTrue(got.Conditions, v1alpha2.ConditionReady); ready != tc.want {
				t.Errorf("ready: %t", ready)
			}
		})
	}
}

// The end that was written down stays as it was written, but for the pods that are
// still ending.
func TestComputeAfterTheEnd(t *testing.T) {
	mc := wanted4().Admitted(1, 3, "n[1-3]").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonCommandFailed).
		Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Tasks, s.Conditions[0].Message, s.Conditions[0].ObservedGeneration = 24, "exit code 3", 1
		})
	o := life.Observation{}
	got := compute(t, Input{MiniCluster: mc.Defaulted(), Observation: &o, Plan: life.Plan{Step: life.Wait{}, State: life.StateFailed}, Now: fixture.Noon})
	want := `Admitted False Finished: It is done
Finished True CommandFailed: exit code 3
JobMiniClusterReady False Failed: exit code 3
`
	if text := conditions(&got); text != want || got.Tasks != 24 || got.Nodes != 0 {
		t.Errorf("got %d tasks, %d nodes,\n%s", got.Tasks, got.Nodes, text)
	}
}

// The cores' words and the API's are the same.
func TestWords(t *testing.T) {
	for _, word := range [][2]string{
		{string(life.StateRejected), v1alpha2.StateRejected},
		{string(life.StateSuspended), v1alpha2.StateSuspended},
		{string(life.StateQueued), v1alpha2.StateQueued},
		{string(life.StateStarting), v1alpha2.StateStarting},
		{string(life.StateRunning), v1alpha2.StateRunning},
		{string(life.StateReleasing), v1alpha2.StateReleasing},
		{string(life.StateBackingOff), v1alpha2.StateBackingOff},
		{string(life.StateSucceeded), v1alpha2.StateSucceeded},
		{string(life.StateFailed), v1alpha2.StateFailed},
		{string(life.OutcomeSucceeded), v1alpha2.ReasonSucceeded},
		{string(life.OutcomeCommandFailed), v1alpha2.ReasonCommandFailed},
		{string(life.OutcomeLeadLost), v1alpha2.ReasonLeadLost},
		{string(life.OutcomeWorkersFailed), v1alpha2.ReasonWorkersFailed},
		{string(life.OutcomeBrokersLost), v1alpha2.ReasonBrokersLost},
		{string(life.OutcomeDeadlineExceeded), v1alpha2.ReasonDeadlineExceeded},
		{string(life.OutcomeStartLimit), v1alpha2.ReasonStartLimit},
		{string(elastic.Add), "+"},
		{string(elastic.Multiply), "*"},
		{string(elastic.Power), "^"},
		{string(elastic.AnyNumber), string(v1alpha2.TasksAny)},
		{string(elastic.PowerOfTwo), string(v1alpha2.TasksPowerOfTwo)},
		{string(elastic.Cube), string(v1alpha2.TasksCube)},
		{string(elastic.MultipleOf), string(v1alpha2.TasksMultipleOf)},
	} {
		if word[0] != word[1] {
			t.Errorf("%q is %q in the API", word[0], word[1])
		}
	}
}

// Every decision is told but who the lead is, and nothing else is.
func TestEveryDecisionIsTold(t *testing.T) {
	mc := wanted4().Admitted(1, 4, "n[1-4]")
	for _, properties := range life.Steps {
		step := properties.Step
		switch s := step.(type) {
		case life.Finish:
			s.Outcome = life.OutcomeSucceeded
			step = s
		case life.Evict:
			s.Reason = v1alpha2.ReasonPreempted
			step = s
		}
		in := Input{MiniCluster: mc.Defaulted(), Observation: &life.Observation{Policy: policy}, Now: fixture.Noon, Plan: life.Plan{Step: step, Message: "why"}}
		if _, begins := step.(life.Admit); begins {
			in.MiniCluster.Status.Admission = nil
		}
		if _, again := step.(life.Restarted); again {
			in.MiniCluster.Status.Admission.Restart = &v1alpha2.Restart{Time: metav1.NewTime(fixture.Noon)}
		}
		s := compute(t, in)
		_, quiet := step.(life.Appoint)
		if _, decides := step.(life.Decision); decides && !quiet {
			if s.LastDecision == nil || s.LastDecision.Message == "" || s.LastDecision.Reason != life.PropertiesOf(step).Event {
				t.Errorf("of %s people are told %+v", life.Name(step), s.LastDecision)
			}
		} else if s.LastDecision != nil {
			t.Errorf("of %s people are told %+v", life.Name(step), s.LastDecision)
		}
	}
}

// A status lists the decisions before its last one whose events are not known to be written.
func TestPendingEvents(t *testing.T) {
	decision := func(second int) v1alpha2.Decision {
		// The clock was set back after each of them.
		return v1alpha2.Decision{Number: int64(second + 1), Time: metav1.NewMicroTime(fixture.Noon.Add(-time.Duration(second) * time.Second)), Reason: "Decided"}
	}
	many := make([]v1alpha2.Decision, 20)
	for i := range many {
		many[i] = decision(i)
	}
	last := decision(19)
	for name, tc := range map[string]struct {
		last         *v1alpha2.Decision
		step         life.Step
		untold, want []v1alpha2.Decision
	}{
		"all are told":                {last: &last, step: life.Wait{}},
		"the last one":                {last: &last, step: life.Wait{}, untold: many[19:]},
		"those before the last one":   {last: &last, step: life.Wait{}, untold: many[17:], want: many[17:19]},
		"the last one before another": {last: &last, step: life.Start{}, untold: many[19:], want: many[19:]},
		"the latest of too many":      {last: &last, step: life.Start{}, untold: many, want: many[4:]},
		"a stale status":              {step: life.Wait{}, untold: many[19:]},
	} {
		mc := wanted4().Admitted(1, 4, "n[1-4]").Defaulted()
		mc.Status.LastDecision, mc.Status.PendingEvents = tc.last, many[:1]
		in := Input{
			MiniCluster: mc, Observation: &life.Observation{Policy: policy}, Now: fixture.Noon.Add(time.Minute),
			Plan: life.Plan{Step: tc.step, Message: "why"}, Untold: tc.untold,
		}
		got := compute(t, in)
		if !reflect.DeepEqual(got.PendingEvents, tc.want) {
			t.Errorf("%s: %v", name, got.PendingEvents)
		}
		if _, decides := tc.step.(life.Start); decides && got.LastDecision.Number != tc.last.Number+1 {
			t.Errorf("%s: decision %d follows on decision %d", name, got.LastDecision.Number, tc.last.Number)
		}
	}
}
