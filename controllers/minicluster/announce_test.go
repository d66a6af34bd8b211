// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// A decision is told once, whoever tells it and how often it is tried.
func TestAnnounceOnce(t *testing.T) {
	creates, fail := 0, error(nil)
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			creates++
			if fail != nil {
				return fail
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
	reconciler := func(at time.Time) *Reconciler {
		return &Reconciler{Client: api, Clock: testingclock.NewFakePassiveClock(at)}
	}
	decided := func(at time.Time, reason string) *v1alpha2.MiniCluster {
		mc := fixture.MiniCluster("lmp").Obj()
		mc.Status.LastDecision = &v1alpha2.Decision{Time: metav1.NewMicroTime(at), Type: "Normal", Reason: reason, Message: "because"}
		return mc
	}
	events := func() int {
		var list eventsv1.EventList
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Note != "because" || e.Regarding.Name != "lmp" || e.Reason == "" || e.Action == "" || e.ReportingInstance == "" {
				t.Errorf("it said %+v", e)
			}
		}
		return len(list.Items)
	}
	r := reconciler(fixture.Noon)
	tell := func(mc *v1alpha2.MiniCluster) error { return r.announce(t.Context(), mc, r.memories.of(mc)) }

	fail = errors.New("away")
	if err := tell(decided(fixture.Noon, "Started")); err == nil || events() != 0 {
		t.Errorf("it told nobody, and says %v", err)
	}
	fail = nil
	for range 3 {
		if err := tell(decided(fixture.Noon, "Started")); err != nil {
			t.Fatal(err)
		}
	}
	if n := events(); n != 1 || creates != 2 {
		t.Errorf("%d events, %d writes", n, creates)
	}
	r = reconciler(fixture.Noon.Add(time.Minute)) // another manager
	if err := tell(decided(fixture.Noon, "Started")); err != nil || events() != 1 {
		t.Errorf("%d events (%v)", events(), err)
	}
	if err := tell(decided(fixture.Noon.Add(time.Second), "Succeeded")); err != nil || events() != 2 {
		t.Errorf("%d events (%v)", events(), err)
	}
	creates = 0
	r = reconciler(fixture.Noon.Add(time.Hour)) // when the events may be gone
	if err := tell(decided(fixture.Noon.Add(time.Second), "Succeeded")); err != nil || creates != 0 {
		t.Errorf("it told what is long past (%v)", err)
	}
	// An event that is refused holds up nobody.
	fail = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("quota"))
	if err := tell(decided(fixture.Noon.Add(time.Hour), "Started")); err != nil {
		t.Error(err)
	}
}
