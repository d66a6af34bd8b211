// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// keptIdentity is how long the answer of a TokenReview counts; keptYes and keptNo are the same for a
	// SubjectAccessReview.
	keptIdentity = time.Minute
	keptYes      = time.Minute
	keptNo       = 10 * time.Second
	// mostIdentities and mostAnswers are how many answers are kept.
	mostIdentities = 1024
	mostAnswers    = 16384
	// reviewTimeout is how long a review may take.
	reviewTimeout = 10 * time.Second
	// reviewQPS and reviewBurst limit the reviews, so that viewers take nothing from the controllers. strangerQPS is apart from
	// that, for tokens that were not known within knownFor: strangers with junk keep no viewer out. viewerQPS and viewerBurst
	// are for each viewer.
	reviewQPS   = 50
	reviewBurst = 200
	strangerQPS = 20
	knownFor    = time.Hour
	viewerQPS   = 10
	viewerBurst = 150
)

// user is who looks at the page.
type user struct {
	authenticationapi.UserInfo
	// hash is of the token.
	hash [sha256.Size]byte
}

// door says who a viewer is, and what the viewer may see.
type door interface {
	// knock returns who sends a request; nil if that is not known.
	knock(r *http.Request) (*user, error)
	// may reports whether a user may read some objects.
	may(ctx context.Context, who *user, what object) (bool, error)
}

// object are objects that somebody wants to read: a verb on a resource, in a namespace or in all of them ("").
type object struct{ verb, group, resource, namespace string }

// Objects of the cluster.
var (
	allMiniClusters = miniClusters("")
	allNodes        = object{"list", "", "nodes", ""}
	allQueues       = object{"list", v1alpha2.Group, "miniclusterqueues", ""}
	allReservations = object{"list", v1alpha2.Group, "miniclusterreservations", ""}
)

// miniClusters are the MiniClusters of a namespace, or all.
func miniClusters(namespace string) object {
	return object{"list", v1alpha2.Group, "miniclusters", namespace}
}

// unlocked is a door for everybody.
type unlocked struct{}

func (unlocked) knock(*http.Request) (*user, error) {
	return &user{UserInfo: authenticationapi.UserInfo{Username: "everybody"}}, nil
}

func (unlocked) may(context.Context, *user, object) (bool, error) { return true, nil }

// guard asks the API server, and keeps its answers for a short time.
type guard struct {
	identities, strangers authenticationclient.TokenReviewInterface
	rights                authorizationclient.SubjectAccessReviewInterface
	// known are the users by the hashes of their tokens, a *user each. answers are by question, a bool each. paces are those of
	// the users who were known within knownFor, by the hashes of their tokens, a *rate.Limiter each.
	known, answers, paces *cache.LRUExpireCache
}

// question asks for a right. The hash stands for the user, since a token belongs to one.
type question struct {
	hash [sha256.Size]byte
	what object
}

func newGuard(config *rest.Config) (*guard, error) {
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
	return &guard{
		identities: identities.TokenReviews(), strangers: strangers.TokenReviews(), rights: rights.SubjectAccessReviews(),
		known: cache.NewLRUExpireCache(mostIdentities), answers: cache.NewLRUExpireCache(mostAnswers), paces: cache.NewLRUExpireCache(mostIdentities),
	}, nil
}

func (g *guard) knock(r *http.Request) (*user, error) {
	token := tokenOf(r)
	if token == "" {
		return nil, nil
	}
	hash := sha256.Sum256([]byte(token))
	if who, ok := g.known.Get(hash); ok {
		return who.(*user), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	asks := g.strangers
	if _, met := g.paces.Get(hash); met {
		asks = g.identities
	}
	review := &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: token}}
	review, err := asks.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking whose token it is: %w", err)
	}
	if !review.Status.Authenticated {
		g.paces.Remove(hash)
		return nil, nil
	}
	who := &user{review.Status.User, hash}
	g.known.Add(hash, who, keptIdentity)
	g.paces.Add(hash, g.paceOf(who), knownFor)
	return who, nil
}

// paceOf limits the questions about a user.
func (g *guard) paceOf(who *user) *rate.Limiter {
	if pace, ok := g.paces.Get(who.hash); ok {
		return pace.(*rate.Limiter)
	}
	return rate.NewLimiter(viewerQPS, viewerBurst)
}

func (g *guard) may(ctx context.Context, who *user, what object) (bool, error) {
	asked := question{who.hash, what}
	if yes, ok := g.answers.Get(asked); ok {
		return yes.(bool), nil
	}
	spec := authorizationapi.SubjectAccessReviewSpec{
		User: who.Username, Groups: who.Groups, UID: who.UID, Extra: map[string]authorizationapi.ExtraValue{},
		ResourceAttributes: &authorizationapi.ResourceAttributes{Verb: what.verb, Group: what.group, Version: "*", Resource: what.resource, Namespace: what.namespace},
	}
	for key, values := range who.Extra {
		spec.Extra[key] = authorizationapi.ExtraValue(values)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := g.paceOf(who).Wait(ctx); err != nil {
		return false, fmt.Errorf("asking what %s may see: too many questions: %w", who.Username, err)
	}
	review, err := g.rights.Create(ctx, &authorizationapi.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking what %s may see: %w", who.Username, err)
	}
	kept := keptNo
	if review.Status.Allowed {
		kept = keptYes
	}
	g.answers.Add(asked, review.Status.Allowed, kept)
	return review.Status.Allowed, nil
}

// tokenOf is the bearer token of a request; "" if there is none.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
