// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

func TestGang(t *testing.T) {
	requeued := metav1.NewTime(fixture.Noon.Add(time.Hour))
	mc := fixture.MiniCluster("lmp").Size(4).MinSize(2).Queue("research").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.RequeueState = &v1alpha2.RequeueState{Count: 1, RequeueAt: &requeued}
	}).Defaulted()
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.Priority = new(int32(7)) }).Obj()
	got := Gang(mc, pod, nil)
	if got.ID != "uid-lmp" || got.Name != "default/lmp" || got.Queue != "research" || got.Priority != 7 {
		t.Errorf("got %+v", got)
	}
	// Its age stays, but it begins anew to wait for its size.
	if !got.Created.Equal(fixture.Noon) || !got.Since.Equal(requeued.Time) {
		t.Errorf("created %s, waits since %s", got.Created, got.Since)
	}
	if sizes := allSizes(got.Sizing); !slices.Equal(sizes, []int{2, 3, 4}) {
		t.Errorf("sizes %v", sizes)
	}
}

// With quota of Kueue it is queued at the time of the reservation, without a priority, and starts at no
// size above the quota.
func TestGangWithQuota(t *testing.T) {
	reserved := metav1.NewTime(fixture.Noon.Add(time.Hour))
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.Priority = new(int32(7)) }).Obj()
	for name, tc := range map[string]struct {
		quota int32
		most  int32 // after an attempt that failed; 0 for any size
		want  []int
	}{
		"for all":                     {64, 0, []int{8, 16, 32, 64}},
		"for some":                    {40, 0, []int{8, 16, 32}},
		"for the least":               {8, 0, []int{8}},
		"larger sizes did not start":  {40, 16, []int{8, 16}},
		"and there is quota for less": {9, 16, []int{8}},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(64).MinSize(8).Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
			}).Status(func(s *v1alpha2.MiniClusterStatus) { s.RequeueState = &v1alpha2.RequeueState{Count: 1, Size: tc.most} }).Defaulted()
			got := Gang(mc, pod, &v1alpha2.Quota{Size: tc.quota, Time: reserved})
			if sizes := allSizes(got.Sizing); !slices.Equal(sizes, tc.want) {
				t.Errorf("sizes %v", sizes)
			}
			if got.Priority != 0 || !got.Created.Equal(reserved.Time) {
				t.Errorf("priority %d, created %s", got.Priority, got.Created)
			}
		})
	}
}

// One that runs with quota has no priority. The scheduler limits its growth.
func TestRunningWithQuota(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(4).MinSize(1).MaxSize(8).Launcher().Grow().Admitted(1, 4, "n[1-4]").Vacated("3").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.StartTime, s.MaximumSize, s.Admission.Priority = new(metav1.NewTime(fixture.Noon)), 8, 7
	})
	running := func(quota *v1alpha2.Quota) queue.Running {
		obj := mc.Defaulted()
		obj.Status.Admission.Quota = quota
		promise, err := PromiseOf(obj)
		if err != nil {
			t.Fatal(err)
		}
		return Running(obj, fixture.Pod("x").Obj(), promise)
	}
	if got := running(nil); got.Max != 8 || got.Priority != 7 {
		t.Errorf("without quota: %d brokers at most, priority %d", got.Max, got.Priority)
	}
	if got := running(&v1alpha2.Quota{Size: 4}); got.Max != 8 || got.Priority != 0 {
		t.Errorf("with quota: %d brokers at most, priority %d", got.Max, got.Priority)
	}
}

// A fixed number of tasks does not start on fewer cores.
func TestSizingKnowsCores(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(4).MinSize(1).Tasks(20).CPU("8").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Tasks.Scaling = v1alpha2.TasksFixed
	})
	if sizes := allSizes(Sizing(&mc.Defaulted().Spec)); !slices.Equal(sizes, []int{3, 4}) {
		t.Errorf("sizes %v", sizes)
	}
	mc.Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Resources = v1alpha2.ResourcesLocal })
	if sizes := allSizes(Sizing(&mc.Defaulted().Spec)); !slices.Equal(sizes, []int{1, 2, 3, 4}) {
		t.Errorf("sizes %v, where the cores are not known", sizes)
	}
}

func TestPromiseOf(t *testing.T) {
	admitted := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[1-2]")
	promise, err := PromiseOf(admitted.Obj())
	if err != nil || !slices.Equal(promise.Nodes, []string{"n1", "n2"}) || promise.Requests[fluxion.CPU] != 8000 || promise.Requests[fluxion.Pods] != 1 {
		t.Errorf("got %+v, %v", promise, err)
	}
	vacated := admitted.Obj()
	vacated.Status.Admission.Vacated = "1"
	if promise, err := PromiseOf(vacated); err != nil || !slices.Equal(promise.Nodes, []string{"n1", ""}) {
		t.Errorf("with a rank that left it holds %+v (%v)", promise, err)
	}
	done := admitted.Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj()
	if promise, err := PromiseOf(done); promise != nil || err != nil {
		t.Errorf("one that is done holds %+v (%v)", promise, err)
	}
}

// A gang is confined if it has to be in one domain of the topology, or where Kueue counts it.
func TestConfined(t *testing.T) {
	plain := fixture.MiniCluster("lmp")
	required, preferred := fixture.MiniCluster("lmp").Topology("rack", v1alpha2.TopologyRequired), fixture.MiniCluster("lmp").Topology("rack", v1alpha2.TopologyPreferred)
	domains := &v1alpha2.Quota{Topology: &v1alpha2.QuotaTopology{Levels: []string{"rack"}}}
	for name, tc := range map[string]struct {
		mc    *fixture.MiniClusterWrapper
		quota *v1alpha2.Quota
		want  bool
	}{
		"anywhere":                {mc: plain},
		"near each other":         {mc: preferred},
		"in one rack":             {mc: required, want: true},
		"with quota":              {mc: plain, quota: &v1alpha2.Quota{}},
		"in the domains of Kueue": {mc: plain, quota: domains, want: true},
	} {
		if got := Gang(tc.mc.Defaulted(), fixture.Pod("p").Obj(), tc.quota); got.Confined != tc.want {
			t.Errorf("%s: confined is %t", name, got.Confined)
		}
	}
}

// Whether a MiniCluster has its nodes alone is a matter of its admission, and of its pods. The spec may
// have changed since.
func TestExclusiveIsOfTheAdmission(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[1-2]").Defaulted()
		mc.Spec.Placement.Exclusive, mc.Status.Admission.Exclusive, mc.Status.Admission.Requests = !exclusive, exclusive, nil
		promise, err := PromiseOf(mc)
		if err != nil || (promise.Requests[fluxion.WholeNode] > 0) != exclusive {
			t.Fatalf("promised are %v (%v), exclusive %t", promise, err, exclusive)
		}
		pod := fixture.BrokerPod("lmp", 0).CPU("0")
		if got := Running(mc, pod.Obj(), promise); got.Exclusive != exclusive || got.BestEffort == exclusive {
			t.Errorf("it runs as %+v, exclusive %t", got.Gang, exclusive)
		}
		if exclusive {
			pod.Label(v1alpha2.ExclusiveLabel, "true")
		}
		if got := Gang(mc, pod.Obj(), nil); got.Exclusive != exclusive || got.BestEffort == exclusive {
			t.Errorf("it waits as %+v, exclusive %t", got, exclusive)
		}
		if ask := Request(mc, pod.Obj(), nil, nil); (ask.Pods.Requests[fluxion.WholeNode] > 0) != exclusive {
			t.Errorf("it asks for %v, exclusive %t", ask.Pods.Requests, exclusive)
		}
	}
}

func TestEndOfAPromise(t *testing.T) {
	for name, tc := range map[string]struct {
		deadline *int64
		started  bool
		want     time.Time
	}{
		"when its deadline is over":           {new(int64(60)), true, fixture.Noon.Add(time.Minute)},
		"before it has started":               {new(int64(60)), false, fixture.Noon.Add(time.Minute)},
		"not known without a deadline":        {nil, true, time.Time{}},
		"not known if there is no limit":      {new(int64(0)), true, time.Time{}},
		"not known if the deadline is a year": {new(int64(31500000)), true, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(1).Admitted(1, 1, "a").Obj()
			mc.Spec.DeadlineSeconds = tc.deadline
			if tc.started {
				started := metav1.NewTime(fixture.Noon)
				mc.Status.StartTime = &started
			}
			promise, err := PromiseOf(mc)
			if err != nil || !promise.End.Equal(tc.want) {
				t.Errorf("got %s (%v), want %s", promise.End, err, tc.want)
			}
		})
	}
}

func TestGangsOfOneClass(t *testing.T) {
	base := func() *fixture.MiniClusterWrapper { return fixture.MiniCluster("a").Size(4) }
	pod := func() *fixture.PodWrapper { return fixture.Pod("x") }
	want := Gang(base().Defaulted(), pod().Obj(), nil).Class
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		pod  *fixture.PodWrapper
		same bool
	}{
		"another size and name": {fixture.MiniCluster("b").Size(9), pod(), true},
		"other requests":        {base(), pod().CPU("4"), false},
		"other places":          {base(), pod().Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }), false},
		"not distinct":          {base().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Network.DisableAffinity = true }), pod(), false},
		"spread":                {base().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.Policy = v1alpha2.PlacementSpread }), pod(), false},
		"another least size":    {base().MinSize(2), pod(), true},
		"a topology":            {base().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.TopologyKey = "x" }), pod(), false},
	} {
		t.Run(name, func(t *testing.T) {
			if same := Gang(tc.mc.Defaulted(), tc.pod.Obj(), nil).Class == want; same != tc.same {
				t.Errorf("of one class: %t", same)
			}
		})
	}
}

// Whether gangs have to use nodes that they avoid depends on how few they could start with.
func TestGangsThatAvoidNodes(t *testing.T) {
	class := func(least int32) string {
		mc := fixture.MiniCluster("a").Size(4).MinSize(least).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Avoid = &v1alpha2.Avoid{Nodes: "n1", Until: metav1.NewTime(fixture.Noon)}
		})
		return Gang(mc.Defaulted(), fixture.Pod("x").Obj(), nil).Class
	}
	if class(2) == class(3) {
		t.Error("gangs of other least sizes are of one class")
	}
}

func TestGangDetails(t *testing.T) {
	requeued := metav1.NewTime(fixture.Noon.Add(time.Hour))
	mc := fixture.MiniCluster("lmp").Queue("asked").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Queue = "is"
		s.RequeueState = &v1alpha2.RequeueState{Count: 1, RequeueAt: &requeued}
	}).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.DeadlineSeconds, s.Elastic.ExpectedRuntime = new(int64(60)), &metav1.Duration{Duration: time.Second}
	}).Defaulted()
	last := &v1alpha2.MiniClusterQueue{Spec: v1alpha2.MiniClusterQueueSpec{Requeue: v1alpha2.RequeueLast}}
	got := Gang(mc, fixture.Pod("x").Obj(), nil)
	if !Age(&got, last).Equal(requeued.Time) || !Age(&got, nil).Equal(mc.CreationTimestamp.Time) || !got.Since.Equal(requeued.Time) || got.Queue != "is" || got.Limit != time.Minute || got.Expected != time.Second || got.BestEffort {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(queue.Resources{"cpu": 8000, "pods": 1}, got.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	plain := Gang(fixture.MiniCluster("x").Defaulted(), fixture.Pod("x").CPU("0").Obj(), nil)
	if plain.Queue != v1alpha2.DefaultQueue || plain.Limit+plain.Expected != 0 || !plain.BestEffort {
		t.Errorf("got %+v", plain)
	}
}

// A size that is wanted since the admission changes nothing of how small the gang may be.
func TestSizingOfARunningGang(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(8).MinSize(8).Admitted(1, 8, "n[0-7]").Status(func(s *v1alpha2.MiniClusterStatus) { s.Admission.Wanted = 8 }).Defaulted()
	mc.Spec.Size = 1
	promise, err := PromiseOf(mc)
	if err != nil {
		t.Fatal(err)
	}
	if r := Running(mc, fixture.Pod("x").Obj(), promise); r.Least != 8 || r.Sizing.Size != 1 {
		t.Errorf("it may shrink to %d, and has the sizes %+v", r.Least, r.Sizing)
	}
}

func TestRunning(t *testing.T) {
	started := metav1.NewTime(fixture.Noon)
	by := metav1.NewTime(fixture.Noon.Add(time.Minute))
	admitted := func() *fixture.MiniClusterWrapper {
		return fixture.MiniCluster("lmp").Size(4).MaxSize(8).Admitted(1, 4, "n[0-3]")
	}
	start := func(s *v1alpha2.MiniClusterStatus) { s.StartTime = &started }
	type want struct {
		ranks, draining   []int
		max               int
		malleable, ending bool
	}
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want want
	}{
		"not started": {admitted(), want{[]int{0, 1, 2, 3}, nil, 4, true, false}},
		"started":     {admitted().Status(start), want{[]int{0, 1, 2, 3}, nil, 4, false, false}},
		"interactive": {
			admitted().Status(start).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Interactive = true }), want{[]int{0, 1, 2, 3}, nil, 4, true, false},
		},
		"a launcher":                {admitted().Launcher().Status(start), want{[]int{0, 1, 2, 3}, nil, 4, true, false}},
		"a launcher that may grow":  {admitted().Launcher().Grow().Status(start), want{[]int{0, 1, 2, 3}, nil, 8, true, false}},
		"a launcher below its size": {admitted().Launcher().Vacated("1-2").Status(start), want{[]int{0, 3}, nil, 4, true, false}},
		"a rigid one never grows":   {admitted().Grow().Status(start), want{[]int{0, 1, 2, 3}, nil, 4, false, false}},
		"not before it has started": {admitted().Launcher().Grow(), want{[]int{0, 1, 2, 3}, nil, 4, true, false}},
		"vacated and draining": {admitted().Status(start).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Vacated, s.Admission.Drain = "1", &v1alpha2.Drain{Ranks: "1,3", Deadline: &by}
		}), want{[]int{0, 2, 3}, []int{3}, 3, false, false}},
		"finished": {
			admitted().Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded), want{nil, nil, 0, true, true},
		},
		"no longer admitted": {fixture.MiniCluster("lmp").Size(4), want{nil, nil, 0, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			mc := tc.mc.Defaulted()
			promise, err := PromiseOf(mc)
			if err != nil {
				t.Fatal(err)
			}
			got := Running(mc, fixture.Pod("x").CPU("4").Obj(), promise)
			if diff := cmp.Diff(tc.want, want{got.Ranks, got.Draining, got.Max, got.Malleable, got.Ending}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Draining) > 0 != got.DrainBy.Equal(by.Time) {
				t.Errorf("drains by %s", got.DrainBy)
			}
			if cpu := got.Requests["cpu"]; (cpu == 8000) != (name != "no longer admitted") || got.Requests["pods"] != 1 {
				t.Errorf("requests %v", got.Requests)
			}
		})
	}
}

// A MiniCluster that is being deleted gives its nodes back once the grace of its pods is over, unless it was evicted to an
// earlier or a later time.
func TestRunningDeleted(t *testing.T) {
	deleted, by := metav1.Time{Time: fixture.Noon}, metav1.Time{Time: fixture.Noon.Add(10 * time.Minute)}
	mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "a,b").Defaulted()
	mc.DeletionTimestamp = &deleted
	for want, eviction := range map[time.Duration]*v1alpha2.Eviction{30 * time.Second: nil, 10 * time.Minute: {Deadline: by}} {
		mc.Status.Admission.Eviction = eviction
		promise, err := PromiseOf(mc)
		if err != nil {
			t.Fatal(err)
		}
		if r := Running(mc, fixture.Pod("x").CPU("4").Obj(), promise); !r.Ending || !r.EndBy.Equal(fixture.Noon.Add(want)) {
			t.Errorf("it ends by %s, want %s later than %s", r.EndBy, want, fixture.Noon)
		}
	}
}

// edited changes every field that says how the command runs.
func edited(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	s := &mc.Spec
	s.Interactive, s.MinSize, s.Tasks, s.BackoffLimit = true, 1, new(int32(99)), 7
	s.Elastic.OnLoss = v1alpha2.LossRecreate
	s.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
	s.Elastic.Tasks = v1alpha2.TaskPolicy{Scaling: v1alpha2.TasksFixed, Constraint: v1alpha2.TasksMultipleOf, MultipleOf: new(int32(3))}
	s.Containers[0].Launcher = true
	s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("31")}
	return mc
}

// What the command depends on stays as it was at the admission; the size does not.
func TestTraitsAreThoseOfTheAdmission(t *testing.T) {
	started := metav1.NewTime(fixture.Noon)
	runs := fixture.MiniCluster("lmp").Size(4).MinSize(2).Tasks(8).Admitted(1, 4, "a,b,c,d").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.StartTime, s.MaximumSize, s.Admission.Wanted = &started, 4, 4
	}).Defaulted()
	recorded := runs.DeepCopy()
	recorded.Status.Admission.Traits = Traits(&runs.Spec)
	recorded = edited(recorded)
	if diff := cmp.Diff(Policy(runs), Policy(recorded)); diff != "" {
		t.Errorf("the policy of an edited spec differs: %s", diff)
	}
	promise, err := PromiseOf(recorded)
	if err != nil || !promise.Rigid {
		t.Errorf("its promise is %+v (%v)", promise, err)
	}
	pod := fixture.Pod("x").Obj()
	if diff := cmp.Diff(Running(runs, pod, promise).Sizing, Running(recorded, pod, promise).Sizing); diff != "" {
		t.Errorf("its sizes differ for the queue: %s", diff)
	}
	if Running(recorded, pod, promise).Malleable || MayGrow(recorded) {
		t.Error("it is malleable")
	}
	recorded.Spec.Elastic.QuorumTimeout = &metav1.Duration{Duration: time.Hour} // the lead broker does not hear of that
	if got := Policy(recorded).QuorumTimeout; got != v1alpha2.DefaultQuorumTimeout {
		t.Errorf("with a longer one in the spec, the quorum timeout is %s", got)
	}
	recorded.Spec.Elastic.QuorumTimeout.Duration = time.Second
	if got := Policy(recorded).QuorumTimeout; got != time.Second {
		t.Errorf("with a shorter one in the spec, the quorum timeout is %s", got)
	}
	recorded.Spec.Size = 3
	if got := Policy(recorded).Want; got != 3 {
		t.Errorf("the size that the user wants is %d", got)
	}

	// The next admission is for the spec as it is then.
	recorded.Status.Admission, recorded.Status.StartTime = nil, nil
	if p := Policy(recorded); !p.Malleable || p.OnLoss != "Recreate" || p.Retries != 7 || p.Sizing.Tasks.AtSize != 99 {
		t.Errorf("after its admission the policy is %+v", p)
	}
}

// An admission that an earlier manager wrote has no traits: the spec counts.
func TestAdmissionWithoutTraits(t *testing.T) {
	mc := edited(fixture.MiniCluster("lmp").Size(4).Admitted(1, 4, "a,b,c,d").Defaulted())
	p := Policy(mc)
	if !p.Malleable || p.OnLoss != "Recreate" || p.Retries != 7 || p.Sizing.Tasks.AtSize != 99 || p.Sizing.SlotsPerNode != 31 {
		t.Errorf("its policy is %+v", p)
	}
	// The cache has no defaults.
	if _, err := PromiseOf(fixture.MiniCluster("lmp").Size(1).Admitted(1, 1, "a").Obj()); err != nil {
		t.Error(err)
	}
}

func TestStatusThatIsNoStatus(t *testing.T) {
	for name, change := range map[string]func(*v1alpha2.Admission){
		"nodes":              func(a *v1alpha2.Admission) { a.Nodes = "a[" },
		"vacated":            func(a *v1alpha2.Admission) { a.Vacated = "x" },
		"vacated is above":   func(a *v1alpha2.Admission) { a.Vacated = "2" },
		"vacated is endless": func(a *v1alpha2.Admission) { a.Vacated = "0-999999999" },
		"drain":              func(a *v1alpha2.Admission) { a.Drain = &v1alpha2.Drain{Ranks: "7"} },
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "a,b").Defaulted()
			change(mc.Status.Admission)
			if got, err := PromiseOf(mc); err == nil {
				t.Errorf("it was taken: %+v", got)
			}
		})
	}
}

func TestBarred(t *testing.T) {
	q := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	for want, selector := range map[string]*metav1.LabelSelector{
		"":   nil,
		" ":  {},
		"  ": {MatchLabels: map[string]string{"team": "a"}},
		"queue gpu is not for namespace research: team=b": {MatchLabels: map[string]string{"team": "b"}},
		`the namespaceSelector of queue gpu is wrong: "Is" is not a valid label selector operator`: {
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Is"}},
		},
	} {
		q.Spec.NamespaceSelector = selector
		if got := Barred(q, "research", map[string]string{"team": "a"}); got != strings.TrimSpace(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestQueue(t *testing.T) {
	made := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	made.Spec.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "pods": resource.MustParse("7")}
	want := queue.Queue{
		Name: "q", Weight: 1, Capacity: queue.Resources{"cpu": 1500, "pods": 7}, Guarantee: queue.Resources{},
		Reclaimable: true, Ordering: queue.ByPriority, Backfill: queue.EASY, Patience: 5 * time.Minute, Grace: 30 * time.Second,
	}
	if diff := cmp.Diff(want, Queue(made)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	made.Spec.MinRuntime = &metav1.Duration{Duration: time.Minute}
	made.Spec.Ordering, made.Spec.Backfill, made.Spec.Reclaimable = v1alpha2.OrderFIFO, v1alpha2.BackfillConservative, new(false)
	if got := Queue(made); got.Ordering != queue.ByAge || got.Backfill != queue.Conservative || got.Reclaimable || got.MinRuntime != time.Minute {
		t.Errorf("got %+v", got)
	}
}

func TestPolicyOfARequest(t *testing.T) {
	for policy, want := range map[v1alpha2.PlacementPolicy]fluxion.Policy{"": fluxion.Pack, v1alpha2.PlacementSpread: fluxion.Spread} {
		mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.Policy = policy }).Defaulted()
		got := Request(mc, fixture.Pod("x").Obj(), nil, nil)
		if got.Policy != want || !got.Distinct {
			t.Errorf("%s: got %+v", policy, got.Gang)
		}
	}
}

func TestTopologyOfARequest(t *testing.T) {
	place := func(key string, mode v1alpha2.TopologyMode) *v1alpha2.MiniCluster {
		return fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Placement.TopologyKey, s.Placement.Topology = key, mode
		}).Defaulted()
	}
	for name, tc := range map[string]struct {
		mc      *v1alpha2.MiniCluster
		want    fluxion.Topology
		unknown bool
	}{
		"none":      {place("", ""), fluxion.Topology{}, false},
		"preferred": {place(corev1.LabelTopologyZone, ""), fluxion.Topology{Level: "zone"}, false},
		"required":  {place(corev1.LabelTopologyZone, v1alpha2.TopologyRequired), fluxion.Topology{Level: "zone", Required: true}, false},
		"unknown":   {place("x", v1alpha2.TopologyRequired), fluxion.Topology{Level: "x", Required: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Request(tc.mc, fixture.Pod("x").Obj(), nil, TopologyLevels).Topology; got != tc.want {
				t.Errorf("got %+v", got)
			}
			text := UnknownTopology(tc.mc, TopologyLevels)
			if (text != "") != tc.unknown || (tc.unknown && !strings.Contains(text, "those are topology.kubernetes.io/zone, ")) {
				t.Errorf("it is told %q", text)
			}
		})
	}
}

func TestParseTopologyLevels(t *testing.T) {
	for text, want := range map[string][]TopologyLevel{
		"": nil,
		"topology.kubernetes.io/zone, cloud.provider.com/topology-block,cloud.provider.com/topology-rack": TopologyLevels,
		"pod,a.b/chassis": {{"pod", "pod"}, {"chassis", "a.b/chassis"}},
	} {
		if got, err := ParseTopologyLevels(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"a b":           "is no label of nodes",
		"x/rack,y/rack": `two levels of the topology are called "rack"`,
	} {
		if _, err := ParseTopologyLevels(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// allSizes are the allowed sizes, rising.
func allSizes(s elastic.Sizing) []int { return s.Allowed().Between(0, s.Size) }

// The API server writes the preemption policy of the PriorityClass into the pod.
func TestPreemptionPolicy(t *testing.T) {
	for policy, want := range map[*corev1.PreemptionPolicy]bool{
		nil: false, new(corev1.PreemptLowerPriority): false, new(corev1.PreemptNever): true,
	} {
		pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.PreemptionPolicy = policy }).Obj()
		if got := Gang(fixture.MiniCluster("lmp").Defaulted(), pod, nil); got.NeverPreempts != want {
			t.Errorf("with %v it never preempts: %t", policy, got.NeverPreempts)
		}
	}
}

// A size that alone is changed keeps the tasks of each broker, however often, and whether the MiniCluster waits or runs. A
// number of tasks that is set with or after a size is that of the size.
func TestScaleTasks(t *testing.T) {
	type spec struct{ size, tasks int32 }
	for name, tc := range map[string]struct {
		policy v1alpha2.TaskPolicy
		specs  []spec
		want   []int32
	}{
		"smaller, and larger again": {v1alpha2.TaskPolicy{}, []spec{{4, 28}, {2, 28}, {1, 28}, {8, 28}, {4, 28}}, []int32{28, 14, 7, 56, 28}},
		"with other tasks":          {v1alpha2.TaskPolicy{}, []spec{{4, 28}, {2, 2}, {4, 2}, {4, 8}, {2, 8}}, []int32{28, 2, 4, 8, 4}},
		"a fixed number":            {v1alpha2.TaskPolicy{Scaling: v1alpha2.TasksFixed}, []spec{{4, 28}, {2, 28}, {8, 28}}, []int32{28, 28, 28}},
		"one that the program can":  {v1alpha2.TaskPolicy{Constraint: v1alpha2.TasksPowerOfTwo}, []spec{{4, 16}, {3, 16}, {5, 16}}, []int32{16, 8, 16}},
		"fewer tasks than brokers":  {v1alpha2.TaskPolicy{}, []spec{{4, 1}, {8, 1}, {2, 1}}, []int32{1, 1, 1}},
		"Flux chooses":              {v1alpha2.TaskPolicy{}, []spec{{4, 0}, {8, 0}}, []int32{0, 0}},
	} {
		var status v1alpha2.MiniClusterStatus
		var got []int32
		for _, s := range tc.specs {
			mc := fixture.MiniCluster("lmp").Size(s.size).Tasks(s.tasks).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.Tasks = tc.policy }).Defaulted()
			mc.Status = status
			ScaleTasks(mc)
			got, status = append(got, *mc.Spec.Tasks), mc.Status
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the tasks are %v, want %v", name, got, tc.want)
		}
	}
	older := fixture.MiniCluster("lmp").Size(6).Tasks(6).Defaulted()
	older.Status.Admission = &v1alpha2.Admission{Wanted: 3, Traits: &v1alpha2.Traits{Tasks: 6}}
	if ScaleTasks(older); *older.Spec.Tasks != 12 || *older.Status.TasksFor != (v1alpha2.TasksFor{Size: 3, Tasks: 6}) {
		t.Errorf("one that was resized before has %d tasks, for %+v", *older.Spec.Tasks, older.Status.TasksFor)
	}
	many := fixture.MiniCluster("lmp").Size(3000).Tasks(v1alpha2.MostTasks).Defaulted()
	many.Status.TasksFor = &v1alpha2.TasksFor{Size: 100, Tasks: v1alpha2.MostTasks}
	if ScaleTasks(many); *many.Spec.Tasks != v1alpha2.MostTasks {
		t.Errorf("too many tasks become %d", *many.Spec.Tasks)
	}
}
