// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// summary is what a write does, in words.
func summary(write Write, before, after *kueueapi.Workload) string {
	switch write {
	case Nothing:
		return "nothing"
	case Create:
		return "create " + after.Name
	case Delete:
		return "delete"
	}
	var out []string
	if a, b := before.Annotations[triesAnnotation], after.Annotations[triesAnnotation]; a != b {
		out = append(out, "since "+b)
	}
	if a, b := ptr.Deref(before.Spec.Active, true), ptr.Deref(after.Spec.Active, true); a != b {
		out = append(out, fmt.Sprintf("active %t", b))
	}
	if before.Spec.QueueName != after.Spec.QueueName {
		out = append(out, "queue "+string(after.Spec.QueueName))
	}
	if a, b := before.Spec.MaximumExecutionTimeSeconds, after.Spec.MaximumExecutionTimeSeconds; !ptr.Equal(a, b) {
		out = append(out, fmt.Sprint("execution ", ptr.Deref(b, 0)))
	}
	if *before.Spec.Priority != *after.Spec.Priority {
		out = append(out, fmt.Sprint("priority ", *after.Spec.Priority))
	}
	if len(after.Finalizers) < len(before.Finalizers) {
		out = append(out, "no finalizer")
	}
	for _, c := range after.Status.Conditions {
		if was := meta.FindStatusCondition(before.Status.Conditions, c.Type); was == nil || was.Status != c.Status {
			out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
		}
	}
	for i, check := range after.Status.AdmissionChecks {
		if check.State != before.Status.AdmissionChecks[i].State {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", check.Name, check.State, check.Message)))
		}
	}
	if before.Status.Admission != nil && after.Status.Admission == nil {
		out = append(out, "no admission")
	}
	if !cmp.Equal(before.Status.ReclaimablePods, after.Status.ReclaimablePods) {
		text := "reclaimable"
		for _, r := range after.Status.ReclaimablePods {
			text += fmt.Sprintf(" %s %d", r.Name, r.Count)
		}
		out = append(out, text)
	}
	if r := after.Status.RequeueState; r != nil && !cmp.Equal(before.Status.RequeueState, r) {
		out = append(out, fmt.Sprintf("count %d, at +%s", ptr.Deref(r.Count, 0), ptr.Deref(r.RequeueAt, metav1.NewTime(fixture.Noon)).Sub(fixture.Noon)))
	}
	return strings.Join(out, "; ")
}

func TestNext(t *testing.T) {
	const placement, provisioning = "placement", "provisioning"
	at := func(d time.Duration) func(*Input) { return func(in *Input) { in.Now = fixture.Noon.Add(d) } }
	offer := func(verdict elastic.Verdict) func(*Input) {
		return func(in *Input) { in.Offer = elastic.Offer{Verdict: verdict, Message: "why"} }
	}
	lasts := func(seconds int32) func(*Input) {
		return func(in *Input) { in.Want.Spec.MaximumExecutionTimeSeconds = &seconds }
	}
	takes := func(seconds int32) change {
		return func(wl *kueueapi.Workload) { wl.Spec.MaximumExecutionTimeSeconds = &seconds }
	}
	suspend := func(in *Input) { in.MiniCluster.Spec.Suspend = true }
	ranks := func(ranks ...int) func(*Input) { return func(in *Input) { in.Ranks = ranks } }
	ended := func(reason string, ranks ...int) Input {
		return running(4, func(in *Input) { in.Finished, in.Message, in.Ranks = reason, "exit code 3", ranks })
	}
	madeBefore := func(age time.Duration) change { // it was made so long before noon
		return func(wl *kueueapi.Workload) { wl.CreationTimestamp = metav1.NewTime(fixture.Noon.Add(-age)) }
	}
	suspended := func(wl *kueueapi.Workload) { wl.Annotations[suspendedAnnotation] = "true" }
	const rested = restFor + 10*time.Second // the eviction's time is ten seconds after noon
	evicted := func(reason string) change { return condition(kueueapi.WorkloadEvicted, reason, "why") }
	pendingCheck, readyCheck := check(placement, kueueapi.CheckStatePending), check(placement, kueueapi.CheckStateReady)
	backsOff := func(wl *kueueapi.Workload) {
		wl.Status.RequeueState = &kueueapi.RequeueState{RequeueAt: ptr.To(metav1.NewTime(fixture.Noon.Add(time.Minute)))}
		meta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueueapi.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueueapi.WorkloadEvictedByAdmissionCheck})
	}
	tried := func(times int32) change {
		return func(wl *kueueapi.Workload) { wl.Status.AdmissionChecks[0].RetryCount = &times }
	}
	retried := tried(3)
	since := func(tries string) change {
		return func(wl *kueueapi.Workload) { wl.Annotations[triesAnnotation] = tries }
	}
	granted := func(size int32) func(*Input) {
		return func(in *Input) { in.MiniCluster.Status.Admission.Quota.Size = size }
	}
	finished, ready := condition(kueueapi.WorkloadFinished, "Succeeded", ""), condition(kueueapi.WorkloadPodsReady, "Started", "The quorum is reached")
	gone := func(wl *kueueapi.Workload) { wl.Finalizers = nil }
	ownQueue := func(in *Input) { in.Uses, in.MiniCluster.Status.Admission.Quota = false, nil }
	replaced := running(4)
	replaced.MiniCluster.Status.Admission.Quota.Workload = "before"
	cleared := "Evicted"
	for name, tc := range map[string]struct {
		wl   *kueueapi.Workload
		in   Input
		want string
	}{
		// Of whom there is no Workload.
		"a new one":                       {nil, waiting(), "create " + workload().Name},
		"one that was not checked":        {nil, waiting(func(in *Input) { in.Want = nil }), "nothing"},
		"a suspended one":                 {nil, waiting(suspend), "nothing"},
		"one that runs, without Workload": {nil, running(4), "nothing"},
		"one that ended, without":         {nil, ended("Succeeded"), "nothing"},
		// Which wait for quota.
		"pending":                   {workload(pending), waiting(), "nothing"},
		"does not use Kueue now":    {workload(pending), waiting(func(in *Input) { in.Uses, in.Want = false, nil }), "delete"},
		"is rejected":               {workload(withQuota(3)), waiting(func(in *Input) { in.Rejected, in.Want = true, nil }), "delete"},
		"was edited":                {workload(withQuota(3), admitted), waiting(func(in *Input) { in.Want = made(queued("a").Size(5)) }), "delete"},
		"moves to another queue":    {workload(pending), waiting(func(in *Input) { in.Want.Spec.QueueName = "b" }), "queue b"},
		"moves, with quota":         {workload(withQuota(3)), waiting(func(in *Input) { in.Want.Spec.QueueName = "b" }), "delete"},
		"has another priority":      {workload(pending), waiting(func(in *Input) { in.Want.Spec.Priority = ptr.To(int32(7)) }), "priority 7"},
		"has one, with quota":       {workload(withQuota(3)), waiting(func(in *Input) { in.Want.Spec.Priority = ptr.To(int32(7)) }), "nothing"},
		"gets a deadline":           {workload(pending), waiting(lasts(60)), "execution 60"},
		"loses its deadline":        {workload(pending, takes(60)), waiting(), "execution 0"},
		"gets one, with quota":      {workload(withQuota(3)), waiting(lasts(60)), "nothing"},
		"a shorter one, with quota": {workload(withQuota(3), takes(60)), waiting(lasts(59)), "nothing"},
		"a longer one, with quota":  {workload(withQuota(3), takes(60)), waiting(lasts(61)), "delete"},
		"loses it, with quota":      {workload(withQuota(3), takes(60)), waiting(), "delete"},
		"is suspended":              {workload(pending), waiting(suspend), "active false"},
		"is suspended, with quota":  {workload(withQuota(3)), waiting(suspend), "active false"},
		"was suspended":             {workload(inactive, suspended), waiting(suspend), "nothing"},
		"is resumed":                {workload(inactive, suspended), waiting(), "active true"},
		"was deactivated by Kueue":  {workload(inactive), waiting(), "nothing"},
		"and is suspended":          {workload(inactive), waiting(suspend), ""}, // the annotation alone
		"gave quota back once":      {workload(pending, reclaimable(2)), waiting(), "reclaimable"},
		"and its pods leave":        {workload(pending, reclaimable(2)), waiting(ranks(3)), "nothing"},
		"is suspended, pods leave":  {workload(withQuota(3), admitted), waiting(suspend, ranks(0)), "nothing"},
		"is deleted, pods leave":    {workload(withQuota(3), admitted, deleting), waiting(ranks(2)), "nothing"},
		"is deleted":                {workload(withQuota(3), admitted, deleting), waiting(), "no finalizer"},
		"runs without quota":        {workload(pending), running(4, ownQueue), "delete"},
		"runs without, is deleted":  {workload(pending, deleting), running(4, ownQueue), "no finalizer"},
		"is deleted while it runs":  {workload(withQuota(3), admitted, deleting), running(4), "nothing"},
		"is finished while it runs": {workload(withQuota(3), admitted, finished), running(4), "delete"},
		// Which have quota, and wait for nodes.
		"no decision yet":      {workload(withQuota(3), pendingCheck), waiting(at(time.Hour)), "nothing"},
		"no room for a while":  {workload(withQuota(3), pendingCheck), waiting(offer(elastic.NoRoom), at(roomGrace-time.Second)), "nothing"},
		"no room":              {workload(withQuota(3), pendingCheck), waiting(offer(elastic.NoRoom), at(roomGrace)), "placement Retry why"},
		"no room once more":    {workload(withQuota(3), pendingCheck, retried), waiting(offer(elastic.WaitingForTurn), at(roomGrace)), "placement Retry why"},
		"no room, and said so": {workload(withQuota(3), check(placement, kueueapi.CheckStateRetry)), waiting(offer(elastic.NoRoom), at(roomGrace)), "nothing"},
		"others have not answered": {
			workload(withQuota(3), pendingCheck, check(provisioning, kueueapi.CheckStatePending)), waiting(offer(elastic.WaitingForQuota), at(time.Hour)), "nothing",
		},
		"never fits":                       {workload(withQuota(3), pendingCheck, retried), waiting(offer(elastic.NeverFits)), "since 3"},
		"never fits, counted anew":         {workload(withQuota(3), pendingCheck, retried, since("8")), waiting(offer(elastic.NeverFits)), "since 3"},
		"never fits, for a while":          {workload(withQuota(3), pendingCheck, since("0")), waiting(offer(elastic.NeverFits), at(roomGrace)), "placement Retry why"},
		"never fits, for the fifth time":   {workload(withQuota(3), pendingCheck, tried(6), since("2")), waiting(offer(elastic.NeverFits), at(roomGrace)), "placement Retry why"},
		"never fits, and has tried often":  {workload(withQuota(3), pendingCheck, tried(7), since("2")), waiting(offer(elastic.NeverFits), at(roomGrace)), "active false"},
		"never fits, and pods leave":       {workload(withQuota(3), pendingCheck, tried(7), since("2")), waiting(offer(elastic.NeverFits), at(roomGrace), ranks(1)), "nothing"},
		"would fit now":                    {workload(withQuota(3), pendingCheck, tried(7), since("2")), waiting(offer(elastic.NoRoom)), "since "},
		"would fit, and has no quota":      {workload(pending, since("2")), waiting(offer(elastic.WaitingForQuota)), "nothing"},
		"never fits, its nodes may come":   {workload(withQuota(3), admitted), waiting(offer(elastic.NeverFits), at(time.Minute)), "nothing"},
		"never fits, and has no check":     {workload(withQuota(3), admitted), waiting(offer(elastic.NeverFits), at(time.Hour)), "active false"},
		"never fits, and has rested":       {workload(inactive, rests, evicted("Deactivated")), waiting(at(rested)), "active true"},
		"never fits, and rests":            {workload(inactive, rests, evicted("Deactivated")), waiting(at(rested - time.Second)), "nothing"},
		"never fits, and asks elsewhere":   {workload(inactive, rests, evicted("Deactivated")), waiting(func(in *Input) { in.Want.Spec.QueueName = "b" }), "delete"},
		"never fits, and Kueue knows not":  {workload(inactive, rests, withQuota(3)), waiting(), "nothing"},
		"never fits, and has been resumed": {workload(inactive, rests, suspended, evicted("Deactivated")), waiting(), "active true"},
		"never fits, and is active again":  {workload(pending, rests, evicted("Deactivated")), waiting(at(rested)), ""}, // without the annotation
		"never fits, and is suspended":     {workload(inactive, rests, evicted("Deactivated")), waiting(suspend), ""},   // with the other annotation alone
		"a flavor that is not there": {
			workload(withQuota(3), pendingCheck), waiting(func(in *Input) { in.Cluster = flavors(nil) }, at(roomGrace)),
			`placement Retry has quota of the flavor "flavor", which does not exist`,
		},
		"gave up": {
			workload(withQuota(3), pendingCheck), waiting(func(in *Input) { in.NotBefore = in.Now.Add(40 * time.Second) }), "placement Retry The last attempt was given up",
		},
		"lost its quota by our check": {
			workload(withQuota(3), pendingCheck, retried, condition(kueueapi.WorkloadEvicted, kueueapi.WorkloadEvictedByAdmissionCheck, "")), waiting(),
			"QuotaReserved False Pending; Requeued False AdmissionCheck; Admitted False NoReservation; no admission; count 0, at +1m0s",
		},
		"waits for domains that Kueue assigns once all checks are ready": {
			workload(withQuota(3), pendingCheck, func(wl *kueueapi.Workload) {
				wl.Status.Admission.PodSetAssignments[1].DelayedTopologyRequest = ptr.To(kueueapi.DelayedTopologyRequestStatePending)
			}), waiting(at(roomGrace)), "placement Retry has quota, and waits until Kueue assigns domains of the topology",
		},
		"backs off":                        {workload(pending, backsOff), waiting(at(59 * time.Second)), "nothing"},
		"has backed off":                   {workload(pending, backsOff), waiting(at(time.Minute)), "count 0, at +0s"},
		"its last attempt gave quota back": {workload(withQuota(3), admitted, readyCheck, reclaimable(1)), waiting(), "placement Retry The last attempt gave quota back"},
		"without our check, for a while":   {workload(withQuota(3), admitted), waiting(offer(elastic.NoRoom), at(time.Minute)), "nothing"},
		"without our check": {
			workload(withQuota(3), admitted, check(provisioning, kueueapi.CheckStateReady), requeue, madeBefore(-time.Hour)), waiting(offer(elastic.NoRoom), at(time.Hour)),
			"Evicted True PodsReadyTimeout; provisioning Pending; count 2, at +1h0m15s",
		},
		"without our check, once more": {
			workload(withQuota(3), admitted, madeBefore(0)), waiting(offer(elastic.NoRoom), at(time.Hour)), "Evicted True PodsReadyTimeout; count 0, at +1h3m0s",
		},
		"without our check, often": {
			workload(withQuota(3), admitted, madeBefore(time.Hour)), waiting(offer(elastic.NoRoom), at(time.Hour)), "Evicted True PodsReadyTimeout; count 0, at +1h5m0s",
		},
		"without our check, gave up": {
			workload(withQuota(3), admitted, madeBefore(time.Hour)), waiting(func(in *Input) { in.NotBefore = in.Now.Add(40 * time.Second) }),
			"Evicted True PodsReadyTimeout; count 0, at +40s",
		},
		"without our check, gave quota back": {
			workload(withQuota(3), admitted, madeBefore(time.Hour), reclaimable(1)), waiting(), "Evicted True PodsReadyTimeout; count 0, at +1s",
		},
		"nodes that do not come":                    {workload(withQuota(3), pendingCheck), waiting(offer(elastic.NodesFailed)), "placement Retry why"},
		"nodes that may come":                       {workload(withQuota(3), pendingCheck), waiting(offer(elastic.NodesRequested), at(time.Hour)), "nothing"},
		"nodes that do not come, without our check": {workload(withQuota(3), admitted, madeBefore(0)), waiting(offer(elastic.NodesTimedOut), at(time.Minute)), "Evicted True PodsReadyTimeout; count 0, at +1m15s"},
		"nodes that do not come, for other quota":   {workload(withQuota(3), check(provisioning, kueueapi.CheckStatePending)), waiting(offer(elastic.NodesTimedOut), at(time.Minute)), "nothing"},
		// Which have nodes.
		"has nodes":              {workload(withQuota(3), pendingCheck), running(4), "placement Ready The MiniCluster has nodes"},
		"has some":               {workload(withQuota(2), pendingCheck), running(2, granted(3)), "placement Ready The MiniCluster has nodes; reclaimable workers 2"},
		"has them still":         {workload(withQuota(3), admitted, readyCheck), running(4), "nothing"},
		"has fewer":              {workload(withQuota(3), admitted, readyCheck, reclaimable(1)), running(4, ranks(0, 2)), "reclaimable workers 2"},
		"has more again":         {workload(withQuota(3), admitted, readyCheck, reclaimable(2)), running(4, ranks(0, 1, 2)), "nothing"},
		"has other quota by now": {workload(withQuota(3), pendingCheck), replaced, "nothing"},
		"runs": {workload(withQuota(3), admitted, readyCheck), running(4, func(in *Input) {
			in.MiniCluster.Status.StartTime = &metav1.Time{Time: in.Now}
		}), "PodsReady True Started"},
		"is suspended while it runs": {workload(withQuota(3), admitted), running(4, suspend), "nothing"},
		"is evicted while it runs":   {workload(withQuota(3), admitted, evicted("Preempted")), running(4), "nothing"},
		"is evicted, pods leave":     {workload(withQuota(3), admitted, evicted("Preempted")), waiting(ranks(1)), "nothing"},
		"was preempted": {
			workload(withQuota(3), admitted, ready, reclaimable(1), evicted("Preempted")), waiting(),
			"QuotaReserved False Pending; Admitted False NoReservation; PodsReady False WaitForStart; Requeued True Preempted; no admission; reclaimable",
		},
		"was evicted otherwise": {
			workload(withQuota(3), evicted("AdmissionCheck")), waiting(),
			"QuotaReserved False Pending; Requeued False AdmissionCheck; Admitted False NoReservation; no admission",
		},
		"lost its quota already": {workload(pending, evicted(cleared)), waiting(), "nothing"},
		// Which have ended.
		"ended, pods leave":       {workload(withQuota(3), admitted), ended("Succeeded", 0, 3), "reclaimable workers 2"},
		"ended, the lead is gone": {workload(withQuota(3), admitted, reclaimable(2)), ended("Succeeded", 3), "reclaimable lead 1 workers 2"},
		"ended":                   {workload(withQuota(3), admitted, ready), ended("Failed"), "Finished True Failed"},
		"ended without quota":     {workload(pending), ended("Failed"), "Finished True Failed"},
		"ended, and said so":      {workload(withQuota(3), admitted, finished), ended("Succeeded"), "no finalizer"},
		"is over":                 {workload(withQuota(3), admitted, finished, gone), ended("Succeeded"), "nothing"},
		"is over, pods leave":     {workload(withQuota(3), admitted, finished), ended("Succeeded", 1), "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.wl.DeepCopy()
			write, next := Next(tc.wl, tc.in)
			if got := summary(write, tc.wl, next); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
			if diff := cmp.Diff(before, tc.wl); diff != "" {
				t.Errorf("the cache was changed:\n%s", diff)
			}
		})
	}
}

// A MiniCluster with quota and without nodes is looked at when it has waited for its nodes: time
// passes without an event.
func TestLookAgain(t *testing.T) {
	grace := waiting().MiniCluster.Spec.Elastic.StartTimeout.Duration
	in := func(after time.Duration) Input {
		return waiting(func(in *Input) { in.Now = fixture.Noon.Add(after) })
	}
	for name, tc := range map[string]struct {
		wl   *kueueapi.Workload
		in   Input
		want time.Duration // after noon; 0 for never
	}{
		"no Workload":    {nil, in(0), 0},
		"pending":        {workload(pending), in(0), 0},
		"backs off":      {workload(pending, requeue), in(0), time.Minute},
		"has backed off": {workload(pending, requeue), in(time.Minute), 0},
		"with quota":     {workload(withQuota(3)), in(0), grace},
		"with a check":   {workload(withQuota(3), check("placement", kueueapi.CheckStatePending)), in(0), roomGrace},
		"too long":       {workload(withQuota(3)), in(grace), 0},
		"admitted later": {workload(withQuota(3), admitted), in(0), 10*time.Second + grace},
		"evicted":        {workload(withQuota(3), condition(kueueapi.WorkloadEvicted, "Preempted", "")), in(0), 0},
		"never fits":     {workload(inactive, rests, condition(kueueapi.WorkloadEvicted, "Deactivated", "")), in(0), restFor + 10*time.Second},
		"has rested":     {workload(inactive, rests, condition(kueueapi.WorkloadEvicted, "Deactivated", "")), in(restFor + 10*time.Second), 0},
		"with nodes":     {workload(withQuota(3)), running(4), 0},
		"that ended":     {workload(withQuota(3)), waiting(func(in *Input) { in.Finished = "Failed" }), 0},
	} {
		want := time.Time{}
		if tc.want > 0 {
			want = fixture.Noon.Add(tc.want)
		}
		if got := LookAgain(tc.wl, tc.in); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// What a check of others did, or the admission took, does not count as time without room.
func TestGraceBeginsWithTheLastCheck(t *testing.T) {
	wl := workload(withQuota(3), check("placement", kueueapi.CheckStatePending), check("provisioning", kueueapi.CheckStateReady))
	wl.Status.AdmissionChecks[1].LastTransitionTime = metav1.NewTime(fixture.Noon.Add(time.Hour))
	in := waiting(func(in *Input) {
		in.Now, in.Offer = fixture.Noon.Add(time.Hour+roomGrace/2), elastic.Offer{Verdict: elastic.NoRoom, Message: "why"}
	})
	if write, _ := Next(wl, in); write != Nothing {
		t.Errorf("write %d as soon as the nodes were provisioned", write)
	}
	in.Now = in.Now.Add(roomGrace)
	if write, _ := Next(wl, in); write != PatchStatus {
		t.Errorf("write %d without room", write)
	}
}

// Long messages fit into a condition.
func TestLongMessages(t *testing.T) {
	in := waiting(func(in *Input) {
		in.Finished, in.Message = "Failed", strings.Repeat("é", 40000)
	})
	_, next := Next(workload(pending), in)
	if n := len([]rune(message(next, kueueapi.WorkloadFinished))); n != 32768 {
		t.Errorf("%d characters", n)
	}
}
