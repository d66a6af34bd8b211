// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// aKueue is a Kueue that is there, and manages all namespaces.
type aKueue struct {
	Kueue
	reader   client.Reader
	presence kueue.Presence
}

func (k aKueue) Presence() kueue.Presence { return k.presence }

func (k aKueue) Reader() client.Reader { return k.reader }

func (k aKueue) Manages(context.Context, string) (bool, error) { return true, nil }

// waitingRoom is a scheduler that gives nothing.
type waitingRoom struct {
	Scheduler
	skipped, overlooks bool
	most               int
}

func (s *waitingRoom) Place(*v1alpha2.MiniCluster) (queue string, waits bool, freed time.Time) {
	return
}

func (s *waitingRoom) Overlooks(string) bool { return s.overlooks }

func (s *waitingRoom) MostPods(*corev1.Pod) int { return s.most }

func (s *waitingRoom) Report(_ *v1alpha2.MiniCluster, wants state.Wants) elastic.Offer {
	s.skipped = wants.Want == state.NoNodes
	return elastic.Offer{}
}

// indexes are the indexes of a client that is built.
type indexes struct{ *fake.ClientBuilder }

func (b indexes) IndexField(_ context.Context, object client.Object, field string, of client.IndexerFunc) error {
	b.WithIndex(object, field, of)
	return nil
}

// indexed is a client with these objects and the indexes of the manager's cache.
func indexed(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha2.AddToScheme, kueueapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := indexes{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)}
	if err := index.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b.Build()
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
			c := indexed(t, tc.queue.Obj())
			room := &waitingRoom{}
			r := &Reconciler{Client: c, Kueue: aKueue{reader: c}, Scheduler: room}
			seen := &observed{
				now: fixture.Noon, memory: r.memories.of(mc), stored: mc, view: state.View{MiniCluster: mc}, observation: &life.Observation{},
				check: &check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: fixture.Pod("x").Obj()},
			}
			if err := r.readQuota(t.Context(), seen); err != nil || seen.unasked != nil {
				t.Fatal(err, seen.unasked)
			}
			in := seen.kueueInput
			if in.Rejected != tc.rejected || (in.Want == nil) != tc.rejected {
				t.Errorf("rejected: %t, wanted: %v", in.Rejected, in.Want)
			}
			if in.Want != nil && ptr.Deref(in.Want.Spec.MaximumExecutionTimeSeconds, 0) != tc.asked {
				t.Errorf("it asks for %d s, want %d", ptr.Deref(in.Want.Spec.MaximumExecutionTimeSeconds, 0), tc.asked)
			}
			want := elastic.Offer{Verdict: elastic.WaitingForQuota, Message: "asks Kueue for quota"}
			if tc.rejected {
				want = elastic.Offer{Verdict: elastic.NotAllowed, Message: "deadlineSeconds 3601 is more than queue kueue allows (1h)"}
			}
			r.consult(seen)
			if got := seen.observation.Offer; !reflect.DeepEqual(got, want) || !room.skipped {
				t.Errorf("it is offered %+v, want %+v; skipped: %t", got, want, room.skipped)
			}
		})
	}
}

// A change of the queue of all MiniClusters with quota wakes those that wait, and that of any queue those that have nodes
// by it.
func TestQueueWakes(t *testing.T) {
	labelled := func(w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
		mc := w.Obj()
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
		return mc
	}
	waits := labelled(fixture.MiniCluster("waits"))
	has := labelled(fixture.MiniCluster("has-nodes").Admitted(1, 1, "a"))
	has.Status.Queue = "night"
	r := &Reconciler{Client: indexed(t, waits, has, fixture.MiniCluster("without").Obj())}
	for queue, wakes := range map[string][]*v1alpha2.MiniCluster{v1alpha2.KueueQueue: {waits}, "night": {has}, "other": nil} {
		var want []reconcile.Request
		for _, mc := range wakes {
			want = append(want, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		}
		if got := r.boundBy(t.Context(), fixture.Queue(queue).Obj()); !slices.Equal(got, want) {
			t.Errorf("the queue %s wakes %v", queue, got)
		}
	}
}
