// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract compares the API server in memory with a real one: it sends the same requests to both, and compares
// what they answer. Requests has what is sent, and a test of a suite with a control plane calls Compare.
package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/jobset/crd"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

// Request is sent to both servers.
type Request struct {
	// Name says what is tried, and names the object of the answer for later requests: ${NAME.uid}, ${NAME.version}.
	Name   string
	Method string // GET if empty
	// Path is below /api/v1/namespaces/NAMESPACE/, unless it begins with a slash.
	Path string
	// Body is JSON. ${namespace} stands for the namespace, ${other} and ${third} for further ones.
	Body string
	// Type is the content type; the first part of it may be left out.
	Type   string
	Accept string
	User   string // whom the request impersonates
	// Await is sent until the answer has a text: what controllers do takes time.
	Await string
	// Without are fields of the answer that differ by design, as paths with dots.
	Without []string
}

// Server is one of the servers that are compared.
type Server struct {
	Host string
	http.RoundTripper
	// Step lets controllers act; nil if they do so themselves.
	Step func()

	known map[string]object // by the name of a request
	seen  map[string]string // the version at which an object was seen last, by its UID
}

// object is what later requests say of an object.
type object struct{ uid, version string }

// Real is a server at an address.
func Real(config *rest.Config) (*Server, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &Server{Host: config.Host, RoundTripper: transport}, nil
}

// InMemory is a new API server in memory with what the real one has: the objects in folders of the project, and JobSet.
func InMemory(folders ...string) (*Server, error) {
	s := apiserver.New(rand.New(rand.NewPCG(1, 2)), apiserver.Options{AutoDeliver: true})
	if err := s.InstallConfig(folders...); err != nil {
		return nil, err
	}
	if err := s.Install(crd.JobSet); err != nil {
		return nil, err
	}
	controllers := []interface{ Step(context.Context) bool }{
		apiserver.NewQuotaController(s), apiserver.NewGarbageCollector(s), apiserver.NewNamespaceController(s),
	}
	step := func() {
		makeAccounts(s.Client(apiserver.Admin))
		for _, c := range controllers {
			for c.Step(context.Background()) {
				continue
			}
		}
	}
	return &Server{Host: apiserver.Host, RoundTripper: s.Transport(apiserver.Admin), Step: step}, nil
}

// makeAccounts makes what the controllers of service accounts make in each namespace.
func makeAccounts(c client.Client) {
	var namespaces corev1.NamespaceList
	if err := c.List(context.Background(), &namespaces); err != nil {
		panic(err)
	}
	for i := range namespaces.Items {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces.Items[i].Name, Name: "default"}}
		if namespaces.Items[i].DeletionTimestamp != nil {
			continue
		}
		if err := c.Create(context.Background(), account); err != nil && !apierrors.IsAlreadyExists(err) {
			panic(err)
		}
	}
}

// Compare sends the requests to both servers, and returns what differs in their answers, by the names of the requests.
func Compare(ctx context.Context, original, memory *Server, namespace string, requests []Request) ([]error, error) {
	var differences []error
	for i := range requests {
		r := &requests[i]
		var answers [2]*answer
		for j, s := range []*Server{original, memory} {
			var err error
			if answers[j], err = s.ask(ctx, r, namespace); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
		}
		if difference := answers[0].differs(answers[1]); difference != "" {
			differences = append(differences, fmt.Errorf("%s: %s", r.Name, difference))
		}
	}
	return differences, nil
}

// patience bounds how long a failed comparison hangs: controllers of a busy machine take many times what those of a quiet
// one do.
const patience = 20 * time.Minute

// ask sends a request, and again until the server has finished and the answer has what the request awaits.
func (s *Server) ask(ctx context.Context, r *Request, namespace string) (*answer, error) {
	deadline := time.Now().Add(patience)
	for {
		body, code, err := s.send(ctx, r, namespace)
		if err != nil {
			return nil, err
		}
		late := code == http.StatusGatewayTimeout // a busy server did not finish
		if !late && (r.Await == "" || bytes.Contains(body, []byte(r.Await))) {
			return s.read(r, code, body)
		}
		if s.Step != nil {
			s.Step()
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s never said %s: %d: %s", s.Host, r.Await, code, body)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Server) send(ctx context.Context, r *Request, namespace string) ([]byte, int, error) {
	path := r.Path
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/namespaces/${namespace}/" + path
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, method, s.Host+s.filled(path, namespace), strings.NewReader(s.filled(r.Body, namespace)))
	if err != nil {
		return nil, 0, err
	}
	if r.Body != "" {
		mediaType := r.Type
		if !strings.Contains(mediaType, "/") {
			mediaType = "application/" + mediaType + strings.Repeat("+", min(1, len(mediaType))) + "json"
		}
		request.Header.Set("Content-Type", mediaType)
	}
	request.Header.Set("Accept", "application/json")
	if r.Accept != "" {
		request.Header.Set("Accept", r.Accept)
	}
	request.Header.Set("User-Agent", "contract/1")
	if r.User != "" {
		request.Header.Set("Impersonate-User", r.User)
	}
	response, err := s.RoundTrip(request)
	if err != nil {
		return nil, 0, err
	}
	if stream, ok := response.Body.(*apiserver.Stream); ok { // the watches of the server in memory end when they are closed
		if err := stream.Close(); err != nil {
			return nil, 0, err
		}
		body, err := io.ReadAll(stream)
		return body, response.StatusCode, err
	}
	body, err := io.ReadAll(response.Body)
	return body, response.StatusCode, errors.Join(err, response.Body.Close())
}

// filled is a text with the names and what is known of objects.
func (s *Server) filled(text, namespace string) string {
	replace := []string{"${namespace}", namespace, "${other}", namespace + "-other", "${third}", namespace + "-third"}
	for name, o := range s.known {
		replace = append(replace, "${"+name+".uid}", o.uid, "${"+name+".version}", o.version)
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// answer is what a server said, made comparable.
type answer struct {
	code    int
	objects []any // more than one for a watch
}

func (s *Server) read(r *Request, code int, body []byte) (*answer, error) {
	a := &answer{code: code}
	decoder := json.NewDecoder(bytes.NewReader(body))
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // no JSON
			a.objects = []any{string(body)}
			break
		}
		if isPassingBookmark(content) {
			continue
		}
		s.remember(r.Name, content)
		for _, path := range r.Without {
			remove(content, strings.Split(path, "."))
		}
		a.objects = append(a.objects, s.comparable("", content))
	}
	return a, nil
}

// isPassingBookmark reports whether an event of a watch only says how far the watch is. A server sends these at any time.
// A bookmark with an annotation ends the first list.
func isPassingBookmark(event map[string]any) bool {
	object, _ := event["object"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	return event["type"] == "BOOKMARK" && metadata["annotations"] == nil
}

func (s *Server) remember(name string, content map[string]any) {
	metadata, _ := content["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	version, _ := metadata["resourceVersion"].(string)
	if s.known == nil {
		s.known = map[string]object{}
	}
	s.known[name] = object{uid, version}
}

func remove(content any, path []string) {
	switch c := content.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(c, path[0])
			return
		}
		remove(c[path[0]], path[1:])
	case []any:
		for _, item := range c {
			remove(item, path)
		}
	}
}

// differs says how two answers differ: the real one comes first.
func (a *answer) differs(b *answer) string {
	if a.code != b.code {
		return fmt.Sprintf("code %d, in memory %d: %s\n  in memory: %s", a.code, b.code, text(a.objects), text(b.objects))
	}
	if len(a.objects) != len(b.objects) {
		return fmt.Sprintf("%d objects, in memory %d: %s\n  in memory: %s", len(a.objects), len(b.objects), text(a.objects), text(b.objects))
	}
	var lines []string
	for i := range a.objects {
		lines = append(lines, difference("", a.objects[i], b.objects[i])...)
	}
	return strings.Join(lines, "\n  ")
}

// difference lists the fields in which two values differ.
func difference(path string, a, b any) (lines []string) {
	before, isMap := a.(map[string]any)
	after, bothMaps := b.(map[string]any)
	if isMap && bothMaps {
		keys := slices.Sorted(maps.Keys(before))
		for key := range after {
			if _, there := before[key]; !there {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			lines = append(lines, difference(path+"."+key, before[key], after[key])...)
		}
		return lines
	}
	if x, y := text(a), text(b); x != y {
		lines = append(lines, fmt.Sprintf("%s: %s, in memory %s", path, x, y))
	}
	return lines
}

func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
