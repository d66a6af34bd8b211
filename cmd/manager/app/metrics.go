// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
)

const (
	// reviewTimeout is how long the API server may take to say who reads the metrics, and whether they may.
	reviewTimeout = 10 * time.Second
	// reviewQPS limits what strangers can cost the API server, in requests per second, and, apart from that, what readers can
	// who have been let in within readerFor.
	reviewQPS = 20
	readerFor = time.Hour
	// freshFor is how long a reader is let in without another review. mostReaders bounds how many are remembered.
	freshFor    = time.Minute
	mostReaders = 1000
	// failureInterval is the shortest time between two messages about reviews that failed.
	failureInterval = 10 * time.Second
)

// metricsOptions says how the metrics are served. The server reads the certificate of a directory again when its files
// change.
func metricsOptions(o *options.Options) (metricsserver.Options, error) {
	server := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return server, nil
	}
	server.SecureServing, server.CertDir, server.FilterProvider = true, o.MetricsCertDir, newReviewer
	if o.MetricsCertDir != "" { // without the files, the server would make a certificate of its own
		if _, err := tls.LoadX509KeyPair(filepath.Join(o.MetricsCertDir, "tls.crt"), filepath.Join(o.MetricsCertDir, "tls.key")); err != nil {
			return server, fmt.Errorf("--metrics-cert-dir: %w", err)
		}
	}
	return server, nil
}

// reviewer asks the API server about requests. controller-runtime has such a filter, too (filters), but with it the
// program is half as large again: it imports gRPC.
type reviewer struct {
	// Strangers who fill their budget of requests do not keep readers out, who have another one.
	strangers, readers *reviews
	mutex              sync.Mutex
	// let is when requests were last let in, by a hash of token, verb and path.
	let map[[sha256.Size]byte]time.Time
	// failed tells of failures now and then.
	failed rate.Sometimes
}

// reviews are requests to the API server with a budget.
type reviews struct {
	tokens authenticationclient.TokenReviewInterface
	rights authorizationclient.SubjectAccessReviewInterface
}

func newReviews(config *rest.Config, httpClient *http.Client) (*reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewQPS, reviewQPS
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	rights, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	return &reviews{tokens.TokenReviews(), rights.SubjectAccessReviews()}, nil
}

// newReviewer returns a filter of requests: to pass, a request needs a bearer token of a user who has the right to its
// path.
func newReviewer(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	strangers, err := newReviews(config, httpClient)
	if err != nil {
		return nil, err
	}
	readers, err := newReviews(config, httpClient)
	if err != nil {
		return nil, err
	}
	r := &reviewer{strangers: strangers, readers: readers, let: map[[sha256.Size]byte]time.Time{}, failed: rate.Sometimes{Interval: failureInterval}}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
			status, err := r.review(ctx, request)
			cancel()
			if err != nil {
				r.failed.Do(func() { log.Error(err, "Could not ask the API server about a request") })
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			handler.ServeHTTP(w, request)
		}), nil
	}, nil
}

// review returns the status of the answer to a request: OK if the request passes.
func (r *reviewer) review(ctx context.Context, request *http.Request) (status int, err error) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	verb := strings.ToLower(request.Method)
	id := sha256.Sum256([]byte(token + "\n" + verb + "\n" + request.URL.Path))
	since, isReader := r.lastLet(id)
	asks := r.strangers
	switch {
	case isReader && since < freshFor:
		return http.StatusOK, nil
	case isReader:
		asks = r.readers
	}
	status, err = asks.review(ctx, token, verb, request.URL.Path)
	r.note(id, status)
	return status, err
}

// lastLet is how long ago such a request was let in; ok is false if none was within readerFor.
func (r *reviewer) lastLet(id [sha256.Size]byte) (ago time.Duration, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at, ok := r.let[id]
	ago = time.Since(at)
	return ago, ok && ago < readerFor
}

// note remembers who was let in, and forgets who was turned away.
func (r *reviewer) note(id [sha256.Size]byte, status int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch status {
	case http.StatusOK:
		if len(r.let) >= mostReaders {
			clear(r.let)
		}
		r.let[id] = time.Now()
	case http.StatusUnauthorized, http.StatusForbidden:
		delete(r.let, id)
	}
}

// review asks whose a token is, and whether the user has a right.
func (r *reviews) review(ctx context.Context, token, verb, path string) (status int, err error) {
	who, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	right := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	for key, values := range user.Extra {
		right.Extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := r.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: right}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, fmt.Errorf("reviewing the rights of %q: %w", user.Username, err)
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
