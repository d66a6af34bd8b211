// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	authenticationapi "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flux-elastic/flux-elastic/controllers/guard"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/stage"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// site is a server of the page, for a played cluster whose API server has the tokens of dev/stage.
type site struct {
	*testing.T
	*Server
	play *stage.Stage
	api  *httptest.Server
	page *httptest.Server
}

func newSite(t *testing.T, open bool, d door) *site {
	t.Helper()
	s := &site{T: t, play: stage.New(stage.Settings{Nodes: 300, MiniClusters: 120, Seed: 1, Now: fixture.Noon})}
	s.api = httptest.NewServer(s.play.API())
	t.Cleanup(s.api.Close)
	config := &rest.Config{Host: s.api.URL, BearerToken: stage.TokenAll, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o := Options{Address: "127.0.0.1:0", Open: open, Client: s.play, Config: config, Clock: clocktesting.NewFakeClock(fixture.Noon), Topology: state.TopologyLevels}
	var err error
	if s.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	if d != nil {
		s.door = d
	}
	s.page = httptest.NewServer(s.handler)
	t.Cleanup(s.page.Close)
	s.update()
	return s
}

// update makes a view.
func (s *site) update() {
	s.Helper()
	if err := s.source.update(s.Context(), true); err != nil {
		s.Fatal(err)
	}
}

// get sends a request with a token, and returns the response, whose body the end of the test closes.
func (s *site) get(token, path string) *http.Response {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.page.URL+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.page.Client().Do(request)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// body is the text of an answer.
func (s *site) body(token, path string) (code int, text string) {
	s.Helper()
	response := s.get(token, path) //nolint:bodyclose // the end of the test closes it
	all, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// event is one of a stream.
type event struct {
	kind, text string
	Set        map[string][]map[string]any
	Gone       map[string][]string
}

// follow returns a function that reads the next event of a stream.
func (s *site) follow(token, path string) func() event {
	s.Helper()
	response := s.get(token, path) //nolint:bodyclose // the end of the test closes it
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		s.Fatalf("%s: %s, %s", path, response.Status, kind)
	}
	lines := bufio.NewReader(response.Body)
	return func() (e event) {
		s.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				s.Fatal(err)
			}
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "event: "):
				e.kind = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.text = line[len("data: "):]
			case line == "" && e.kind != "":
				if err := json.Unmarshal([]byte(e.text), &e); err != nil {
					s.Fatal(err)
				}
				return e
			}
		}
	}
}

// of is a MiniCluster of a namespace that waits or has nodes.
func (s *site) of(namespace string, hasNodes bool) string {
	s.Helper()
	view, _ := s.source.look()
	for i := range view.MiniClusters {
		if mc := &view.MiniClusters[i]; mc.Namespace == namespace && (mc.Nodes > 0) == hasNodes {
			return mc.ID
		}
	}
	s.Fatalf("%s has no such MiniCluster", namespace)
	return ""
}

// Tokens come without encryption, so nobody outside of the host or the pod may reach the address.
func TestAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8082": true, "localhost:8082": true, "[::1]:8082": true, "127.1.2.3:0": true,
		":8082": false, "0.0.0.0:8082": false, "[::]:8082": false, "10.0.0.1:8082": false, "example.com:80": false, "8082": false, "localhost.example.com:1": false,
	} {
		if _, err := New(Options{Address: address, Config: &rest.Config{}}); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Nothing is shown to somebody without a token that the API server accepts.
func TestUnknownViewers(t *testing.T) {
	s := newSite(t, false, nil)
	mc := s.of("team-a", true)
	for _, path := range []string{"/api/view", "/api/miniclusters/" + mc, "/api/miniclusters/" + mc + "/log", "/api/miniclusters/" + mc + "/events"} {
		for _, token := range []string{"", "wrong"} {
			if code, text := s.body(token, path); code != http.StatusUnauthorized || strings.Contains(text, "team") {
				t.Errorf("%s with token %q: %d %s", path, token, code, text)
			}
		}
	}
	s.api.Close()
	if code, text := s.body(stage.TokenAll, "/api/view"); code != http.StatusServiceUnavailable {
		t.Errorf("without the API server: %d %s", code, text)
	}
}

// A viewer of one namespace reads no name of another one, in any part of the page.
func TestOneNamespace(t *testing.T) {
	s := newSite(t, false, nil)
	for _, token := range []string{stage.TokenOne, stage.TokenLittle} {
		first := s.follow(token, "/api/view")()
		for _, namespace := range []string{"team-b", "team-c", "team-d", "team-e"} {
			if strings.Contains(first.text, namespace) {
				t.Errorf("%s reads the name of %s", token, namespace)
			}
		}
		if len(first.Set["miniClusters"]) == 0 || (len(first.Set["nodes"]) > 0) != (token == stage.TokenOne) || (len(first.Set["samples"]) > 0) != (token == stage.TokenOne) {
			t.Errorf("%s sees %d MiniClusters, %d nodes, %d samples", token, len(first.Set["miniClusters"]), len(first.Set["nodes"]), len(first.Set["samples"]))
		}
	}
	all := s.follow(stage.TokenAll, "/api/view")()
	if !strings.Contains(all.text, "team-b/") || all.Set["viewer"][0]["key"] != "viewer-all" {
		t.Error("somebody who may see all does not")
	}
	// A MiniCluster that the viewer may not see looks like one that does not exist.
	hidden, missing := s.follow(stage.TokenOne, "/api/miniclusters/"+s.of("team-b", true))(), s.follow(stage.TokenAll, "/api/miniclusters/team-b/none")()
	if hidden.kind != "gone" || hidden.text != missing.text {
		t.Errorf("hidden: %+v, missing: %+v", hidden, missing)
	}
	for _, what := range []string{"/log", "/events"} {
		hiddenCode, hiddenText := s.body(stage.TokenOne, "/api/miniclusters/"+s.of("team-b", true)+what)
		missingCode, missingText := s.body(stage.TokenAll, "/api/miniclusters/team-b/none"+what)
		if hiddenCode != http.StatusNotFound || hiddenCode != missingCode || hiddenText != missingText {
			t.Errorf("%s: hidden: %d %s, missing: %d %s", what, hiddenCode, hiddenText, missingCode, missingText)
		}
	}
}

// Logs and events are what the API server gives to the viewer's own token.
func TestLogAndEvents(t *testing.T) {
	s := newSite(t, false, nil)
	mc := "/api/miniclusters/" + s.of("team-a", true)
	for _, what := range []string{"/log", "/events"} {
		if code, text := s.body(stage.TokenLittle, mc+what); code != http.StatusForbidden || !strings.Contains(text, "the user may not") {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	if code, text := s.body(stage.TokenOne, mc+"/log"); code != http.StatusOK || !strings.Contains(text, "Step") {
		t.Errorf("log: %d %s", code, text)
	}
	if code, text := s.body(stage.TokenOne, mc+"/events"); code != http.StatusOK || !strings.Contains(text, `"reason":"BrokersLate"`) {
		t.Errorf("events: %d %s", code, text)
	}
	if code, text := s.body(stage.TokenOne, "/api/miniclusters/"+s.of("team-a", false)+"/log"); code != http.StatusNotFound || !strings.Contains(text, "no pod") {
		t.Errorf("log of one that waits: %d %s", code, text)
	}
	// Who may not see pods sees the ranks and nodes of the status alone.
	for token, state := range map[string]any{stage.TokenOne: "up", stage.TokenLittle: nil} {
		if broker := s.follow(token, mc)().Set["brokers"][0]; broker["node"] == "" || broker["state"] != state {
			t.Errorf("%s sees %v", token, broker)
		}
	}
}

// Streams send everything once, and then changes alone.
func TestStream(t *testing.T) {
	s := newSite(t, false, nil)
	next := s.follow(stage.TokenAll, "/api/view")
	first := next()
	s.play.Step(fixture.Noon.Add(40 * time.Second))
	s.update()
	second := next()
	if len(first.Set["nodes"]) != 300 || len(second.Set["nodes"]) == 0 || len(second.Set["nodes"]) == 300 || len(second.text) > len(first.text)/2 {
		t.Errorf("first %d bytes with %d nodes, then %d bytes with %d", len(first.text), len(first.Set["nodes"]), len(second.text), len(second.Set["nodes"]))
	}
}

// fickle knows a viewer only for some requests.
type fickle struct {
	unlocked
	left int
	err  error
}

func (f *fickle) Who(*http.Request) (*guard.User, error) {
	if f.left--; f.left < 0 {
		return nil, f.err
	}
	return &guard.User{UserInfo: authenticationapi.UserInfo{Username: "ada"}}, nil
}

// A stream ends when its token is not accepted any more, or when nobody can tell.
func TestStreamEnds(t *testing.T) {
	for name, err := range map[string]error{"revoked": nil, "no answer": errors.New("no answer")} {
		s := newSite(t, false, &fickle{left: 2, err: err})
		response := s.get("token", "/api/view") //nolint:bodyclose // the end of the test closes it
		lines := bufio.NewReader(response.Body)
		if _, err := lines.ReadString('}'); err != nil {
			t.Fatal(err)
		}
		s.play.Step(fixture.Noon.Add(100 * time.Second))
		s.update()
		rest, _ := io.ReadAll(lines)
		if ended := strings.Contains(string(rest), "event: end"); ended != (err == nil) {
			t.Errorf("%s: the stream ends with %s", name, rest[max(0, len(rest)-100):])
		}
	}
}

// There are at most mostStreams streams.
func TestMostStreams(t *testing.T) {
	s := newSite(t, true, nil)
	for range mostStreams {
		s.follow("", "/api/view")
	}
	if code, text := s.body("", "/api/view"); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d %s", code, text)
	}
}

// One user has not all streams, and gives a stream back.
func TestMostStreamsOfOne(t *testing.T) {
	s := newSite(t, false, nil)
	for range mostStreamsOfOne {
		s.follow(stage.TokenOne, "/api/view")
	}
	if code, text := s.body(stage.TokenOne, "/api/view"); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d %s", code, text)
	}
	s.follow(stage.TokenAll, "/api/view")
}

// Events that fill the memory are not read to their end.
func TestEventsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct{ bytes, pages, events int }{
		"many":  {bytes: 10, pages: mostEvents / pageOfEvents, events: mostEvents},
		"large": {bytes: 1 << 20, pages: 1, events: pageOfEvents},
		"some":  {bytes: 100 << 10, pages: 9, events: 9 * pageOfEvents},
	} {
		t.Run(name, func(t *testing.T) {
			pages := 0
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if pages++; r.URL.Query().Get("limit") != fmt.Sprint(pageOfEvents) {
					t.Errorf("it asks for %s", r.URL.RawQuery)
				}
				list := corev1.EventList{ListMeta: metav1.ListMeta{Continue: "more"}}
				for range pageOfEvents {
					list.Items = append(list.Items, corev1.Event{Message: strings.Repeat("x", tc.bytes)})
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(&list)
			}))
			defer api.Close()
			core, err := corev1client.NewForConfig(&rest.Config{Host: api.URL})
			if err != nil {
				t.Fatal(err)
			}
			events, err := eventsOf(t.Context(), core.Events("lab"), "uid")
			if err != nil || len(events) != tc.events || pages != tc.pages || len(events[0].Message) > mostMessage {
				t.Errorf("%d events of %d bytes in %d pages, %v", len(events), len(events[0].Message), pages, err)
			}
		})
	}
}

// Requests wait for a place of their user, and of all, and leave nothing.
func TestPlaces(t *testing.T) {
	p := newPlaces(3, 2)
	first, second := p.take("a", atOnce), p.take("a", atOnce)
	if p.take("a", atOnce) != nil {
		t.Error("a user has more than its places")
	}
	third := p.take("b", atOnce)
	if p.take("c", atOnce) != nil {
		t.Error("there are more places than all")
	}
	got := make(chan func())
	go func() { got <- p.take("c", nil) }()
	first()
	fourth := <-got
	for _, leave := range []func(){second, third, fourth} {
		leave()
	}
	if len(p.all)+len(p.byUser) != 0 {
		t.Errorf("%d places are taken, %d users are kept", len(p.all), len(p.byUser))
	}
}

// Every answer forbids scripts of others. An open page answers to names of this host alone.
func TestHeaders(t *testing.T) {
	for _, open := range []bool{false, true} {
		s := newSite(t, open, nil)
		for path, code := range map[string]int{"/": 200, "/app.js": 200, "/style.css": 200, "/none": 404, "/api/none": 404} {
			response := s.get("", path) //nolint:bodyclose // the end of the test closes it
			if response.StatusCode != code || response.Header.Get("Content-Security-Policy") != policy || response.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %s %v", path, response.Status, response.Header)
			}
		}
		for host, local := range map[string]bool{"localhost:8082": true, "127.0.0.1": true, "[::1]:80": true, "evil.example.com:8082": false, "": false} {
			recorder := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			request.Host = host
			s.handler.ServeHTTP(recorder, request)
			if refused := recorder.Code == http.StatusForbidden; refused != (open && !local) {
				t.Errorf("open %t, host %q: %d", open, host, recorder.Code)
			}
		}
		if response, err := s.page.Client().Post(s.page.URL+"/api/view", "text/plain", strings.NewReader("x")); err != nil || response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("a write: %v %v", response, err)
		} else {
			_ = response.Body.Close()
		}
	}
}

// The page has no script, style or handler of its own in the markup, and loads nothing from elsewhere.
func TestMarkup(t *testing.T) {
	s := newSite(t, true, nil)
	_, markup := s.body("", "/")
	for _, forbidden := range []string{"<style", "style=", " onclick", " onload", "http:", "https:", "javascript:"} {
		if strings.Contains(markup, forbidden) {
			t.Errorf("the markup has %s", forbidden)
		}
	}
	entries, err := files.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile("page/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage", "document.cookie"} {
			if strings.Contains(string(text), forbidden) {
				t.Errorf("%s has %s", entry.Name(), forbidden)
			}
		}
	}
}

// Samples are taken while nobody looks, and views are made each second while somebody does.
func TestSource(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Noon)
	src := newSource(Options{Client: stage.New(stage.Settings{Nodes: 5, MiniClusters: 2, Seed: 1, Now: fixture.Noon}), Clock: clock})
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	_, first := src.look()
	go src.run(ctx)
	await := func(what string, samples int, since <-chan struct{}) {
		t.Helper()
		select {
		case <-since:
		case <-ctx.Done():
			t.Fatalf("%s: no view", what)
		}
		if view, _ := src.look(); len(view.Samples) != samples {
			t.Errorf("%s: %d samples, want %d", what, len(view.Samples), samples)
		}
	}
	await("at first", 1, first)
	_, second := src.look()
	for !clock.HasWaiters() {
	}
	clock.Step(5 * time.Second)
	await("after 5 s", 2, second)
	src.viewers.Add(1)
	_, third := src.look()
	clock.Step(time.Second)
	await("with a viewer", 2, third)
}

// A viewer's rights in many namespaces are asked bit by bit.
func TestManyNamespaces(t *testing.T) {
	namespaces := map[string]bool{}
	for i := range 150 {
		namespaces[fmt.Sprintf("n%03d", i)] = true
	}
	v := &viewer{server: &Server{options: Options{Clock: clocktesting.NewFakeClock(fixture.Noon)}}, door: picky{}, who: &guard.User{}, asked: map[string]answer{}}
	for _, want := range []int{100, 120, 140, 150} {
		rights, err := v.rights(t.Context(), namespaces)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, yes := range rights.Namespaces {
			if yes {
				seen++
			}
		}
		if seen != want || rights.All {
			t.Errorf("%d namespaces are seen, want %d", seen, want)
		}
	}
	if _, err := v.rights(t.Context(), map[string]bool{}); err != nil || len(v.asked) != 0 {
		t.Errorf("%d answers are kept of namespaces without MiniClusters", len(v.asked))
	}
}

// Each namespace has its turn, however many there are, and a right that was taken away does not outlive its turn.
func TestTurns(t *testing.T) {
	namespaces := map[string]bool{}
	for i := range 500 {
		namespaces[fmt.Sprintf("n%04d", i)] = true
	}
	const last = "n0499"
	clock, d := clocktesting.NewFakeClock(fixture.Noon), only{last: true}
	v := &viewer{server: &Server{options: Options{Clock: clock}}, door: d, who: &guard.User{}, asked: map[string]answer{}}
	seconds := func(n int) (sees bool) {
		for range n {
			rights, err := v.rights(t.Context(), namespaces)
			if err != nil {
				t.Fatal(err)
			}
			sees = rights.Namespaces[last]
			clock.Step(time.Second)
		}
		return sees
	}
	if !seconds(21) {
		t.Error("the last namespace is never seen")
	}
	delete(d, last)
	if seconds(int((guard.Kept + 25*time.Second) / time.Second)) {
		t.Error("the last namespace is still seen")
	}
}

// only lets everybody see some namespaces, and nothing of the cluster.
type only map[string]bool

func (only) Who(*http.Request) (*guard.User, error) { return &guard.User{}, nil }

func (o only) May(_ context.Context, _ *guard.User, right guard.Right) (bool, error) {
	return o[right.Namespace], nil
}

func TestEndOf(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""}, {"a\nb\n", "a\nb\n"}, {"one\ntwo\nthree\n", "three\n"}, {"one\ntwo\nthree", "three"}, {"0123456789", "23456789"}, {"0123456789\n", "3456789\n"},
	} {
		for _, reader := range []io.Reader{strings.NewReader(tc.text), iotest.OneByteReader(strings.NewReader(tc.text))} {
			if got, err := endOf(reader, 8); err != nil || string(got) != tc.want {
				t.Errorf("%q: got %q, %v, want %q", tc.text, got, err, tc.want)
			}
		}
	}
	if _, err := endOf(iotest.ErrReader(io.ErrUnexpectedEOF), 8); err == nil {
		t.Error("a log that breaks off has an end")
	}
}

// picky lets everybody see each namespace, and nothing of the cluster.
type picky struct{ unlocked }

func (picky) May(_ context.Context, _ *guard.User, right guard.Right) (bool, error) {
	return right.Namespace != "", nil
}
