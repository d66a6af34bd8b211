// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// What a webhook says about something that is asked.
const (
	allows       = ""
	hangsUp      = "hangs up"
	webhookThere = "the webhook is there"
)

// webhookOf is a webhook about what is created of a kind in the namespace of a site. verdict says what the webhook says:
// that it allows, that it hangs up, or why it denies.
func webhookOf(s *site, group, resource string, verdict func() string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	s.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint("no request: ", err), http.StatusBadRequest)
			return
		}
		words := verdict()
		switch {
		case words == hangsUp:
			panic(http.ErrAbortHandler)
		case words == allows && review.Request.Name == "probe":
			words = webhookThere
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: words == allows, Result: &metav1.Status{Message: words}}
		_ = json.NewEncoder(w).Encode(review) // the API server says if it did not arrive
	}))
	s.t.Cleanup(server.Close)
	name := fmt.Sprintf("%s-%s.example.com", s.namespace, resource)
	rule := policyOf(s, group, resource, "", "").Spec.MatchConstraints
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    name,
			NamespaceSelector:       rule.NamespaceSelector,
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule.ResourceRules[0].RuleWithOperations},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	}
}

// A webhook that does not answer, and that has to agree, keeps a MiniCluster waiting without nodes. Once the webhook answers,
// its own words are told; and once it allows, the MiniCluster starts.
func TestWebhook(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ group, resource string }{{"", "pods"}, {"", "secrets"}, {"batch", "jobs"}} {
		t.Run(kind.resource, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 2)
			record := s.newRecord()
			var says atomic.Value
			says.Store(hangsUp)
			s.createObject(webhookOf(s, kind.group, kind.resource, func() string { return says.Load().(string) }))
			mc := s.create(s.miniCluster("two").Size(2))
			s.await(mc, "waiting for the webhook", func(mc *v1alpha2.MiniCluster) bool {
				c := condition(mc, v1alpha2.ConditionAdmitted)
				return state(mc) == v1alpha2.StateQueued && c.Reason == v1alpha2.ReasonNotChecked && strings.Contains(c.Message, "cannot be checked: failed calling webhook")
			})
			says.Store("the budget of physics is spent")
			s.await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
				return state(mc) == v1alpha2.StateRejected && strings.Contains(told(mc), "denied the request: the budget of physics is spent")
			})
			says.Store(allows)
			s.awaitSuccess(mc)
			record.hadNodes(s, mc, 1)
		})
	}
}

// A webhook that does not answer once a MiniCluster has its nodes does not lose them for it: what the webhook is asked for is
// asked again.
func TestWebhookGoesAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	var says atomic.Value
	says.Store(allows)
	s.createObject(webhookOf(s, "discovery.k8s.io", "endpointslices", func() string { return says.Load().(string) }))
	mc := s.create(s.waiting("two", 2, "*"))
	s.await(mc, "with nodes", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Nodes == 2 })
	says.Store(hangsUp)
	s.letStart(mc, 0)
	s.await(mc, "told that the webhook does not answer", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && strings.Contains(condition(mc, v1alpha2.ConditionReady).Message, "failed calling webhook")
	})
	says.Store(allows)
	s.letStart(mc, 1)
	s.awaitSuccess(mc)
	if mc.Status.Runs != 1 || mc.Status.Admission.Attempt != 1 {
		t.Errorf("the command ran %d times, in the attempt %d", mc.Status.Runs, mc.Status.Admission.Attempt)
	}
}

// hadNodes checks in all states of a MiniCluster that has ended how often it had nodes: some number of want.
func (r *record) hadNodes(s *site, mc *v1alpha2.MiniCluster, want ...int) {
	s.t.Helper()
	r.await(s, mc, "seen to have ended", func(mc *v1alpha2.MiniCluster) bool { return outcome(&mc.Status) != "" && mc.Status.Nodes == 0 })
	if got := r.of(mc).stays; !slices.Contains(want, len(got)) {
		s.t.Errorf("%s had nodes %d times, want %v: %+v", mc.Name, len(got), want, got)
	}
}
