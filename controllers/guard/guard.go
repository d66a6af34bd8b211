// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard asks the API server who sends a request to the manager, and what that user may do. The web page and the
// metrics have a guard each.
//
// controller-runtime has a filter of requests, too (pkg/metrics/filters), but it makes the program half as large again:
// it imports gRPC.
package guard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// Kept is how long an answer counts: who has a token, and whether a user has a right.
	Kept = time.Minute
	// mostIdentities and mostAnswers are how many answers are kept.
	mostIdentities = 1024
	mostAnswers    = 16384
	// reviewTimeout is how long a review may take.
	reviewTimeout = 10 * time.Second
	// reviewQPS and reviewBurst limit the reviews, so that users take nothing from the controllers. strangerQPS is apart from
	// that, for tokens that were not known within knownFor: strangers with junk keep no user out. userQPS and userBurst are
	// for each budget of users.
	reviewQPS   = 100
	reviewBurst = 200
	strangerQPS = 20
	knownFor    = time.Hour
	userQPS     = 25
	userBurst   = 150
)

// User is who sends a request.
type User struct {
	authenticationv1.UserInfo
	// hash is of the token.
	hash [sha256.Size]byte
}

// Budget names those who share one bound: all ServiceAccounts of a namespace, since whoever may write there may make any number,
// and every user else.
func (u *User) Budget() string {
	if account, isAccount := strings.CutPrefix(u.Username, "system:serviceaccount:"); isAccount {
		namespace, _, _ := strings.Cut(account, ":")
		return "system:serviceaccounts:" + namespace
	}
	return u.Username
}

// Right is what a user wants to do: a verb on a path of the server, or on a resource in a namespace or in all of them
// ("").
type Right struct{ Verb, Path, Group, Resource, Namespace string }

// Guard asks the API server, and keeps its answers for a short time.
type Guard struct {
	identities, strangers authenticationclient.TokenReviewInterface
	rights                authorizationclient.SubjectAccessReviewInterface
	// known are the users by the hashes of their tokens, a *User each. answers are by question, a bool each. met has the hashes
	// of tokens that were known within knownFor, and paces the limits of budgets, a *rate.Limiter each.
	known, answers, met, paces *cache.LRUExpireCache
	// mutex is held while a limit is made.
	mutex sync.Mutex
}

// question asks for a right. The hash stands for the user, since a token belongs to one.
type question struct {
	hash  [sha256.Size]byte
	right Right
}

// New returns a guard that asks an API server.
func New(config *rest.Config) (*Guard, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = reviewQPS, reviewBurst, reviewTimeout
	identities, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for TokenReviews: %w", err)
	}
	rights, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for SubjectAccessReviews: %w", err)
	}
	config.QPS, config.Burst = strangerQPS, strangerQPS
	strangers, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for TokenReviews of strangers: %w", err)
	}
	return &Guard{
		identities: identities.TokenReviews(), strangers: strangers.TokenReviews(), rights: rights.SubjectAccessReviews(),
		known: cache.NewLRUExpireCache(mostIdentities), answers: cache.NewLRUExpireCache(mostAnswers),
		met: cache.NewLRUExpireCache(mostIdentities), paces: cache.NewLRUExpireCache(mostIdentities),
	}, nil
}

// Who returns who sends a request; nil if that is not known.
func (g *Guard) Who(r *http.Request) (*User, error) {
	token := Token(r)
	if token == "" {
		return nil, nil
	}
	hash := sha256.Sum256([]byte(token))
	if who, ok := g.known.Get(hash); ok {
		return who.(*User), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	asks := g.strangers
	if _, met := g.met.Get(hash); met {
		asks = g.identities
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := asks.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking whose token it is: %w", err)
	}
	if !review.Status.Authenticated {
		g.met.Remove(hash)
		return nil, nil
	}
	who := &User{review.Status.User, hash}
	g.known.Add(hash, who, Kept)
	g.met.Add(hash, true, knownFor)
	return who, nil
}

// paceOf limits the questions about a user.
func (g *Guard) paceOf(who *User) *rate.Limiter {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	pace, ok := g.paces.Get(who.Budget())
	if !ok {
		pace = rate.NewLimiter(userQPS, userBurst)
		g.paces.Add(who.Budget(), pace, knownFor)
	}
	return pace.(*rate.Limiter)
}

// May reports whether a user has a right.
func (g *Guard) May(ctx context.Context, who *User, right Right) (bool, error) {
	asked := question{who.hash, right}
	if yes, ok := g.answers.Get(asked); ok {
		return yes.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := g.paceOf(who).Wait(ctx); err != nil {
		return false, fmt.Errorf("asking what %s may do: too many questions: %w", who.Username, err)
	}
	review, err := g.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: specOf(who, right)}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking what %s may do: %w", who.Username, err)
	}
	g.answers.Add(asked, review.Status.Allowed, Kept)
	return review.Status.Allowed, nil
}

// specOf is the question for the API server: whether a user has a right.
func specOf(who *User, right Right) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, Groups: who.Groups, UID: who.UID, Extra: map[string]authorizationv1.ExtraValue{},
	}
	for key, values := range who.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if right.Path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: right.Verb, Path: right.Path}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: right.Verb, Group: right.Group, Version: "*", Resource: right.Resource, Namespace: right.Namespace,
		}
	}
	return spec
}

// Token is the bearer token of a request; "" if there is none.
func Token(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
