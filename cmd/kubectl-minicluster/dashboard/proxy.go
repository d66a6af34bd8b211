// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

const bearer = "Bearer "

// newProxy passes requests on to the page. Requests with the key go by known, which puts the token of the user in place of
// the key; all others go as they are.
func newProxy(key string, known, plain http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1, // the page sends events
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Cookie")                             // of other services of this machine
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "127.0.0.1" // and the Host stays, by which the page knows other pages
		},
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			who := r.Header.Get("Authorization")
			switch {
			case who == "" && strings.HasPrefix(r.URL.Path, "/api/"): // a page without a login would show all to other users of this machine
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: r}, nil
			case subtle.ConstantTimeCompare([]byte(who), []byte(bearer+key)) == 0:
				return plain.RoundTrip(r)
			}
			r = r.Clone(r.Context())
			r.Header.Del("Authorization")
			return known.RoundTrip(r)
		}),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, access.Explain(err), http.StatusBadGateway)
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// identify returns what adds the token of the user to requests, or that of a service account.
func identify(ctx context.Context, s *access.Session, w *way) (http.RoundTripper, error) {
	if w.account != "" {
		namespace, err := s.Namespace()
		if err != nil {
			return nil, err
		}
		tokens := oauth2.ReuseTokenSource(nil, tokensOf(func() (*authenticationv1.TokenRequest, error) {
			return w.clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, w.account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		}))
		return transport.TokenSourceWrapTransport(tokens)(w.transport()), nil
	}
	if w.config.Impersonate.UserName != "" {
		return nil, access.Usagef("the page knows users by their tokens, and not by --as: name a service account with --service-account")
	}
	var header string
	probe, err := rest.HTTPWrappersForConfig(w.config, roundTripper(func(r *http.Request) (*http.Response, error) {
		header = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		return nil, err
	}
	answer, err := probe.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	if !strings.HasPrefix(header, bearer) {
		return nil, errors.New("your kubeconfig has no token, but a client certificate or a password, and the page knows users by their tokens: " +
			"name a service account that may read what you want to see, with --service-account; you need the right to create serviceaccounts/token")
	}
	return rest.HTTPWrappersForConfig(w.config, w.transport())
}

// tokensOf makes tokens of a service account.
type tokensOf func() (*authenticationv1.TokenRequest, error)

// Token makes a token.
func (f tokensOf) Token() (*oauth2.Token, error) {
	made, err := f()
	if err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	return &oauth2.Token{AccessToken: made.Status.Token, Expiry: made.Status.ExpirationTimestamp.Time}, nil
}
