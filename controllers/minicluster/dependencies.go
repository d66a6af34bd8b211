// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// hold reads whether a MiniCluster without nodes is to be queued, and what it waits for otherwise. What is met counts once it is
// recorded: the MiniCluster that it was met by may go at any time.
func (ob *observer) hold(ctx context.Context, seen *observed) {
	mc := seen.view.MiniCluster
	if mc.Status.Admission != nil || state.IsOver(mc) {
		return
	}
	named := func(name string) *v1alpha2.MiniCluster {
		return index.Get[v1alpha2.MiniCluster](ctx, ob.cache, types.NamespacedName{Namespace: mc.Namespace, Name: name}, client.UnsafeDisableDeepCopy)
	}
	seen.met = state.Met(mc, named)
	seen.meets = !slices.Equal(seen.met, mc.Status.MetDependencies)
	seen.held = state.Held(mc, named, seen.now)
	if seen.held.Verdict == "" && kueue.Uses(mc) && ob.isKeyTaken(ctx, mc) { // with quota, it would keep others from theirs
		seen.held = elastic.Refuse(elastic.Singleton, "waits until no other MiniCluster with its singleton key runs")
	}
	switch seen.held.Verdict {
	case "":
		state.Released(mc, seen.now)
		return
	case elastic.Later:
		seen.lookAgain = mc.Spec.NotBefore.Time
	}
	mc.Status.BlockedSince = nil // it is not in its queue
}

// isKeyTaken reports whether another MiniCluster with the singleton key of one has nodes.
func (ob *observer) isKeyTaken(ctx context.Context, mc *v1alpha2.MiniCluster) bool {
	var list v1alpha2.MiniClusterList
	if mc.Spec.Singleton == "" {
		return false
	}
	err := ob.cache.List(ctx, &list, client.InNamespace(mc.Namespace), index.HasKey(mc.Spec.Singleton), client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}

// awaitOthers lets a MiniCluster that has finished stay until others have recorded that, or had the time for that since this
// manager began.
func (ob *observer) awaitOthers(ctx context.Context, seen *observed) {
	o := seen.observation
	if o.Outcome == "" || o.Policy.TTL == nil {
		return
	}
	known := o.Ended
	if began := ob.began(); began.After(known) {
		known = began
	}
	known = known.Add(state.KnownWithin)
	if seen.now.Before(known) && ob.isAwaited(ctx, seen.view.MiniCluster) {
		stays := elastic.Earliest(known, seen.now.Add(time.Second)).Sub(o.Ended)
		o.Policy.TTL = new(max(*o.Policy.TTL, stays))
	}
}

// isAwaited reports whether others have not recorded yet what they wait for of a MiniCluster.
func (ob *observer) isAwaited(ctx context.Context, mc *v1alpha2.MiniCluster) bool {
	var list v1alpha2.MiniClusterList
	err := ob.cache.List(ctx, &list, client.InNamespace(mc.Namespace), index.After(mc.Name), client.UnsafeDisableDeepCopy)
	return err != nil || slices.ContainsFunc(list.Items, func(other v1alpha2.MiniCluster) bool { return state.Awaits(&other, mc) })
}

// saidAgain is when those that wait for a MiniCluster are told of a change that does not end their wait. Many may wait for one
// that somebody makes and deletes all the time.
const saidAgain = queuedInterval

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// waiting wakes the MiniClusters that wait for another: at once if a change may end their wait.
func (w *wakeups) waiting() handler.EventHandler {
	wake := func(ctx context.Context, on client.Object, after time.Duration, q requests) {
		waits := func(mc *v1alpha2.MiniCluster) bool { return state.WaitsFor(mc, on.GetName()) }
		for _, request := range w.those(ctx, waits, client.InNamespace(on.GetNamespace()), index.After(on.GetName())) {
			q.AddAfter(request, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) {
			if !e.IsInInitialList { // all have a pass then
				wake(ctx, e.Object, saidAgain, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			old, mc := e.ObjectOld.(*v1alpha2.MiniCluster), e.ObjectNew.(*v1alpha2.MiniCluster)
			switch {
			case state.MayMeet(old, mc):
				wake(ctx, mc, 0, q)
			case state.WaitsForOthers(old, mc):
				wake(ctx, mc, saidAgain, q)
			}
			if state.HoldsKey(old) && !state.HoldsKey(mc) {
				w.wakeKey(ctx, old, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) {
			wake(ctx, e.Object, saidAgain, q)
			w.wakeKey(ctx, e.Object.(*v1alpha2.MiniCluster), q)
		},
	}
}

// wakeKey wakes the MiniClusters that do not ask Kueue for quota while another one has their singleton key.
func (w *wakeups) wakeKey(ctx context.Context, holder *v1alpha2.MiniCluster, q requests) {
	if holder.Spec.Singleton == "" {
		return
	}
	waits := func(mc *v1alpha2.MiniCluster) bool {
		return mc.Spec.Singleton == holder.Spec.Singleton && mc.Status.Admission == nil && kueue.Uses(mc)
	}
	for _, request := range w.those(ctx, waits, client.InNamespace(holder.Namespace), index.Live) {
		q.Add(request)
	}
}
