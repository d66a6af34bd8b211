// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/controllers/guard"
)

// failureInterval is the shortest time between two messages about requests that the API server was not asked about.
const failureInterval = 10 * time.Second

// metricsOptions says how the metrics are served. The server reads the certificate of a directory again when its files
// change.
func metricsOptions(o *options.Options) (metricsserver.Options, error) {
	server := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return server, nil
	}
	server.SecureServing, server.CertDir, server.FilterProvider = true, o.MetricsCertDir, newFilter
	if o.MetricsCertDir != "" { // without the files, the server would make a certificate of its own
		if _, err := tls.LoadX509KeyPair(filepath.Join(o.MetricsCertDir, "tls.crt"), filepath.Join(o.MetricsCertDir, "tls.key")); err != nil {
			return server, fmt.Errorf("--metrics-cert-dir: %w", err)
		}
	}
	return server, nil
}

// newFilter returns a filter of requests: to pass, a request needs a bearer token of a user who has the right to its path.
func newFilter(config *rest.Config, _ *http.Client) (metricsserver.Filter, error) {
	door, err := guard.New(config)
	if err != nil {
		return nil, err
	}
	failed := &rate.Sometimes{Interval: failureInterval}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := statusOf(door, r)
			if err != nil {
				failed.Do(func() { log.Error(err, "Could not ask the API server about a request") })
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			handler.ServeHTTP(w, r)
		}), nil
	}, nil
}

// statusOf returns the status of the answer to a request: OK if the request passes.
func statusOf(door *guard.Guard, r *http.Request) (int, error) {
	who, err := door.Who(r)
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case who == nil:
		return http.StatusUnauthorized, nil
	}
	may, err := door.May(r.Context(), who, guard.Right{Verb: strings.ToLower(r.Method), Path: r.URL.Path})
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case !may:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
