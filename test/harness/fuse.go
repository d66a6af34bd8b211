// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// Fuse is a proxy to the API server that counts a manager's writes by kind, and kills a program at one
// of them: just before the write, or when the write has taken effect and the manager does not know.
type Fuse struct {
	// Kubeconfig is that of the proxy, with the rights of the manager's service account.
	Kubeconfig string
	// DryRuns counts dry runs, and Reads counts requests for single objects and lists.
	DryRuns, Reads atomic.Int64

	mutex  sync.Mutex
	counts map[string]int // writes that were seen, by kind
	blowAt Write
	blow   func()
	blown  bool
	// told are the events of decisions, each with how often it was sent, where the manager is
	// killed at every one of them; else nil.
	told map[string]int
	// held is not nil while events are not answered.
	held  chan struct{}
	proxy *httputil.ReverseProxy
	// cut is closed once nothing gets through any more, and disconnect ends the connections that there are.
	cut        chan struct{}
	disconnect func()
}

// Write is the N-th write of a kind, such as "PATCH pods". The zero value is none.
type Write struct {
	Kind   string
	N      int
	Before bool
}

func (w Write) String() string {
	return fmt.Sprintf("%s/%d/before=%v", strings.ReplaceAll(w.Kind, "/", "-"), w.N, w.Before)
}

// NewFuse starts a proxy to the cluster, which lets everything through.
func (c *Cluster) NewFuse(t *testing.T) *Fuse {
	t.Helper()
	config, err := c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = SystemIdentity
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fuse{counts: map[string]int{}, cut: make(chan struct{}), proxy: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	server := httptest.NewServer(f)
	f.disconnect = server.CloseClientConnections
	t.Cleanup(f.disconnect)
	f.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := WriteKubeconfig(c.Cluster, f.Kubeconfig, server.URL, SystemIdentity); err != nil {
		t.Fatal(err)
	}
	return f
}

// Set begins to count anew, and lets the fuse blow at a write. After that no write gets through until
// the fuse is mended, or set again.
func (f *Fuse) Set(at Write, blow func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.counts, f.blowAt, f.blow, f.blown = map[string]int{}, at, blow, false
}

// Mend lets all writes through from now on, and reports whether the fuse had blown.
func (f *Fuse) Mend() (blown bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	blown = f.blown
	f.blowAt, f.blow, f.blown = Write{}, nil, false
	return blown
}

// Seen returns how many writes were seen, by kind.
func (f *Fuse) Seen() map[string]int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return maps.Clone(f.counts)
}

// Eventually ends the test unless an attempt succeeds in time. `revive` starts the program again if the
// fuse has killed it.
func (f *Fuse) Eventually(t *testing.T, revive func() error, attempt func() error) {
	t.Helper()
	Eventually(t, func() error {
		if f.hasBlown() {
			f.Mend()
			if err := revive(); err != nil {
				return Final(err)
			}
		}
		return attempt()
	})
}

func (f *Fuse) hasBlown() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.blown
}

// AtEveryWrite lives a life without a kill. Then it lives one for each write of some kinds that there
// was, and for before and after this write. A life has writes of all these kinds. AtEveryWrite returns
// how many writes of other kinds there were.
func (f *Fuse) AtEveryWrite(t *testing.T, live func(t *testing.T, at Write), kinds ...string) (others map[string]int) {
	t.Helper()
	var quiet map[string]int
	t.Run("never", func(t *testing.T) {
		live(t, Write{})
		quiet = f.Seen()
	})
	t.Logf("the writes of a life: %v", quiet)
	for _, kind := range kinds {
		if quiet[kind] == 0 {
			t.Errorf("a life has no %s", kind)
		}
		for n := 1; n <= quiet[kind]; n++ {
			for _, before := range []bool{true, false} {
				at := Write{kind, n, before}
				t.Run(at.String(), func(t *testing.T) { live(t, at) })
			}
		}
		delete(quiet, kind)
	}
	return quiet
}

// kindOf is the kind of a write that matters; "" for others: events do not, and dry
// runs write nothing.
func kindOf(r *http.Request) string {
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	parts := strings.Split(path, "/") // namespace, resource, name, subresource
	if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" || !namespaced || len(parts) < 2 || parts[1] == "events" {
		return ""
	}
	kind := r.Method + " " + parts[1]
	if len(parts) > 3 {
		kind += "/" + parts[3]
	}
	return kind
}

// AtEvents lets the fuse blow twice at every event of the manager's: before the event is written, and
// when it is sent again, after that. Until there is something to blow, no event is written.
func (f *Fuse) AtEvents(blow func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.told == nil {
		f.told = map[string]int{}
	}
	f.blow, f.blown = blow, blow == nil
}

// eventName is how an event is called, in whatever way it is encoded.
var eventName = regexp.MustCompile(`[-a-z0-9]+\.[0-9a-f]{16}`)

func (f *Fuse) tell(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.blown {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	name := string(eventName.Find(body))
	f.told[name]++
	n := f.told[name]
	if n == 2 {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n <= 2 {
		f.blown = true
		f.blow()
		panic(http.ErrAbortHandler)
	}
	f.proxy.ServeHTTP(w, r)
}

// Hold leaves events unanswered until the function that it returns is called.
func (f *Fuse) Hold() (release func()) {
	f.held = make(chan struct{})
	return sync.OnceFunc(func() { close(f.held) })
}

// Cut ends all connections, and leaves every further request without an answer, as a network that is cut.
func (f *Fuse) Cut() {
	close(f.cut)
	f.disconnect()
}

// ServeHTTP answers a request as the API server does, unless the fuse has blown.
func (f *Fuse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-f.cut:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	default:
	}
	kind := kindOf(r)
	switch query := r.URL.Query(); {
	case query.Get("dryRun") != "":
		f.DryRuns.Add(1)
	case r.Method == http.MethodGet && query.Get("watch") == "":
		f.Reads.Add(1)
	}
	isEvent := r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/events.k8s.io/")
	if f.held != nil && isEvent {
		select {
		case <-f.held:
		case <-r.Context().Done(): // the manager does not wait any longer
			panic(http.ErrAbortHandler)
		}
	}
	if f.told != nil && isEvent {
		f.tell(w, r)
		return
	}
	if kind == "" {
		f.proxy.ServeHTTP(w, r)
		return
	}
	f.write(w, r, kind)
}

func (f *Fuse) write(w http.ResponseWriter, r *http.Request, kind string) {
	f.mutex.Lock()
	defer f.mutex.Unlock() // one write after the other
	if f.blown {
		panic(http.ErrAbortHandler) // of a manager that is dead
	}
	f.counts[kind]++
	if kind == f.blowAt.Kind && f.counts[kind] == f.blowAt.N {
		f.blown = true
		if !f.blowAt.Before {
			f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		f.blow()
		panic(http.ErrAbortHandler)
	}
	f.proxy.ServeHTTP(w, r)
}
