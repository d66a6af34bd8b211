// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

// Errors of requests that are not answered.
var (
	errKilled  = errors.New("world: this manager was killed")
	errCut     = errors.New("world: connection refused")
	errTimeout = errors.New("world: the answer did not come in time")
)

// verdict says what becomes of something that waits at the turnstile.
type verdict int

const (
	goOn    verdict = iota // it is done
	refuse                 // it is not done: the connection breaks before it
	swallow                // it is done, and the answer is lost
	fail                   // it is not done: the API server answers with an internal error
	busy                   // it is not done: the API server answers that it has too many requests
	die                    // it is not done, because its manager was killed
)

// waiter is a request or a pass of a manager that waits at the turnstile.
type waiter struct {
	manager string
	// what says what it is, such as "pass minicluster default/a" or "PATCH /api/v1/...", and is the same in each run of a
	// seed.
	what string
	pass bool
	// write is true for requests that change objects.
	write bool
	body  []byte
	since time.Time
	// number is the place in the order of arrivals, which decides only between equal requests.
	number  int
	verdict chan verdict
}

// turnstile lets the requests and the passes of managers go on one at a time.
type turnstile struct {
	mutex   sync.Mutex
	waiters []*waiter
	number  int
	// watchers are the managers that have the streams.
	watchers map[*apiserver.Stream]string
	// arrived gets a value when something arrives, and wakes a driver that lets time pass.
	arrived chan struct{}
}

func newTurnstile() *turnstile {
	return &turnstile{watchers: map[*apiserver.Stream]string{}, arrived: make(chan struct{}, 1)}
}

// enter parks a waiter. The caller then waits for its verdict.
func (t *turnstile) enter(w *waiter) {
	w.since, w.verdict = time.Now(), make(chan verdict, 1)
	t.mutex.Lock()
	t.number++
	w.number = t.number
	t.waiters = append(t.waiters, w)
	t.mutex.Unlock()
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

// leave forgets a waiter that waits no more.
func (t *turnstile) leave(w *waiter) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.waiters = slices.DeleteFunc(t.waiters, func(other *waiter) bool { return other == w })
}

// waiting returns all waiters, in an order that depends on what they are.
func (t *turnstile) waiting() []*waiter {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	out := slices.Clone(t.waiters)
	slices.SortFunc(out, func(a, b *waiter) int {
		return cmp.Or(strings.Compare(a.manager, b.manager), strings.Compare(a.what, b.what), bytes.Compare(a.body, b.body), a.number-b.number)
	})
	return out
}

// let tells a waiter its verdict.
func (t *turnstile) let(w *waiter, v verdict) {
	t.leave(w)
	w.verdict <- v
}

// follow notes which manager reads a stream.
func (t *turnstile) follow(body io.ReadCloser, manager string) {
	if stream, ok := body.(*apiserver.Stream); ok {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.watchers[stream] = manager
	}
}

// watcher is the manager that reads a stream.
func (t *turnstile) watcher(stream *apiserver.Stream) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.watchers[stream]
}

// arm is a manager's way through the turnstile. Its transport implements http.RoundTripper.
type arm struct {
	manager   string
	turnstile *turnstile
	next      http.RoundTripper
	// dead is closed when the manager is killed.
	dead chan struct{}
	// works is true once the caches of the manager are full: a controller runs, or the manager asks for the lease. Before, nobody
	// kills the manager: controller-runtime would wait for its caches in a loop without a rest, and the bubble would never rest.
	works atomic.Bool
}

// RoundTrip implements http.RoundTripper. Discovery is answered at once: client-go holds a mutex while it asks.
func (a *arm) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.isDead() {
		return nil, errKilled
	}
	if isDiscovery(request.URL.Path) {
		return a.next.RoundTrip(request)
	}
	w := &waiter{manager: a.manager, what: request.Method + " " + request.URL.Path, write: request.Method != http.MethodGet}
	if strings.Contains(w.what, "/leases") {
		a.works.Store(true)
	}
	if q := request.URL.Query(); q.Has("dryRun") {
		w.what, w.write = w.what+" dry run", false
	} else if q.Has("labelSelector") || q.Has("fieldSelector") {
		w.what += " " + q.Get("labelSelector") + q.Get("fieldSelector")
	}
	if request.Method == http.MethodPost && request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		_ = request.Body.Close()
		w.body, request.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	a.turnstile.enter(w)
	select {
	case v := <-w.verdict:
		return a.carryOut(request, v)
	case <-request.Context().Done():
		a.turnstile.leave(w)
		return nil, request.Context().Err()
	case <-a.dead:
		a.turnstile.leave(w)
		return nil, errKilled
	}
}

func (a *arm) carryOut(request *http.Request, v verdict) (*http.Response, error) {
	switch v {
	case refuse:
		return nil, errCut
	case die:
		return nil, errKilled
	case fail:
		return failure(request, http.StatusInternalServerError, "InternalError"), nil
	case busy:
		return failure(request, http.StatusTooManyRequests, "TooManyRequests"), nil
	}
	response, err := a.next.RoundTrip(request)
	if v == swallow || a.isDead() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errTimeout
	}
	if err == nil {
		a.turnstile.follow(response.Body, a.manager)
	}
	return response, err
}

func (a *arm) isDead() bool {
	select {
	case <-a.dead:
		return true
	default:
		return false
	}
}

// pass parks a pass of a controller until the driver lets it begin. A killed manager's passes go on, and reach nothing.
func (a *arm) pass(what string) {
	if a.isDead() {
		return
	}
	a.works.Store(true)
	w := &waiter{manager: a.manager, what: "pass " + what, pass: true}
	a.turnstile.enter(w)
	select {
	case <-w.verdict:
	case <-a.dead:
		a.turnstile.leave(w)
	}
}

// isDiscovery reports whether a request asks what the API server serves.
func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return true // version, openapi
}

// failure is an answer without an effect.
func failure(request *http.Request, code int, reason string) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}
