// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/controllers/guard"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

//go:embed page
var files embed.FS

const (
	// mostStreams is how many streams are open at once, and mostStreamsOfOne how many of a user: two for each page with an open
	// MiniCluster. mostAsks and mostAsksOfOne are the same for logs and events, which the API server is asked for.
	mostStreams, mostStreamsOfOne = 64, 16
	mostAsks, mostAsksOfOne       = 8, 2
	// writeTimeout is how long a viewer may take to receive an answer, or an event of a stream.
	writeTimeout = 20 * time.Second
	// headerTimeout and idleTimeout bound connections that do nothing.
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	mostHeader    = 64 << 10
)

// Options are the settings of the page.
type Options struct {
	// Address is where the page is served. It must be a loopback address: tokens go to the page without
	// encryption.
	Address string
	// Open lets everybody who reaches the address see everything, without a token.
	Open bool
	// Client reads the manager's cache.
	Client client.Reader
	// Config is how to reach the API server.
	Config *rest.Config
	Clock  clock.WithTicker
	// Topology are the levels of the topology. Batch selects the nodes that brokers may use.
	Topology []state.TopologyLevel
	Batch    labels.Selector
}

// Server serves the page. It runs in every manager, whether or not that manager leads.
type Server struct {
	options Options
	source  *source
	door    door
	streams *places
	asks    *places
	handler http.Handler
}

// New makes a server.
func New(o Options) (*Server, error) {
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	if o.Open {
		return newServer(o, unlocked{})
	}
	d, err := guard.New(o.Config)
	if err != nil {
		return nil, err
	}
	return newServer(o, d)
}

func newServer(o Options, d door) (*Server, error) {
	page, err := fs.Sub(files, "page")
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, door: d, source: newSource(o), streams: newPlaces(mostStreams, mostStreamsOfOne), asks: newPlaces(mostAsks, mostAsksOfOne)}
	if o.Open { // all viewers are one user
		s.streams, s.asks = newPlaces(mostStreams, mostStreams), newPlaces(mostAsks, mostAsks)
	}
	routes := http.NewServeMux()
	routes.Handle("GET /", http.FileServerFS(page))
	routes.HandleFunc("GET /api/view", s.admit(s.stream(s.view)))
	routes.HandleFunc("GET /api/miniclusters/{namespace}/{name}", s.admit(s.stream(s.life)))
	routes.HandleFunc("GET /api/miniclusters/{namespace}/{name}/log", s.admit(s.ask(s.log)))
	routes.HandleFunc("GET /api/miniclusters/{namespace}/{name}/events", s.admit(s.ask(s.events)))
	s.handler = secured(routes, o.Open)
	return s, nil
}

// checkAddress returns an error for an address that others than this host, or this pod, can reach.
func checkAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading the address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is no loopback address, such as 127.0.0.1:8082: viewers would send their tokens without encryption; reach the page by kubectl port-forward", address)
	}
	return nil
}

// NeedLeaderElection lets the server run in managers that do not lead.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves the page until the context is done.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("serving the dashboard: %w", err)
	}
	server := &http.Server{
		Handler: s.handler, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: mostHeader,
	}
	go s.source.run(ctx)
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	ctrl.Log.WithName("dashboard").Info("serving the dashboard", "address", listener.Addr().String(), "open", s.options.Open)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the dashboard: %w", err)
	}
	return nil
}

// policy lets the page load and run nothing but its own files, and forbids its scripts to turn text into
// markup. So a name or a message is never more than text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secured adds the headers that protect the page. A page without tokens answers only those who ask for it by a
// name of this host, so that no other web page can read it by a name of its own (DNS rebinding).
func secured(next http.Handler, open bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open && !isLocal(r.Host) {
			http.Error(w, "The dashboard answers to localhost and to loopback addresses only.", http.StatusForbidden)
			return
		}
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		_ = http.NewResponseController(w).SetWriteDeadline(deadline())
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a Host header names this host.
func isLocal(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return checkAddress(net.JoinHostPort(name, "0")) == nil
}
