// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/version"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Of two managers one leads. When it is lost, in whatever way, the other goes on with its decisions: nothing is decided
// twice, and no two of them decide at once.
func TestLeaderElection(t *testing.T) {
	defer stopManager(t)()
	for _, tc := range []struct {
		name string
		lose func(*harness.Manager, *line)
		// ends says that the first one has ended before the other can lead.
		ends bool
	}{
		{"cut off", func(_ *harness.Manager, f *line) { f.cut() }, true},
		// It does not know that time has passed.
		{"halted", func(m *harness.Manager, _ *line) { m.Halt() }, false},
		// It gives the lease back once it decides nothing more, and then ends.
		{"ended", func(m *harness.Manager, _ *line) { m.Stop() }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, 2)
			record, p := s.newRecord(), s.userProgram()
			f := newLine(t)
			first, second := s.startTwo(f.kubeconfig)
			defer second.Stop()
			defer first.Stop()
			defer first.Resume()
			runs := s.create(s.miniCluster("runs").Size(2).PodAnnotation(simulator.Runtime, untilTold))
			s.awaitState(runs, v1alpha2.StateRunning)
			next := s.create(s.miniCluster("next").Size(2))
			s.awaitState(next, v1alpha2.StateQueued)

			before := s.leader()
			host, _, _ := strings.Cut(before.name, "_")
			if out := p.expect(0, []string{"version"}, " ("+host+" leads)", "Kubernetes v1."); strings.Contains(out, "unknown") {
				t.Error(out)
			}
			lost := wallClock.Now()
			tc.lose(first, f)
			s.endCommand(runs)
			s.awaitSuccess(runs)
			s.awaitSuccess(next)
			after := s.leader()
			t.Logf("the other led after %s, and admitted after %s", after.since.Sub(lost), next.Status.Admission.Time.Sub(lost))
			if after.name == before.name {
				t.Errorf("it is %s that leads", after.name)
			}
			first.Resume()
			<-first.Done
			if tc.ends && first.At.After(after.since) {
				t.Errorf("the first ended %s after the other led", first.At.Sub(after.since))
			}
			s.awaitSuccess(s.create(s.miniCluster("last").Size(2)))
			if again := s.leader(); again.name != after.name {
				t.Errorf("%s leads, after %s", again.name, after.name)
			}
			checkLife(s, s.get(runs))
			checkLife(s, s.get(next))
			record.check(s)
		})
	}
}

// line is what connects a manager with the API server.
type line struct {
	kubeconfig string
	// broken is closed once the line is cut, and disconnect ends the connections that there are.
	broken     chan struct{}
	disconnect func()
	proxy      *httputil.ReverseProxy
}

func newLine(t *testing.T) *line {
	t.Helper()
	config, err := env.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = harness.SystemIdentity
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{broken: make(chan struct{}), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), proxy: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	server := httptest.NewServer(l)
	l.disconnect = server.CloseClientConnections
	t.Cleanup(l.disconnect)
	if err := harness.WriteKubeconfig(env.cluster.Cluster, l.kubeconfig, server.URL, harness.SystemIdentity); err != nil {
		t.Fatal(err)
	}
	return l
}

// cut ends all connections, and leaves every further request without an answer, as a network that is cut.
func (l *line) cut() {
	close(l.broken)
	l.disconnect()
}

// ServeHTTP passes a request on, unless the line is cut.
func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-l.broken:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	default:
		l.proxy.ServeHTTP(w, r)
	}
}

// startTwo starts a manager that leads, and another one. The first has a kubeconfig of its own.
func (s *site) startTwo(kubeconfig string) (first, second *harness.Manager) {
	s.t.Helper()
	const namespace = "flux-elastic-system"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: version.ManagerLease}}
	s.t.Cleanup(func() { // nobody has to wait until it is over
		if err := client.IgnoreNotFound(env.client.Delete(context.WithoutCancel(s.ctx), lease)); err != nil {
			s.t.Error(err)
		}
	})
	elect := []string{"--leader-elect", "--leader-election-namespace=" + namespace}
	first, err := startManager(kubeconfig, jobSetEmbedded, elect...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.leader()
	if second, err = startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded, elect...); err != nil {
		first.Stop()
		s.t.Fatal(err)
	}
	return first, second
}

// leader is who holds the lease.
type leader struct {
	name  string
	since time.Time
}

// leader waits until somebody leads.
func (s *site) leader() (l leader) {
	s.t.Helper()
	eventually(s.t, func() error {
		var lease coordinationv1.Lease
		err := env.client.Get(s.ctx, client.ObjectKey{Namespace: "flux-elastic-system", Name: version.ManagerLease}, &lease)
		if err != nil {
			return err
		}
		l.name = ptr.Deref(lease.Spec.HolderIdentity, "")
		if l.name == "" {
			return fmt.Errorf("nobody leads: %+v", lease.Spec)
		}
		l.since = lease.Spec.AcquireTime.Time
		return nil
	})
	return l
}
