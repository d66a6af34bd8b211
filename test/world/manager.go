// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/cmd/manager/app"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

// The user of all managers, as config/admission names it, and the namespace of their lease.
const (
	managerUser      = "system:serviceaccount:flux-elastic-system:flux-elastic"
	managerNamespace = "flux-elastic-system"
)

// manager is one run of the real manager.
type manager struct {
	*arm
	cancel context.CancelFunc
	// ended gets the error of the manager when its last goroutine has ended.
	ended chan error
	// halted is true while the machine of the manager does nothing.
	halted bool
	clock  *wrongClock
}

// wrongClock is the clock of a manager's machine, which may be before or behind that of the others.
type wrongClock struct {
	clock.RealClock
	before atomic.Int64 // nanoseconds
}

// Now implements clock.PassiveClock.
func (c *wrongClock) Now() time.Time { return time.Now().Add(time.Duration(c.before.Load())) }

// Since implements clock.PassiveClock.
func (c *wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// startManager runs the manager in the bubble of the caller.
func (w *World) startManager(name string) *manager {
	o, err := options.Parse(w.arguments)
	if err != nil {
		panic(err)
	}
	m := &manager{arm: &arm{manager: name, turnstile: w.turnstile, next: w.server.Transport(managerUser), dead: make(chan struct{})}, ended: make(chan error, 1), clock: &wrongClock{}}
	ctx, cancel := context.WithCancel(context.Background())
	ctx = ctrl.LoggerInto(ctx, logr.New(&sink{arm: m.arm, log: w.note}))
	m.cancel = cancel
	config := &rest.Config{Host: apiserver.Host, Transport: m.arm}
	go func() {
		defer cancel() // for what a manager that ends by itself leaves behind
		m.ended <- app.Run(ctx, config, o, nil, m.clock)
	}()
	return m
}

// kill ends a manager as a loss of power would: nothing that it does from now on has an effect.
func (m *manager) kill() {
	close(m.dead)
	m.cancel()
}

// sink is the log of a manager. Each controller logs the beginning of each pass, and is parked there. So no passes run at
// once, and the driver chooses their order.
type sink struct {
	arm    *arm
	log    func(string)
	values []any
}

// passLevel is the level at which controller-runtime logs the beginning of a pass, as passBegins.
const (
	passLevel  = 5
	passBegins = "Reconciling"
)

// clientTimeout are the words that an http.Client adds to the error of a request that took too long. Its context and a timer of its
// own end the request at the same time, and the words are there only if the timer was first.
const clientTimeout = " (Client.Timeout exceeded while awaiting headers)"

// Init implements logr.LogSink.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool { return level == passLevel }

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, _ ...any) {
	if level == passLevel && message == passBegins {
		s.arm.pass(fmt.Sprintf("%v %v/%v", s.value("controller"), s.value("namespace"), s.value("name")))
	}
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, _ ...any) {
	if !s.arm.isDead() {
		s.log(fmt.Sprintf("%s logs %s: %s", s.arm.manager, message, strings.TrimSuffix(fmt.Sprint(err), clientTimeout)))
	}
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{arm: s.arm, log: s.log, values: append(s.values[:len(s.values):len(s.values)], values...)}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) value(key string) any {
	for i := 0; i+1 < len(s.values); i += 2 {
		if s.values[i] == key {
			return s.values[i+1]
		}
	}
	return ""
}
