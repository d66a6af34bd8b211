// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// transport is how one user reaches the server.
type transport struct {
	server *Server
	user   string
}

// Transport is how a user reaches the server. Whoever sends a request gets its answer before RoundTrip returns, except
// for the events of watches.
func (s *Server) Transport(user string) http.RoundTripper { return &transport{server: s, user: user} }

// call is one request.
type call struct {
	*http.Request
	user  string
	body  []byte
	query url.Values
	path  requestPath
	table *table
}

// requestPath is what the URL of a request names.
type requestPath struct {
	group, version, resource, namespace, name, subresource string
	// isAPI is false for a URL of no resource: discovery and all others.
	isAPI bool
}

// answer is what the server says to a request.
type answer struct {
	code      int
	mediaType string
	body      []byte
	stream    *Stream
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	c := &call{Request: r, user: t.user, query: r.URL.Query(), path: parsePath(r.URL.Path)}
	if r.Body != nil {
		var err error
		c.body, err = io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	if user := r.Header.Get("Impersonate-User"); user != "" {
		c.user = user
	}
	a := t.server.answer(c)
	response := &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {a.mediaType}}, Request: r, ContentLength: int64(len(a.body)),
	}
	if a.stream != nil {
		response.Body, response.ContentLength = a.stream, -1
		return response, nil
	}
	response.Body = io.NopCloser(bytes.NewReader(a.body))
	return response, nil
}

func parsePath(text string) (p requestPath) {
	parts := strings.Split(strings.Trim(text, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		p.version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		p.group, p.version, parts = parts[1], parts[2], parts[3:]
	default:
		return requestPath{}
	}
	p.isAPI = true
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		p.namespace, parts = parts[1], parts[2:]
	}
	for i, field := range []*string{&p.resource, &p.name, &p.subresource} {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	return p
}

// answer answers a request.
func (s *Server) answer(c *call) answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !c.path.isAPI {
		return s.discover(c)
	}
	c.table = s.table(c.path.group, c.path.version, c.path.resource)
	switch {
	case c.table == nil && !s.serves(schema.GroupVersion{Group: c.path.group, Version: c.path.version}):
		return answer{code: http.StatusNotFound, mediaType: "text/plain; charset=utf-8", body: []byte("404 page not found\n")}
	case c.table == nil || !c.table.has(c.path.subresource) || c.table.Namespaced != (c.path.namespace != "") && c.path.name != "":
		status := statusOf(apierrors.NewGenericServerResponse(http.StatusNotFound, c.Method, schema.GroupResource{}, "", "", 0, false))
		return c.object(http.StatusNotFound, &status)
	}
	a, err := s.serve(c)
	if err != nil {
		status := statusOf(err)
		return c.object(int(status.Code), &status)
	}
	return a
}

// serve answers a request for objects.
func (s *Server) serve(c *call) (answer, error) {
	switch {
	case c.Method == http.MethodGet && c.path.name != "":
		return s.get(c)
	case c.Method == http.MethodGet:
		return s.listOrWatch(c)
	case c.Method == http.MethodPost && (c.path.name == "") == (c.path.subresource == ""):
		return s.post(c)
	case c.Method == http.MethodPut && c.path.name != "":
		return s.put(c)
	case c.Method == http.MethodPatch && c.path.name != "":
		return s.servePatch(c)
	case c.Method == http.MethodDelete && c.path.subresource == "":
		return s.serveDelete(c)
	}
	return answer{}, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, c.Method, schema.GroupResource{}, "", "", 0, false)
}

// object answers with an object that is not stored.
func (c *call) object(code int, object statusObject) answer {
	e := encodingOf(c.Header.Get("Accept"), nil)
	return answer{code: code, mediaType: e.mediaType(), body: whole(object, e.isProtobuf())}
}

// stored answers with an object that is stored, or would be.
func (c *call) stored(code int, v *version) answer {
	e := encodingOf(c.Header.Get("Accept"), c.table.Resource)
	return answer{code: code, mediaType: e.mediaType(), body: v.whole(e)}
}

func (c *call) key() key { return key{Namespace: c.path.namespace, Name: c.path.name} }

func statusOf(err error) metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}
