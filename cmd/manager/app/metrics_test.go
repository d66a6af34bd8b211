// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
)

// A certificate that is asked for is never replaced by one that nobody knows.
func TestMetricsCertificate(t *testing.T) {
	dir := t.TempDir()
	o, err := options.Parse([]string{"--metrics-secure", "--metrics-cert-dir=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := metricsOptions(o); err == nil || !strings.HasPrefix(err.Error(), "--metrics-cert-dir: open "+dir) {
		t.Errorf("without files: got %v", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if server, err := metricsOptions(o); err != nil || server.CertDir != dir || !server.SecureServing || server.FilterProvider == nil {
		t.Errorf("with files: got %+v, %v", server, err)
	}
}

// apiServer answers reviews: a token is valid if it is the user's name, and the user may what `may` says.
func apiServer(t *testing.T, may func(authorizationv1.SubjectAccessReviewSpec) bool) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var review authenticationv1.TokenReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			user := authenticationv1.UserInfo{Username: review.Spec.Token, UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token != "stranger", User: user}
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			review.Status.Allowed = may(review.Spec)
			answer = review
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// answerOf returns the status of a request with a header, by a new filter that asks a server.
func answerOf(t *testing.T, config *rest.Config, authorization string) int {
	t.Helper()
	filter, err := newFilter(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	if err != nil {
		t.Fatal(err)
	}
	request, answer := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
	request.Header.Set("Authorization", authorization)
	handler.ServeHTTP(answer, request)
	return answer.Code
}

// A request passes if the API server says so of all that it knows about the user, and never else.
func TestMetricsFilter(t *testing.T) {
	config := apiServer(t, func(asked authorizationv1.SubjectAccessReviewSpec) bool {
		want := authorizationv1.SubjectAccessReviewSpec{
			User: asked.User, UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("-want +asked:\n%s", diff)
		}
		return asked.User == "reader"
	})
	for authorization, want := range map[string]int{
		"":                http.StatusUnauthorized,
		"Bearer":          http.StatusUnauthorized,
		"Bearer ":         http.StatusUnauthorized,
		"Basic reader":    http.StatusUnauthorized,
		"Bearer stranger": http.StatusUnauthorized,
		"Bearer other":    http.StatusForbidden,
		"Bearer reader":   http.StatusNoContent,
		"bearer reader":   http.StatusNoContent,
	} {
		if got := answerOf(t, config, authorization); got != want {
			t.Errorf("%q: got %d, want %d", authorization, got, want)
		}
	}
	if got := answerOf(t, &rest.Config{Host: "http://127.0.0.1:1"}, "Bearer reader"); got != http.StatusInternalServerError {
		t.Errorf("no API server: got %d", got)
	}
}
