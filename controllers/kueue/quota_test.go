// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/fixture/cached"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Without Kueue a MiniCluster with nodes keeps its quota. If Kueue is there and cannot be read, Kueue may not have
// admitted it yet.
func TestWithoutKueue(t *testing.T) {
	for presence, want := range map[kueue.Presence][2]life.QuotaState{
		kueue.Unknown: {life.QuotaReserved, life.QuotaUnneeded}, kueue.Away: {life.QuotaAdmitted, life.QuotaMissing}, kueue.Unread: {life.QuotaReserved, life.QuotaMissing},
	} {
		with, err := withoutKueue(&v1alpha2.Admission{}, presence)
		without, asked := withoutKueue(nil, presence)
		if err != nil || with.State != want[0] || without.State != want[1] || errors.Is(asked, kueue.ErrNotSought) != (presence == kueue.Unknown) {
			t.Errorf("%v: with nodes %v, %v, without %v, %v", presence, with.State, err, without.State, asked)
		}
	}
}

// workloadOf is a deleted Workload of a MiniCluster with a name and some UID.
func workloadOf(mc *v1alpha2.MiniCluster, name string, owner types.UID) *kueueapi.Workload {
	return &kueueapi.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace: mc.Namespace, Name: name, Labels: map[string]string{v1alpha2.MiniClusterLabel: mc.Name}, Finalizers: []string{kueueapi.ResourceInUseFinalizerName},
		DeletionTimestamp: new(metav1.NewTime(fixture.Noon)), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind, Name: mc.Name, UID: owner, Controller: new(true),
		}},
	}}
}

// releaseLeft reads the quota of a MiniCluster without a queue in Kueue, and releases what earlier ones left.
func releaseLeft(t *testing.T, c client.Client, mc *v1alpha2.MiniCluster) error {
	t.Helper()
	k := &Kueue{cluster: c, cache: c}
	q, err := k.Read(t.Context(), kueue.Facts{MiniCluster: mc, Observation: &life.Observation{}, Now: fixture.Noon}, &kueue.Memory{})
	if err != nil || q.Needed() {
		t.Fatal(q, err)
	}
	return k.Release(t.Context(), q.Left)
}

// A MiniCluster lets the Workload of an earlier one of its name go, and not its own.
func TestReleasesQuotaOfItsName(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Defaulted()
	earlier, own := workloadOf(mc, "earlier", "another"), workloadOf(mc, "own", mc.UID)
	c := cached.Client(t, earlier, own)
	if err := releaseLeft(t, c, mc); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(earlier), earlier); !apierrors.IsNotFound(err) {
		t.Errorf("the Workload of the earlier one is still there: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil {
		t.Errorf("its own Workload: %v", err)
	}
}

// While Kueue's webhooks do not answer, a MiniCluster goes on, and the quota of an earlier one of its name stays.
func TestQuotaOfItsNameCannotBeReleased(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Defaulted()
	c := interceptor.NewClient(cached.Client(t, workloadOf(mc, "earlier", "another")), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the webhook does not answer")
		},
	})
	if releaseLeft(t, c, mc) == nil {
		t.Error("it is released")
	}
}

// Kueue is asked for time by the deadlines of the queue of all MiniClusters with quota. Kueue is not asked
// for a MiniCluster with a deadline that this queue does not allow.
func TestKueueIsToldDeadlines(t *testing.T) {
	const start = 10*60 + 60 // seconds
	for name, tc := range map[string]struct {
		queue    *fixture.QueueWrapper
		set      int64
		rejected bool
		asked    int32 // 0 for no limit
	}{
		"no deadline":             {fixture.Queue(v1alpha2.KueueQueue), 0, false, 0},
		"its own":                 {fixture.Queue(v1alpha2.KueueQueue), 60, false, 60 + start},
		"that of the queue":       {fixture.Queue(v1alpha2.KueueQueue).Deadlines(time.Hour, 2*time.Hour), 0, false, 3600 + start},
		"that of another queue":   {fixture.Queue("other").Deadlines(time.Hour, 2*time.Hour), 0, false, 0},
		"too long":                {fixture.Queue(v1alpha2.KueueQueue).Deadlines(0, time.Hour), 3601, true, 0},
		"too long, of another":    {fixture.Queue("other").Deadlines(0, time.Hour), 3601, false, 3601 + start},
		"the longest one, to ask": {fixture.Queue(v1alpha2.KueueQueue).Deadlines(0, time.Hour), 3600, false, 3600 + start},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Deadline(tc.set).Defaulted()
			mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
			c := cached.Client(t, tc.queue.Obj(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mc.Namespace}})
			k := &Kueue{cluster: c, cache: c, namespaces: labels.Everything()}
			facts := kueue.Facts{MiniCluster: mc, Observation: &life.Observation{}, Pod: fixture.Pod("x").Obj(), Now: fixture.Noon}
			q, err := k.Read(t.Context(), facts, &kueue.Memory{})
			if err != nil || q.Problem != nil {
				t.Fatal(err, q.Problem)
			}
			in := q.Input
			if in.Rejected != tc.rejected || (in.Want == nil) != tc.rejected {
				t.Errorf("rejected: %t, wanted: %v", in.Rejected, in.Want)
			}
			if in.Want != nil && ptr.Deref(in.Want.Spec.MaximumExecutionTimeSeconds, 0) != tc.asked {
				t.Errorf("it asks for %d s, want %d", ptr.Deref(in.Want.Spec.MaximumExecutionTimeSeconds, 0), tc.asked)
			}
			if want := "deadlineSeconds 3601 is more than queue kueue allows (1h)"; (q.TooLong == want) != tc.rejected {
				t.Errorf("it says %q", q.TooLong)
			}
			if q.State != life.QuotaMissing || q.Message != "asks Kueue for quota" {
				t.Errorf("it is granted %+v", q.Grant)
			}
		})
	}
}

// While it is not known which topologies there are, a Workload says what was asked, and follows what else has changed. Without a
// Workload nothing is asked.
func TestUnknownTopology(t *testing.T) {
	const team, other = "team", "other"
	at := func(queue string) *v1alpha2.MiniCluster {
		mc := fixture.MiniCluster("lmp").Size(4).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.TopologyKey = "rack" }).Defaulted()
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: queue}
		return mc
	}
	pod := fixture.Pod("x").Obj()
	made := func(quota bool) *kueueapi.Workload {
		wl := kueue.Workload(at(team), pod, nil, &kueueapi.PodSetTopologyRequest{Preferred: ptr.To("rack")}, elastic.Deadlines{})
		if quota {
			wl.Status.Admission = &kueueapi.Admission{}
			wl.Status.Conditions = []metav1.Condition{{Type: kueueapi.WorkloadQuotaReserved, Status: metav1.ConditionTrue}}
		}
		return wl
	}
	for name, tc := range map[string]struct {
		wl    *kueueapi.Workload
		queue string
		size  int32
		want  kueue.Write
		moves bool
	}{
		"no Workload":                 {nil, team, 4, kueue.Nothing, false},
		"nothing else has changed":    {made(false), team, 4, kueue.Nothing, false},
		"nor with quota":              {made(true), team, 4, kueue.Nothing, false},
		"another queue":               {made(false), other, 4, kueue.Patch, true},
		"another queue, with quota":   {made(true), other, 4, kueue.Delete, false},
		"another size, and has quota": {made(true), team, 5, kueue.Delete, false},
	} {
		t.Run(name, func(t *testing.T) {
			mc := at(tc.queue)
			mc.Spec.Size = tc.size
			objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mc.Namespace}}}
			if tc.wl != nil {
				objects = append(objects, tc.wl)
			}
			c := cached.Client(t, objects...)
			k := &Kueue{cluster: c, cache: c, namespaces: labels.Everything()}
			q, err := k.Read(t.Context(), kueue.Facts{MiniCluster: mc, Observation: &life.Observation{}, Pod: pod, Now: fixture.Noon}, &kueue.Memory{})
			if err != nil {
				t.Fatal(err)
			}
			if (q.Problem != nil) != (tc.wl == nil) {
				t.Errorf("the problem is %v", q.Problem)
			}
			write, next, _ := q.Next()
			if write != tc.want || tc.moves && string(next.Spec.QueueName) != tc.queue {
				t.Errorf("write %d, want %d: %v", write, tc.want, next)
			}
		})
	}
}

// victim is what a pass reads of a MiniCluster whose Workload is preempted for another Workload.
func victim(preemptor string) *kueue.Quota {
	wl := &kueueapi.Workload{Status: kueueapi.WorkloadStatus{Admission: &kueueapi.Admission{}, Conditions: []metav1.Condition{
		{Type: kueueapi.WorkloadQuotaReserved, Status: metav1.ConditionTrue},
		{Type: kueueapi.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueueapi.WorkloadEvictedByPreemption, Message: "Preempted to accommodate a workload (UID: " + preemptor + ")"},
	}}}
	return &kueue.Quota{Workload: wl}
}

// All MiniClusters that Kueue preempts for one Workload look for it once, together, also if it does not exist any more.
func TestLooksForPreemptorOnce(t *testing.T) {
	lists := 0
	first, second := &kueueapi.Workload{}, &kueueapi.Workload{}
	first.Name, first.UID, second.Name, second.UID = "first", "uid-1", "second", "uid-2"
	k := &Kueue{finding: make(chan struct{}, 1), live: interceptor.NewClient(cached.Client(t, first, second), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
	})}
	for i, tc := range []struct {
		uid, want string
		lists     int
	}{{"uid-1", "/first", 1}, {"uid-1", "/first", 1}, {"uid-2", "/second", 2}, {"uid-1", "/first", 2}, {"gone", "", 3}, {"gone", "", 3}, {"uid-2", "/second", 3}} {
		q := victim(tc.uid)
		if err := k.readPreemptor(t.Context(), q); err != nil || q.Yield.For != tc.want || lists != tc.lists {
			t.Errorf("%d: it is preempted for %q after %d lists, want %q after %d: %v", i, q.Yield.For, lists, tc.want, tc.lists, err)
		}
	}
}
