// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// A refused eviction is one request, whatever time the API server names for the next: others wait for the pass.
func TestEvictPod(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		answer *apierrors.StatusError
		kept   bool
	}{
		"a budget allows none":        {ofBudget(0), true},
		"a budget is not known yet":   {ofBudget(10), true},
		"it has several budgets":      {&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}, true},
		"the API server has no time":  {apierrors.NewTooManyRequests("too many requests, please try again later", 1), false},
		"the API server has an error": {apierrors.NewInternalError(errStillThere), false},
		"a webhook does not answer":   {&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: failed calling webhook"}}, false},
		"it may not":                  {apierrors.NewForbidden(pods, "x", errStillThere), false},
		"the pod is gone":             {apierrors.NewNotFound(pods, "x"), false},
		"another pod is in its place": {apierrors.NewConflict(pods, "x", errStillThere), false},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				if details := tc.answer.ErrStatus.Details; details != nil && details.RetryAfterSeconds > 0 {
					w.Header().Set("Retry-After", "1")
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(tc.answer.ErrStatus.Code))
				tc.answer.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				_ = json.NewEncoder(w).Encode(tc.answer.ErrStatus) // the client reports what is missing
			}))
			defer server.Close()
			core, err := typedcorev1.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = (&podWriter{core: core.RESTClient()}).evictPod(t.Context(), fixture.Pod("x").Obj())
			if isKept(err) != tc.kept || (err == nil) != (name == "the pod is gone") {
				t.Errorf("got %v", err)
			}
			if requests != 1 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}

// ofBudget is the answer of a disruption budget, which may name the seconds until the next request.
func ofBudget(seconds int) *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "about the budget"}}
	return err
}

// Who deletes pods with a long grace period keeps their nodes for as long as the queue lets a MiniCluster claim.
func TestShorten(t *testing.T) {
	leaving := func(name string, grace int64) *corev1.Pod {
		pod := fixture.BrokerPod("lmp", 0).On("n0").Obj()
		pod.Name, pod.UID, pod.Finalizers = name, types.UID(name), []string{"a/b"}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(fixture.Noon)), new(grace)
		return pod
	}
	own := leaving("of-its-own", 3600)
	own.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	ended := leaving("ended", 1e9)
	ended.Status.Phase = corev1.PodFailed
	pods := []*corev1.Pod{leaving("years", 1e9), leaving("minutes", 600), own, ended}
	deleted := map[string]int64{}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, pod client.Object, options ...client.DeleteOption) error {
			var of client.DeleteOptions
			of.ApplyOptions(options)
			deleted[pod.GetName()] = *of.GracePeriodSeconds
			return nil
		},
	}).Build()
	seen := seenOf(t, fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[0-1]").Defaulted())
	for _, pod := range pods {
		seen.view.Pods = append(seen.view.Pods, protocol.Read(protocol.Strip(pod)))
	}
	if err := (&podWriter{client: c}).shorten(t.Context(), seen); err != nil || !maps.Equal(deleted, map[string]int64{"years": 600}) {
		t.Errorf("%v, %v", deleted, err)
	}
}

// Since when evictions are refused is remembered for as long as they are.
func TestNoteKept(t *testing.T) {
	var m memory
	at := func(minute int) time.Time { return fixture.Noon.Add(time.Duration(minute) * time.Minute) }
	m.noteKept([]types.UID{"a", "b"}, at(0))
	m.noteKept([]types.UID{"b", "c"}, at(1))
	if len(m.kept) != 2 || !m.kept["b"].Equal(at(0)) || !m.kept["c"].Equal(at(1)) {
		t.Errorf("it remembers %v", m.kept)
	}
	m.noteKept([]types.UID{"a"}, at(2))
	if len(m.kept) != 1 || !m.kept["a"].Equal(at(2)) {
		t.Errorf("it remembers %v", m.kept)
	}
}
