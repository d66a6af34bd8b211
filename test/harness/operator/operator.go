// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package operator runs the manager in the process of a test, and kills it there.
package operator

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/flux-elastic/flux-elastic/cmd/manager/app"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Operator is a manager in the process of the test, with the rights of its service account. It sees its site alone, so
// each site can have an operator of its own, all beside each other. To kill an operator costs no process: no request of it
// gets through any more, and its controllers and caches are thrown away.
type Operator struct {
	Fuse

	site   *harness.Site
	cancel context.CancelFunc
	ended  chan struct{} // closed
	dead   *atomic.Bool  // of the controllers that were started last
	killed atomic.Bool
}

// operators bounds how many operators there are at once: each has caches and controllers, and all share the machine.
var operators = make(chan struct{}, 8)

// New returns an operator that was not started yet. It ends when the site is closed. New waits while there are many
// operators.
func New(s *harness.Site) *Operator {
	operators <- struct{}{}
	o := &Operator{site: s, cancel: func() {}, ended: make(chan struct{}), dead: &atomic.Bool{}}
	close(o.ended)
	s.AtClear(func() { // nobody else would end what is left
		if o.Mend() {
			if err := o.Start(); err != nil {
				s.T.Error(err)
			}
		}
	})
	s.AtClose(func() {
		o.Stop()
		<-operators
	})
	return o
}

// Operate starts an operator with flags of the manager.
func Operate(s *harness.Site, flags ...string) *Operator {
	s.T.Helper()
	o := New(s)
	if err := o.Start(flags...); err != nil {
		s.T.Fatal(err)
	}
	return o
}

// Start starts the operator with flags of the manager. It ends the controllers first that were started before.
func (o *Operator) Start(flags ...string) error {
	o.Stop()
	settings, err := options.Parse(append([]string{"--jobset=" + harness.JobSetEmbedded, "--metrics-bind-address=0", "--health-probe-bind-address=0"}, flags...))
	if err != nil {
		return err
	}
	config, err := o.site.Config(harness.SystemIdentity)
	if err != nil {
		return err
	}
	dead, ended := &atomic.Bool{}, make(chan struct{})
	config.Wrap(o.Wrap)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next, dead} })
	ctx, cancel := context.WithCancel(o.site.Ctx)
	o.dead, o.cancel, o.ended = dead, cancel, ended
	go func() {
		defer close(ended)
		for {
			err := app.Run(ctx, config, settings, nil, harness.WallClock)
			if ctx.Err() != nil {
				return
			}
			o.site.T.Logf("the operator starts again, as in a cluster: %v", err)
			harness.WallClock.Sleep(time.Second)
		}
	}()
	return nil
}

// KillAt has the operator killed at a write. The writes are counted from now on.
func (o *Operator) KillAt(at Write) { o.Set(at, o.Kill) }

// Kill ends the operator as a crash would: from now on nothing of it has an effect. Kill waits for nothing.
func (o *Operator) Kill() {
	o.killed.Store(true)
	o.dead.Store(true)
	o.cancel()
}

// Killed reports whether the operator was ever killed.
func (o *Operator) Killed() bool { return o.killed.Load() }

// Stop ends the operator as it is ended in a cluster, unless it has ended, and waits for its end.
func (o *Operator) Stop() {
	o.cancel()
	<-o.ended
}

// Eventually ends the test unless an attempt succeeds in time. If the operator was killed at a write, one without flags goes on.
func (o *Operator) Eventually(attempt func() error) {
	o.site.T.Helper()
	o.Fuse.Eventually(o.site.T, func() error { return o.Start() }, attempt)
}

// mortal is the transport of one operator. Nothing passes once the operator is dead.
type mortal struct {
	next http.RoundTripper
	dead *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("this operator is dead")
	}
	return m.next.RoundTrip(r)
}
