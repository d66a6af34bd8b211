// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// apiServer knows every token but those that begin with "junk" as the name of a user with all rights, and counts the reviews.
type apiServer struct{ asked atomic.Int32 }

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	var answer any
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		review.Status.Authenticated = !strings.HasPrefix(review.Spec.Token, "junk")
		review.Status.User.Username = review.Spec.Token
		answer = review
	} else {
		answer = authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(recorder).Encode(answer)
	return recorder.Result(), err
}

// newGuard returns a guard, who asks it for the user of a token, and the API server that answers.
func newGuard(t *testing.T) (*Guard, func(ctx context.Context, token string) (*User, error), *apiServer) {
	t.Helper()
	server := &apiServer{}
	g, err := New(&rest.Config{Host: "http://reviews", Transport: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return g, func(ctx context.Context, token string) (*User, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		return g.Who(r)
	}, server
}

// Strangers with junk for tokens use up what they may cost the API server. Who was let in before comes in.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, who, server := newGuard(t)
		if user, err := who(t.Context(), "ada"); user == nil || err != nil {
			t.Fatalf("the user is %v, %v", user, err)
		}
		before := server.asked.Load()
		if user, err := who(t.Context(), "ada"); user == nil || err != nil || server.asked.Load() != before {
			t.Errorf("a moment later the user is %v, %v, after %d more reviews", user, err, server.asked.Load()-before)
		}
		var group sync.WaitGroup
		time.Sleep(Kept - reviewTimeout + time.Second)
		for range 1000 { // they wait for at most reviewTimeout
			group.Go(func() { _, _ = who(t.Context(), "junk") })
		}
		time.Sleep(reviewTimeout - time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if user, err := who(ctx, "ada"); user == nil || err != nil {
			t.Errorf("among strangers the user is %v, %v", user, err)
		}
		if user, err := who(ctx, "eve"); err == nil {
			t.Errorf("a new user is %v", user)
		}
		group.Wait()
	})
}

// A user who asks for very many rights takes nothing from other users.
func TestPaces(t *testing.T) {
	g, who, _ := newGuard(t)
	users := map[string]*User{}
	for _, token := range []string{"system:serviceaccount:one:a", "system:serviceaccount:other:a", "system:serviceaccount:other:b"} {
		user, err := who(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		users[token] = user
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for g.paceOf(users["system:serviceaccount:other:a"]).Allow() {
	}
	for token, within := range map[string]bool{"system:serviceaccount:one:a": true, "system:serviceaccount:other:a": false, "system:serviceaccount:other:b": false} {
		asks := ctx
		if within {
			asks = t.Context()
		}
		if _, err := g.May(asks, users[token], Right{Path: "/"}); (err == nil) != within {
			t.Errorf("%s asks: %v", token, err)
		}
	}
}
