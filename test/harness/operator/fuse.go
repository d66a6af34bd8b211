// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Fuse is between an operator and the API server. It counts the operator's writes by kind, and blows at one of them: just
// before the write, or when the write has taken effect and the operator does not know. The zero value lets everything
// through.
type Fuse struct {
	// DryRuns counts dry runs, and Reads counts requests for single objects and lists.
	DryRuns, Reads atomic.Int64

	mutex  sync.Mutex
	counts map[string]int // writes that were seen, by kind
	blowAt Write
	blow   func()
	blown  bool
	// held is not nil while events are not answered.
	held chan struct{}
}

// errBlown answers the requests of an operator that is dead.
var errBlown = errors.New("the fuse has blown")

// Write is the N-th write of a kind, such as "PATCH pods". The zero value is none.
type Write struct {
	Kind   string
	N      int
	Before bool
}

func (w Write) String() string {
	return fmt.Sprintf("%s/%d/before=%v", strings.ReplaceAll(w.Kind, "/", "-"), w.N, w.Before)
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
	harness.Eventually(t, func() error {
		if f.hasBlown() {
			f.Mend()
			if err := revive(); err != nil {
				return harness.Final(err)
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
// was, and for before and after this write: all of them beside each other. `live` returns the writes of
// its life by kind. A life has writes of all these kinds. AtEveryWrite returns
// how many writes of other kinds there were.
func AtEveryWrite(t *testing.T, live func(t *testing.T, at Write) map[string]int, kinds ...string) (others map[string]int) {
	t.Helper()
	var quiet map[string]int
	t.Run("never", func(t *testing.T) { quiet = live(t, Write{}) })
	t.Logf("the writes of a life: %v", quiet)
	t.Run("killed", func(t *testing.T) {
		for _, kind := range kinds {
			if quiet[kind] == 0 {
				t.Errorf("a life has no %s", kind)
			}
			for n := 1; n <= quiet[kind]; n++ {
				for _, before := range []bool{true, false} {
					at := Write{kind, n, before}
					t.Run(at.String(), func(t *testing.T) {
						t.Parallel()
						live(t, at)
					})
				}
			}
		}
	})
	others = maps.Clone(quiet)
	for _, kind := range kinds {
		delete(others, kind)
	}
	return others
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

// Hold leaves events unanswered until the function that it returns is called.
func (f *Fuse) Hold() (release func()) {
	f.held = make(chan struct{})
	return sync.OnceFunc(func() { close(f.held) })
}

// Wrap lets the requests of a transport pass through the fuse.
func (f *Fuse) Wrap(next http.RoundTripper) http.RoundTripper { return fused{f, next} }

type fused struct {
	*Fuse
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fused) RoundTrip(r *http.Request) (*http.Response, error) {
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
		case <-r.Context().Done(): // the operator does not wait any longer
			return nil, r.Context().Err()
		}
	}
	if kind := kindOf(r); kind != "" {
		return f.write(r, kind)
	}
	return f.next.RoundTrip(r)
}

// write passes one write after the other.
func (f fused) write(r *http.Request, kind string) (*http.Response, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.blown {
		return nil, errBlown
	}
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[kind]++
	if kind == f.blowAt.Kind && f.counts[kind] == f.blowAt.N {
		return f.burn(r, f.blowAt.Before)
	}
	return f.next.RoundTrip(r)
}

// burn blows the fuse before the effect of a write, or after it. The answer is lost.
func (f fused) burn(r *http.Request, before bool) (*http.Response, error) {
	f.blown = true
	if !before {
		if answer, err := f.next.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
	}
	f.blow()
	return nil, errBlown
}
