// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// quiet is after how long without a change a stream says that it lives.
const quiet = 15 * time.Second

// errRevoked: the token of a stream counts no more.
var errRevoked = errors.New("the token is not accepted any more")

// errGone: a MiniCluster does not exist, or the viewer may not know whether it does.
var errGone = errors.New("there is no such MiniCluster, or you may not see it")

// feed returns what has changed since its last call. It is of one viewer.
type feed func(ctx context.Context) (*dashboard.Delta, error)

// admit lets requests of known viewers pass.
func (s *Server) admit(next func(http.ResponseWriter, *http.Request, *viewer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := s.door.Who(r)
		switch {
		case err != nil:
			unavailable(w, err)
		case who == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "A token that the API server accepts is needed.", http.StatusUnauthorized)
		default:
			next(w, r, &viewer{server: s, door: s.door, who: who, asked: map[string]answer{}})
		}
	}
}

// stream sends what changes as server-sent events, until the viewer leaves or is not known any more.
func (s *Server) stream(begin func(*http.Request, *viewer) feed) func(http.ResponseWriter, *http.Request, *viewer) {
	return func(w http.ResponseWriter, r *http.Request, v *viewer) {
		leave := s.streams.take(v.who.Budget(), atOnce)
		if leave == nil {
			http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		s.source.viewers.Add(1)
		defer s.source.viewers.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		out := &sse{w: w, control: http.NewResponseController(w), server: s}
		if err := out.follow(r, v, begin(r, v)); err != nil && r.Context().Err() == nil {
			ctrl.Log.WithName("dashboard").V(1).Info("a stream ended", "viewer", v.who.Username, "why", err.Error())
		}
	}
}

// sse is a stream of server-sent events.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	server  *Server
	begun   bool
}

// follow sends changes until there is an error.
func (e *sse) follow(r *http.Request, v *viewer, next feed) error {
	clock := e.server.options.Clock
	for sent := clock.Now(); ; {
		if err := v.again(r); err != nil {
			return errors.Join(err, e.sendWhy(err))
		}
		_, updated := e.server.source.look()
		delta, err := next(r.Context())
		switch {
		case err != nil:
			return errors.Join(err, e.sendWhy(err))
		case delta != nil && (!e.begun || !delta.Empty()):
			err, sent = e.send("delta", message{delta, clock.Now().UnixMilli()}), clock.Now()
		case clock.Since(sent) >= quiet:
			err, sent = e.write(":\n\n"), clock.Now()
		}
		if err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-updated:
		}
	}
}

// message is a delta with the time of the server, in milliseconds since 1970.
type message struct {
	*dashboard.Delta
	Now int64 `json:"now"`
}

// sendWhy tells the viewer of an error after which there is no use in trying again.
func (e *sse) sendWhy(err error) error {
	switch {
	case errors.Is(err, errRevoked):
		return e.send("end", map[string]string{"why": sentence(err.Error())})
	case errors.Is(err, errGone):
		return e.send("gone", map[string]string{"why": sentence(err.Error())})
	}
	return nil
}

// send sends an event.
func (e *sse) send(kind string, data any) error {
	text, err := json.Marshal(data) // one line, with <, > and & escaped
	if err != nil {
		return err
	}
	e.begun = true
	return e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, text))
}

func (e *sse) write(text string) error {
	if err := e.control.SetWriteDeadline(deadline()); err != nil {
		return err
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}

// deadline is when the next write has to be done. Connections take real time.
func deadline() time.Time {
	return time.Now().Add(writeTimeout) //nolint:forbidigo // a deadline of the operating system
}

// view is the feed of the cluster.
func (s *Server) view(_ *http.Request, v *viewer) feed {
	var last *dashboard.View
	return func(ctx context.Context) (*dashboard.Delta, error) {
		latest, _ := s.source.look()
		if latest == nil {
			return nil, nil
		}
		rights, err := v.rights(ctx, latest.Namespaces())
		if err != nil {
			return nil, err
		}
		now := latest.For(rights)
		delta := now.Since(last)
		last = now
		return delta, nil
	}
}

// life is the feed of one MiniCluster.
func (s *Server) life(r *http.Request, v *viewer) feed {
	name := nameOf(r)
	var last *dashboard.Life
	return func(ctx context.Context) (*dashboard.Delta, error) {
		now, err := v.life(ctx, name)
		if err != nil {
			return nil, err
		}
		delta := now.Since(last)
		last = now
		return delta, nil
	}
}

func nameOf(r *http.Request) types.NamespacedName {
	return types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

// unavailable reports an error that is not the viewer's.
func unavailable(w http.ResponseWriter, err error) {
	ctrl.Log.WithName("dashboard").V(1).Info("a request failed", "why", err.Error())
	http.Error(w, "The API server does not answer.", http.StatusServiceUnavailable)
}
