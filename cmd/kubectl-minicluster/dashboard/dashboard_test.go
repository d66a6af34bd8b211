// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// cluster is an API server with a pod of the manager, whose page accepts the tokens own and made, and answers who asked.
type cluster struct {
	*httptest.Server
	page *httptest.Server
	// forbidden are the paths that the user may not ask for, by their end.
	forbidden string
	// refuses is true if nothing listens on the port of the page.
	refuses atomic.Bool

	mutex    sync.Mutex
	forwards []httpstream.Connection
}

const manager = "/api/v1/namespaces/flux-elastic-system/pods"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	c.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("Authorization")
		if r.URL.Path == "/api/view" && who != "Bearer own" && who != "Bearer made" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "%s asks %s as %q", r.Host, r.URL.Path, who)
	}))
	t.Cleanup(c.page.Close)
	routes := http.NewServeMux()
	routes.HandleFunc("GET "+manager, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "PodList", "apiVersion": "v1", "items": [
			{"metadata": {"name": "starts"}},
			{"metadata": {"name": "leads"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}`)
	})
	routes.HandleFunc("POST "+manager+"/leads/portforward", c.forward)
	routes.HandleFunc("POST /api/v1/namespaces/research/serviceaccounts/viewer/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": {"token": "made", "expirationTimestamp": "2999-01-01T00:00:00Z"}}`)
	})
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.forbidden != "" && strings.HasSuffix(r.URL.Path, c.forbidden) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "pods \"leads\" is forbidden: User \"ada\" cannot"}`)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// forward forwards connections to the page, as a kubelet does.
func (c *cluster) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	var troubles sync.Map // by request
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			troubles.Store(id, stream)
			return nil
		}
		trouble, _ := troubles.Load(id)
		go c.copy(stream, trouble.(httpstream.Stream))
		return nil
	})
	if connection == nil {
		return
	}
	c.mutex.Lock()
	c.forwards = append(c.forwards, connection)
	c.mutex.Unlock()
	<-connection.CloseChan()
}

func (c *cluster) copy(stream, trouble httpstream.Stream) {
	defer stream.Close()
	defer trouble.Close()
	if c.refuses.Load() {
		_, _ = io.WriteString(trouble, "connection refused")
		return
	}
	to, err := net.Dial("tcp", c.page.Listener.Addr().String())
	if err != nil {
		_, _ = io.WriteString(trouble, err.Error())
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, stream) }()
	_, _ = io.Copy(stream, to)
}

// session returns a session of a user with the fields of a kubeconfig, and what it prints.
func (c *cluster) session(t *testing.T, user string) (*access.Session, *io.PipeReader) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: research}}],
		clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: %s}]}`, c.URL, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	s := access.New(strings.NewReader(""), write, io.Discard)
	s.Flags.KubeConfig = file
	return s, read
}

// plugin is a program that prints the token own.
func plugin(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin")
	const script = "#!/bin/sh\necho '{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"own\"}}'\n"
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return fmt.Sprintf("{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: %q}}", file)
}

func flags() options { return options{managers: access.ManagerNamespace, remote: 8082} }

// ask asks the address for a path, with a token.
func ask(t *testing.T, address *url.URL, path, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Who has the key sees what the user may see, and the page gets the token of the user. Ctrl-C ends it without an error.
func TestDashboard(t *testing.T) {
	for name, tc := range map[string]struct{ user, account, want string }{
		"a token":           {user: "{token: own}", want: "own"},
		"a plugin":          {user: plugin(t), want: "own"},
		"a service account": {user: "{username: ada, password: secret}", account: "viewer", want: "made"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			s, printed := c.session(t, tc.user)
			o := flags()
			o.account = tc.account
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				err := run(ctx, s, o)
				_ = printed.Close()
				ended <- err
			}()
			line, err := bufio.NewReader(printed).ReadString('\n')
			if err != nil {
				t.Fatalf("it ended: %v", <-ended)
			}
			address, err := url.Parse(strings.TrimSpace(line))
			key, brought := strings.CutPrefix(address.Fragment, "token=")
			if err != nil || !brought || len(key) < 26 || strings.Contains(line, tc.want) {
				t.Errorf("%v: it prints %q", err, line)
			}
			for token, want := range map[string]string{key: "Bearer " + tc.want, "": "", "other": "Bearer other"} {
				if got, want := ask(t, address, "/x", token), fmt.Sprintf("%s asks /x as %q", address.Host, want); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			c.mutex.Lock()
			_ = c.forwards[0].Close() // the pod goes away
			c.mutex.Unlock()
			http.DefaultClient.CloseIdleConnections()
			c.refuses.Store(true) // a kubelet may keep the connection to a pod that is gone
			for !strings.Contains(ask(t, address, "/y", key), "the pod is gone") {
			}
			c.refuses.Store(false)
			for !strings.Contains(ask(t, address, "/y", key), "asks /y") { // until the loss is noticed
			}
			interrupt()
			if err := <-ended; err != nil {
				t.Errorf("after ctrl-C: %v", err)
			}
		})
	}
}

// An error says what is missing.
func TestDashboardErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		user      string
		as        string
		forbidden string
		refuses   bool
		want      string
	}{
		"no token":           {user: "{username: ada, password: secret}", want: "--service-account; you need the right to create serviceaccounts/token"},
		"for somebody else":  {user: "{token: own}", as: "bob", want: "and not by --as"},
		"may not see pods":   {user: "{token: own}", forbidden: "/pods", want: `a right is missing: User "ada" cannot`},
		"may not forward":    {user: "{token: own}", forbidden: "/portforward", want: `pods "leads" is forbidden: User "ada" cannot`},
		"no page":            {user: "{token: own}", refuses: true, want: "the page of pod leads does not answer; the pod is gone, or the manager lacks --dashboard-bind-address: connection refused"},
		"another's token":    {user: "{token: other}", want: "the manager does not accept your token"},
		"no token of theirs": {user: "{token: own}", forbidden: "/token", want: `a right is missing: User "ada" cannot`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.forbidden = tc.forbidden
			c.refuses.Store(tc.refuses)
			s, _ := c.session(t, tc.user)
			s.Flags.AuthInfo.Impersonate = tc.as
			o := flags()
			if tc.forbidden == "/token" {
				o.account = "viewer"
			}
			if err := run(t.Context(), s, o); err == nil || !strings.Contains(access.Explain(err), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// The address is not an argument of the browser, and goes away at the end.
func TestShow(t *testing.T) {
	directory, seen := t.TempDir(), make(chan string, 1)
	arguments := filepath.Join(directory, "arguments")
	for _, name := range []string{"xdg-open", "open"} {
		script := fmt.Sprintf("#!/bin/sh\necho \"$@\" > %s.new && mv %s.new %s\n", arguments, arguments, arguments)
		if err := os.WriteFile(filepath.Join(directory, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
	remove, err := show("http://127.0.0.1:1/#token=key")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if text, err := os.ReadFile(arguments); err == nil {
				seen <- strings.TrimSpace(string(text))
				return
			}
		}
	}()
	file := <-seen
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the browser gets %q: %v", file, err)
	}
	if text, _ := os.ReadFile(file); !strings.Contains(string(text), "url=http://127.0.0.1:1/#token=key") {
		t.Errorf("the file has %s", text)
	}
	remove()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}
