// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A Workload that is deleted soon after it was made is made again once the cache must have shown it.
func TestAsksAgain(t *testing.T) {
	mc, now := fixture.MiniCluster("lmp").Defaulted(), fixture.Noon
	seen := &observed{
		observation: &life.Observation{}, view: state.View{MiniCluster: mc}, stored: mc, memory: &memory{asked: now.Add(-time.Second)}, now: now,
		kueueInput: kueue.Input{MiniCluster: mc, Uses: true, Want: &kueueapi.Workload{}, Now: now},
	}
	plan, err := (&Reconciler{}).tellKueue(t.Context(), seen, life.Plan{Step: life.Wait{}, State: life.StateQueued})
	if want := now.Add(cacheDelay - time.Second); err != nil || !plan.LookAgain.Equal(want) {
		t.Errorf("it is looked at again at %s (%v), want %s", plan.LookAgain, err, want)
	}
}

// Without Kueue a MiniCluster with nodes keeps its quota. If Kueue is there and cannot be read, Kueue may not have
// admitted it yet.
func TestWithoutKueue(t *testing.T) {
	for presence, want := range map[kueue.Presence][2]life.QuotaState{
		kueue.Unknown: {life.QuotaReserved, life.QuotaUnneeded}, kueue.Away: {life.QuotaAdmitted, life.QuotaMissing}, kueue.Unread: {life.QuotaReserved, life.QuotaMissing},
	} {
		r := &Reconciler{Kueue: aKueue{presence: presence}}
		with, err := r.withoutKueue(&v1alpha2.Admission{})
		without, asked := r.withoutKueue(nil)
		if err != nil || with.State != want[0] || without.State != want[1] || errors.Is(asked, errNotSought) != (presence == kueue.Unknown) {
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

// A MiniCluster lets the Workload of an earlier one of its name go, and not its own.
func TestReleasesQuotaOfItsName(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Defaulted()
	earlier, own := workloadOf(mc, "earlier", "another"), workloadOf(mc, "own", mc.UID)
	c := indexed(t, earlier, own)
	r := &Reconciler{Client: c, Kueue: aKueue{reader: c}}
	seen := &observed{view: state.View{MiniCluster: mc}, stored: mc, memory: r.memories.of(mc), now: fixture.Noon}
	if err := r.readWorkload(t.Context(), c, seen); err != nil {
		t.Fatal(err)
	}
	if seen.unreleased != nil {
		t.Error(seen.unreleased)
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
	c := interceptor.NewClient(indexed(t, workloadOf(mc, "earlier", "another")).(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the webhook does not answer")
		},
	})
	r := &Reconciler{Client: c, Kueue: aKueue{reader: c}}
	seen := &observed{view: state.View{MiniCluster: mc}, stored: mc, memory: r.memories.of(mc), now: fixture.Noon}
	if err := r.readWorkload(t.Context(), c, seen); err != nil || seen.unreleased == nil {
		t.Errorf("reading: %v, releasing: %v", err, seen.unreleased)
	}
}
