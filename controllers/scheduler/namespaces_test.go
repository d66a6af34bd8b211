// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// tenants is a toy whose cache has the namespace of its MiniClusters.
type tenants struct {
	*toy
	client client.Client
}

func newTenants(q *toy) *tenants {
	s := &tenants{q, fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()}
	s.Cache = s.client
	return s
}

// label makes the namespace, or changes its labels, of which the scheduler hears. It reports whether that
// asks for a cycle.
func (s *tenants) label(labels map[string]string) (asked bool) {
	s.t.Helper()
	s.due.changed = false
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	before := &corev1.Namespace{}
	after := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first.Obj().Namespace, Labels: labels}}
	var err error
	if s.client.Get(s.t.Context(), client.ObjectKeyFromObject(after), before) != nil {
		err = s.client.Create(s.t.Context(), after)
		s.namespaces().Create(s.t.Context(), event.CreateEvent{Object: after}, q)
	} else {
		err = s.client.Update(s.t.Context(), after)
		s.namespaces().Update(s.t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return s.due.changed && q.Len() > 0
}

func team(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
}

// A queue serves a waiting MiniCluster while its selector selects the namespace, also if the cache shows the
// namespace later, and if the labels of the namespace or the selector change.
func TestSchedulerServesSelectedNamespaces(t *testing.T) {
	q := newTenants(newQueue(t, "a", "b"))
	selected := q.seen.queues[0]
	selected.Spec.NamespaceSelector = team("a")
	is := func(step string, allowed bool) {
		t.Helper()
		q.offer(first)
		q.cycle()
		got := q.offer(first)
		if refused := got.Verdict == elastic.NotAllowed && strings.Contains(got.Message, "is not for namespace"); refused == allowed {
			t.Errorf("%s: it is %s (%s)", step, got.Verdict, got.Message)
		}
		q.Forget(client.ObjectKeyFromObject(first.Obj())) // it is offered nodes anew
	}
	is("before the namespace is known", false)
	if !q.label(map[string]string{"team": "a"}) {
		t.Error("a new namespace asks for no cycle")
	}
	is("once it is known", true)
	if !q.label(map[string]string{"team": "b"}) {
		t.Error("other labels ask for no cycle")
	}
	is("of another team", false)
	if q.label(map[string]string{"team": "b"}) {
		t.Error("the same labels ask for a cycle")
	}
	selected.Spec.NamespaceSelector = team("b")
	is("after the selector has changed", true)
}

// A queue that does not serve a namespace any more takes no nodes from its gangs, and gives them no more.
func TestSchedulerGrowsNoBarredGang(t *testing.T) {
	q := newTenants(newSpecialQueue(t))
	selected := strict(v1alpha2.DefaultQueue)
	selected.Spec.NamespaceSelector = team("a")
	q.seen.queues = []*v1alpha2.MiniClusterQueue{selected}
	q.seen.miniClusters = append(q.seen.miniClusters, runsOn(4).Obj())
	q.Order(runsOn(4).Obj(), special(), nil)
	q.label(map[string]string{"team": "b"})
	q.cycle()
	if order := q.Order(runsOn(4).Obj(), special(), nil); order != nil {
		t.Errorf("in a queue of others it is ordered %+v", order)
	}
	q.label(map[string]string{"team": "a"})
	q.cycle()
	if _, grows := q.Order(runsOn(4).Obj(), special(), nil).(elastic.Grow); !grows {
		t.Error("in a queue for its namespace it does not grow")
	}
}
