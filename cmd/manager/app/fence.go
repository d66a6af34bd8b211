// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// errNotLeading refuses a write of a manager that may not lead any more.
var errNotLeading = errors.New("this manager has not renewed its lease in time, so another one may lead")

// fence refuses the writes of a manager whose lease is over. A manager that was halted, and goes on, does not know yet
// that another one leads. Its caches hear of the other one's work one object after the other, so nothing that it decides
// now may be carried out. A manager that has never led is not refused anything.
type fence struct {
	next http.RoundTripper
	// lease is the name of the lease, which may always be written, and lasts how long it is valid.
	lease string
	lasts time.Duration
	now   func() time.Time
	// renewed is when the last request was sent that renewed the lease; nil before the manager leads.
	renewed *atomic.Pointer[time.Time]
}

// fenced wraps the transports of one manager, which share what they know of its lease.
func fenced(lease string, lasts time.Duration) func(http.RoundTripper) http.RoundTripper {
	renewed := &atomic.Pointer[time.Time]{}
	return func(next http.RoundTripper) http.RoundTripper {
		return fence{next: next, lease: lease, lasts: lasts, now: time.Now, renewed: renewed}
	}
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return f.next.RoundTrip(request)
	}
	sent, renews := f.now(), strings.HasSuffix(request.URL.Path, "/leases/"+f.lease)
	if last := f.renewed.Load(); last != nil && !renews && f.isOver(*last, sent) {
		return nil, errNotLeading
	}
	response, err := f.next.RoundTrip(request)
	if err == nil && renews && response.StatusCode < http.StatusMultipleChoices {
		f.renewed.Store(&sent)
	}
	return response, err
}

// isOver reports whether a lease that was renewed at a time has ended, by the clock that shows how long this machine
// runs, or by that which shows the time: the first one stops with a machine that is halted.
func (f fence) isOver(renewed, now time.Time) bool {
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) >= f.lasts
}
