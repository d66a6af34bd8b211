// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// record is what a test saw of the MiniClusters of its namespace: every status, and every
// lead that began with its command.
type record struct {
	mutex sync.Mutex
	lives map[types.UID]*recorded
	// leads are the JobSets of the lead pods that began, by MiniCluster.
	leads map[types.UID]map[types.UID]string
}

// recorded is what was seen of one MiniCluster.
type recorded struct {
	name      string
	last      *v1alpha2.MiniCluster
	versions  []*v1alpha2.MiniCluster // in their order
	gone      bool
	decisions []v1alpha2.Decision
	stays     []stay
	// violations are changes of the status that must never be.
	violations []string
}

// stay is a time for which nodes were in its admission; until is zero while it lasts.
type stay struct {
	nodes       string
	from, until time.Time
}

// newRecord begins to watch the site.
func (s *site) newRecord() *record {
	s.t.Helper()
	r := &record{lives: map[types.UID]*recorded{}, leads: map[types.UID]map[types.UID]string{}}
	s.watch(r.see, &v1alpha2.MiniCluster{}, &corev1.Pod{})
	return r
}

// watch tells of every change of some kinds of objects in the site, from now on.
func (s *site) watch(see func(object any, gone bool), kinds ...client.Object) {
	s.t.Helper()
	config, err := env.cluster.RESTConfig()
	if err != nil {
		s.t.Fatal(err)
	}
	informers, err := cache.New(config, cache.Options{Scheme: env.Scheme, DefaultNamespaces: map[string]cache.Config{s.namespace: {}}})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.t.Cleanup(cancel)
	for _, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			s.t.Fatal(err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { see(object, false) },
			UpdateFunc: func(_, object any) { see(object, false) },
			DeleteFunc: func(object any) {
				if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
					object = tombstone.Obj
				}
				see(object, true)
			},
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	go func() { _ = informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		s.t.Fatal("watching the site: no answer")
	}
}

func (r *record) see(object any, gone bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch object := object.(type) {
	case *v1alpha2.MiniCluster:
		r.seeMiniCluster(object, gone)
	case *corev1.Pod:
		r.seePod(object)
	}
}

func (r *record) seePod(pod *corev1.Pod) {
	rank, ok := protocol.Rank(pod)
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	began := ready || pod.Status.Phase == corev1.PodSucceeded // whatever was missed before
	if !ok || rank != 0 || !began {
		return
	}
	mc := types.UID(pod.Labels[v1alpha2.UIDLabel])
	if r.leads[mc] == nil {
		r.leads[mc] = map[types.UID]string{}
	}
	r.leads[mc][pod.UID] = pod.Labels[jobsetapi.JobSetUIDKey]
}

func (r *record) seeMiniCluster(mc *v1alpha2.MiniCluster, gone bool) {
	seen := r.lives[mc.UID]
	if seen == nil {
		seen = &recorded{name: mc.Name, last: &v1alpha2.MiniCluster{}}
		r.lives[mc.UID] = seen
	}
	before, after := &seen.last.Status, &mc.Status
	seen.violations = append(seen.violations, wrongChanges(before, after)...)
	if d := after.LastDecision; d != nil && (before.LastDecision == nil || d.Number != before.LastDecision.Number) {
		seen.decisions = append(seen.decisions, *d)
	}
	holds := after.Admission
	if outcome(after) != "" {
		holds = nil
	}
	seen.stay(holds)
	seen.last, seen.gone = mc.DeepCopy(), gone
	seen.versions = append(seen.versions, seen.last)
}

// await waits until a MiniCluster was seen as it is expected to be, and sets mc to what was seen
// then. The MiniCluster may have changed since: a busy machine misses no state that passes.
func (r *record) await(s *site, mc *v1alpha2.MiniCluster, what string, holds func(*v1alpha2.MiniCluster) bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		seen := r.of(mc)
		if i := slices.IndexFunc(seen.versions, holds); i >= 0 {
			seen.versions[i].DeepCopyInto(mc)
			return nil
		}
		return fmt.Errorf("%s was not %s, and is %s: %s", mc.Name, what, state(seen.last), condition(seen.last, v1alpha2.ConditionReady).Message)
	})
}

func (r *recorded) stay(holds *v1alpha2.Admission) {
	last := len(r.stays) - 1
	lasts := last >= 0 && r.stays[last].until.IsZero()
	if lasts && holds != nil && r.stays[last].nodes == holds.Nodes {
		return
	}
	if lasts {
		r.stays[last].until = wallClock.Now()
	}
	if holds != nil {
		r.stays = append(r.stays, stay{nodes: holds.Nodes, from: holds.Time.Time})
	}
}

// changes are those of a status that are decisions, and the words for these. Each is
// written together with the decision.
var changes = []struct {
	what string
	is   func(before, after *v1alpha2.MiniClusterStatus) bool
	by   []string
}{
	{"it was admitted", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return before.Admission == nil && after.Admission != nil
	}, []string{"Admitted"}},
	{"an attempt was accounted", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return after.Usage != nil && (before.Usage == nil || *before.Usage != *after.Usage)
	}, []string{
		"GaveUp", "Retrying", "Released", v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonRequeued, v1alpha2.ReasonSucceeded, v1alpha2.ReasonCommandFailed, v1alpha2.ReasonLeadLost,
		v1alpha2.ReasonWorkersFailed, v1alpha2.ReasonBrokersLost, v1alpha2.ReasonDeadlineExceeded, v1alpha2.ReasonStartLimit,
	}},
	{"it started", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return after.StartTime != nil && !after.StartTime.Equal(before.StartTime)
	}, []string{"Started"}},
	{"its admission was taken back", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return before.Admission != nil && after.Admission == nil
	}, []string{"GaveUp", "Retrying", "Released", v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonRequeued}},
	{"an attempt was given up", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return after.RequeueState != nil && after.RequeueState.Count > ptr.Deref(before.RequeueState, v1alpha2.RequeueState{}).Count
	}, []string{"GaveUp", "Retrying", v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonRequeued}},
	{"it finished", func(before, after *v1alpha2.MiniClusterStatus) bool {
		return outcome(before) == "" && outcome(after) != ""
	}, []string{
		v1alpha2.ReasonSucceeded, v1alpha2.ReasonCommandFailed, v1alpha2.ReasonLeadLost, v1alpha2.ReasonWorkersFailed,
		v1alpha2.ReasonBrokersLost, v1alpha2.ReasonDeadlineExceeded, v1alpha2.ReasonStartLimit,
	}},
	{"ranks were asked to leave", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Drain == nil && after.Drain != nil
	}), []string{"Draining", "QuorumLowered", "Restarting"}},
	{"ranks left", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Vacated != after.Vacated
	}), []string{"Vacated", "Started", "Grew", "Restarting"}},
	{"ranks came or moved", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Nodes != after.Nodes || before.Size != after.Size
	}), []string{"Grew", "Moved"}},
	{"brokers were lost", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Loss == nil && after.Loss != nil
	}), []string{v1alpha2.ReasonBrokersLost}},
	{"its quorum was changed", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Quorum != after.Quorum
	}), []string{"QuorumLowered", "Draining", "Started", "Vacated", "Kept", "Grew", "Restarting"}},
	{"its command was to be run again", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Restarts != after.Restarts || (before.Restart == nil && after.Restart != nil)
	}), []string{"Restarting"}},
	{"its command ran again", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Restart != nil && after.Restart == nil
	}), []string{"Restarted"}},
	{"it was warned", ofAdmission(func(before, after *v1alpha2.Admission) bool {
		return before.Eviction == nil && after.Eviction != nil
	}), []string{"Warned"}},
}

// ofAdmission compares what it has before and after, where it has nodes all the time.
func ofAdmission(is func(before, after *v1alpha2.Admission) bool) func(before, after *v1alpha2.MiniClusterStatus) bool {
	return func(before, after *v1alpha2.MiniClusterStatus) bool {
		return before.Admission != nil && after.Admission != nil && is(before.Admission, after.Admission)
	}
}

// outcome is the reason for which it ended; "" before.
func outcome(s *v1alpha2.MiniClusterStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

// wrongChanges are what must not be between two statuses that follow on each other: a
// change that no decision tells of, and one after the end.
func wrongChanges(before, after *v1alpha2.MiniClusterStatus) []string {
	var out []string
	decided := after.LastDecision
	if decided != nil && before.LastDecision != nil && decided.Number == before.LastDecision.Number {
		decided = nil
	}
	for _, c := range changes {
		if c.is(before, after) && (decided == nil || !slices.Contains(c.by, decided.Reason)) {
			out = append(out, fmt.Sprintf("%s, and what was decided is %v", c.what, decided))
		}
	}
	if decided != nil && before.LastDecision != nil && decided.Number <= before.LastDecision.Number {
		out = append(out, fmt.Sprintf("%s, number %d, comes after %s, number %d", decided.Reason, decided.Number, before.LastDecision.Reason, before.LastDecision.Number))
	}
	if end := outcome(before); end != "" && (decided != nil || outcome(after) != end || !after.CompletionTime.Equal(before.CompletionTime)) {
		out = append(out, fmt.Sprintf("after its end, %s, it is %s: %v", end, outcome(after), decided))
	}
	return out
}

// of is what was seen of one MiniCluster.
func (r *record) of(mc *v1alpha2.MiniCluster) recorded {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if seen := r.lives[mc.UID]; seen != nil {
		return *seen
	}
	return recorded{name: mc.Name, last: mc}
}

// all are those that were seen.
func (r *record) all() map[types.UID]recorded {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	out := map[types.UID]recorded{}
	for uid, seen := range r.lives {
		out[uid] = *seen
	}
	return out
}

// runsOf is how often the command of a MiniCluster began.
func (r *record) runsOf(mc types.UID) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.leads[mc])
}

// check compares what was seen with the events. Every decision is told by exactly one event,
// which has its words; those that were deleted may have been so before the last ones were told.
// An attempt runs the command once.
func (r *record) check(s *site) {
	s.t.Helper()
	err := poll(func() error { return errors.Join(r.compare(s)...) })
	if err != nil {
		s.t.Error(err)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, seen := range r.lives {
		for _, violation := range seen.violations {
			s.t.Errorf("%s: %s", seen.name, violation)
		}
		if used, has := seen.nodeSeconds(), recordedNodeSeconds(&seen.last.Status); used != has {
			s.t.Errorf("%s: it used %d node-seconds, its status has %d", seen.name, used, has)
		}
		runs := map[string]int{} // by JobSet
		for _, set := range r.leads[uid] {
			runs[set]++
		}
		for set, n := range runs {
			if n > 1 {
				s.t.Errorf("%s: the command began %d times in the attempt of JobSet %s", seen.name, n, set)
			}
		}
		if admitted := seen.times("Admitted"); len(runs) > admitted {
			s.t.Errorf("%s: the command began in %d attempts of %d", seen.name, len(runs), admitted)
		}
		if started := seen.times("Started"); len(r.leads[uid]) < started {
			s.t.Errorf("%s: the command began %d times, and is said to have begun %d times", seen.name, len(r.leads[uid]), started)
		}
	}
}

// times is how often something was decided.
func (r *recorded) times(reason string) int {
	n := 0
	for _, d := range r.decisions {
		if d.Reason == reason {
			n++
		}
	}
	return n
}

// said are the events of decisions.
type said struct {
	reason, note string
	at           int64 // in microseconds
}

func (r *record) compare(s *site) []error {
	var list eventsv1.EventList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return []error{err}
	}
	events := map[types.UID]map[said]int{}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Action != "Decide" {
			continue
		}
		if events[e.Regarding.UID] == nil {
			events[e.Regarding.UID] = map[said]int{}
		}
		events[e.Regarding.UID][said{e.Reason, e.Note, e.EventTime.UnixMicro()}]++
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var wrong []error
	for uid, seen := range r.lives {
		for _, difference := range seen.differences(events[uid]) {
			wrong = append(wrong, fmt.Errorf("%s: %s", seen.name, difference))
		}
	}
	return wrong
}

func (r *recorded) differences(events map[said]int) []string {
	var wrong []string
	left := maps.Clone(events)
	var pending []int64
	for _, d := range r.last.Status.PendingEvents {
		pending = append(pending, d.Time.UnixMicro())
	}
	for i, d := range r.decisions {
		key := said{d.Reason, d.Message, d.Time.UnixMicro()}
		mayLack := r.gone && (i == len(r.decisions)-1 || slices.Contains(pending, d.Time.UnixMicro()))
		if n := events[key]; n != 1 && (n != 0 || !mayLack) {
			wrong = append(wrong, fmt.Sprintf("%s at %s was told %d times: %s", d.Reason, d.Time, n, d.Message))
		}
		delete(left, key)
	}
	for key := range left {
		wrong = append(wrong, fmt.Sprintf("%s was told, and not decided: %s", key.reason, key.note))
	}
	return wrong
}

// heldOn reports whether a MiniCluster had a node at some time of a while.
func (r *recorded) heldOn(t *testing.T, node string, from, until time.Time) bool {
	t.Helper()
	return slices.ContainsFunc(r.stays, func(s stay) bool {
		nodes, err := hostlist.Decode(s.nodes, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(nodes, node) && s.from.Before(until.Add(time.Second)) && (s.until.IsZero() || s.until.After(from))
	})
}

// What must never be is seen.
func TestRecord(t *testing.T) {
	t.Parallel()
	at := func(second int) metav1.MicroTime {
		return metav1.NewMicroTime(time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC))
	}
	status := func(second int, reason string, change func(*v1alpha2.MiniClusterStatus)) *v1alpha2.MiniClusterStatus {
		s := &v1alpha2.MiniClusterStatus{LastDecision: &v1alpha2.Decision{Number: int64(second), Time: at(second), Reason: reason}}
		if change != nil {
			change(s)
		}
		return s
	}
	admitted := func(s *v1alpha2.MiniClusterStatus) {
		s.Admission = &v1alpha2.Admission{Nodes: "n[0-3]", Size: 4, Quorum: 4}
	}
	finished := func(s *v1alpha2.MiniClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue, Reason: v1alpha2.ReasonSucceeded,
		})
	}
	for name, tc := range map[string]struct {
		before, after *v1alpha2.MiniClusterStatus
		wrong         int
	}{
		"a decision":                         {&v1alpha2.MiniClusterStatus{}, status(1, "Admitted", admitted), 0},
		"what was decided without a word":    {status(1, "GaveUp", nil), status(1, "GaveUp", admitted), 1},
		"what another word was used for":     {status(1, "GaveUp", nil), status(2, "Moved", admitted), 1},
		"a decision that is older":           {status(2, "GaveUp", nil), status(1, "Admitted", admitted), 1},
		"an end":                             {status(1, "Started", admitted), status(2, v1alpha2.ReasonSucceeded, inTurn(admitted, finished)), 0},
		"what comes after the end":           {status(2, v1alpha2.ReasonSucceeded, finished), status(3, "Admitted", inTurn(admitted, finished)), 1},
		"an end that is none any more":       {status(2, v1alpha2.ReasonSucceeded, finished), status(2, v1alpha2.ReasonSucceeded, nil), 1},
		"nothing but what counts for nobody": {status(1, "Admitted", admitted), status(1, "Admitted", admitted), 0},
	} {
		if wrong := wrongChanges(tc.before, tc.after); len(wrong) != tc.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
	seen := recorded{last: &v1alpha2.MiniCluster{}, decisions: []v1alpha2.Decision{{Time: at(1), Reason: "Admitted"}, {Time: at(2), Reason: "Started"}}}
	once := map[said]int{{"Admitted", "", at(1).UnixMicro()}: 1, {"Started", "", at(2).UnixMicro()}: 1}
	change := func(key said, n int) map[said]int {
		events := maps.Clone(once)
		if events[key] = n; n == 0 {
			delete(events, key)
		}
		return events
	}
	for name, tc := range map[string]struct {
		events map[said]int
		gone   bool
		wrong  int
	}{
		"each once":                    {once, false, 0},
		"one twice":                    {change(said{"Started", "", at(2).UnixMicro()}, 2), false, 1},
		"one not":                      {change(said{"Started", "", at(2).UnixMicro()}, 0), false, 1},
		"the last before its deletion": {change(said{"Started", "", at(2).UnixMicro()}, 0), true, 0},
		"one before its deletion":      {change(said{"Admitted", "", at(1).UnixMicro()}, 0), true, 1},
		"one that nobody decided":      {change(said{"GaveUp", "", at(3).UnixMicro()}, 1), false, 1},
	} {
		seen.gone = tc.gone
		if wrong := seen.differences(tc.events); len(wrong) != tc.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func inTurn(changes ...func(*v1alpha2.MiniClusterStatus)) func(*v1alpha2.MiniClusterStatus) {
	return func(s *v1alpha2.MiniClusterStatus) {
		for _, change := range changes {
			change(s)
		}
	}
}
