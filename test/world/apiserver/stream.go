// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Stream is one open watch. It is the body of the answer, too: its reader gets the events that were delivered.
type Stream struct {
	server   *Server
	table    *table
	user     string
	context  context.Context
	selector selector
	encoding encoding

	// The server's mutex guards what follows.
	pending []event
	ready   [][]byte // delivered, and not read
	ended   bool
	wake    chan struct{}
}

// event is what one delivery lets through: one event, or all initial events with the bookmark that ends them.
type event struct {
	changes  []change
	bookmark uint64 // not 0: a bookmark of this version, which ends the initial events if isInitial is set
	initial  bool
	failure  error // the watch ends with it
}

// Streams are the open watches, in the order in which they began.
func (s *Server) Streams() []*Stream {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(st *Stream) bool {
		return st.context.Err() != nil || st.ended && len(st.ready) == 0
	})
	return slices.Clone(s.streams)
}

// Kind is the kind of the objects that the stream watches.
func (st *Stream) Kind() string { return st.table.Kind }

// User is who watches.
func (st *Stream) User() string { return st.user }

// Pending is how many deliveries wait.
func (st *Stream) Pending() int {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	if st.ended || st.context.Err() != nil {
		return 0
	}
	return len(st.pending)
}

// Deliver lets the next event through. The initial events of a watch are one.
func (st *Stream) Deliver() {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	st.deliver()
}

// Bookmark lets the stream know the newest version, as the API server does about every minute.
func (st *Stream) Bookmark() {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	st.push(event{bookmark: st.server.version})
}

// Close ends the watch, as when the connection breaks. The events that were not delivered are not lost: a watch that
// begins at the version that the reader has seen has them.
func (st *Stream) Close() error {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	st.end()
	return nil
}

// Expire ends the watch with an event that says that its version is too old: its reader has to list again.
func (st *Stream) Expire() {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	st.pending = []event{{failure: apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")}}
	st.deliver()
}

func (st *Stream) end() {
	st.ended, st.pending = true, nil
	st.server.streams = slices.DeleteFunc(st.server.streams, func(other *Stream) bool { return other == st })
	st.signal()
}

func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// add notes a change for the stream if the stream may see the object, or might.
func (st *Stream) add(c change) {
	if c, matters := st.selector.seen(c); matters {
		st.push(event{changes: []change{c}})
	}
}

func (st *Stream) push(e event) {
	if st.ended || st.context.Err() != nil {
		return
	}
	st.pending = append(st.pending, e)
	if st.server.options.AutoDeliver {
		st.deliver()
	}
}

func (st *Stream) deliver() {
	if st.ended || len(st.pending) == 0 {
		return
	}
	e := st.pending[0]
	st.pending = st.pending[1:]
	for _, c := range e.changes {
		st.ready = append(st.ready, frame(c.what, c.after.whole(st.encoding), st.encoding))
	}
	if e.bookmark != 0 {
		st.ready = append(st.ready, frame(watch.Bookmark, bookmark(st.table, e.bookmark, e.initial, st.encoding), st.encoding))
	}
	if e.failure != nil {
		status := statusOf(e.failure)
		st.ready = append(st.ready, frame(watch.Error, whole(&status, st.encoding.isProtobuf()), st.encoding))
		st.end()
	}
	st.signal()
}

// Read implements io.Reader: it waits for events that are delivered.
func (st *Stream) Read(p []byte) (int, error) {
	for {
		if err := st.context.Err(); err != nil {
			return 0, err
		}
		if n, err := st.read(p); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-st.wake:
		case <-st.context.Done():
		}
	}
}

func (st *Stream) read(p []byte) (int, error) {
	st.server.mutex.Lock()
	defer st.server.mutex.Unlock()
	n := 0
	for len(st.ready) > 0 && n < len(p) {
		m := copy(p[n:], st.ready[0])
		n += m
		if st.ready[0] = st.ready[0][m:]; len(st.ready[0]) == 0 {
			st.ready = st.ready[1:]
		}
	}
	if n == 0 && st.ended {
		return 0, io.EOF
	}
	return n, nil
}

// watch opens a stream. It begins with all objects, or with the changes after a version.
func (s *Server) watch(ctx context.Context, user string, t *table, o *metav1.ListOptions, sel selector, e encoding) (*Stream, error) {
	since, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	st := &Stream{server: s, table: t, user: user, context: ctx, selector: sel, encoding: e, wake: make(chan struct{}, 1)}
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	switch {
	case since > s.version:
		return nil, tooLarge(since, s.version)
	case streams || since == 0:
		initial := event{initial: streams}
		for _, v := range s.selected(t, sel) {
			initial.changes = append(initial.changes, change{what: watch.Added, number: v.number, after: v})
		}
		if streams && o.AllowWatchBookmarks {
			initial.bookmark = s.version
		}
		if len(initial.changes) > 0 || initial.bookmark != 0 {
			st.push(initial)
		}
	case since < t.oldest:
		return nil, apierrors.NewResourceExpired("too old resource version: " + o.ResourceVersion)
	default:
		i, _ := slices.BinarySearchFunc(t.history, since+1, func(c change, number uint64) int { return int(c.number) - int(number) })
		for _, c := range t.history[i:] {
			st.add(c)
		}
	}
	s.streams = append(s.streams, st)
	return st, nil
}
