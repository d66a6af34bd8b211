// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// fuse is a proxy to the API server that counts the manager's writes by kind, and
// kills the manager at one of them: when it has taken effect, and the manager does
// not know, or just before.
type fuse struct {
	mutex  sync.Mutex
	counts map[string]int // writes that were seen, by kind
	blowAt write
	blow   func()
	blown  bool
	// told are the events of decisions, each with how often it was sent, where the manager is
	// killed at every one of them; else nil.
	told map[string]int
	// held is not nil while events are not answered.
	held chan struct{}
	// dryRuns counts dry runs, and reads requests for single objects and lists.
	dryRuns, reads atomic.Int64
	proxy          *httputil.ReverseProxy
}

// write is the n-th of a kind, such as "PATCH pods".
type write struct {
	kind   string
	n      int
	before bool
}

func newFuse(t *testing.T) (*fuse, string) {
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
	f := &fuse{counts: map[string]int{}, proxy: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	server := httptest.NewServer(f)
	t.Cleanup(server.CloseClientConnections)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := env.cluster.WriteKubeconfig(path, server.URL); err != nil {
		t.Fatal(err)
	}
	return f, path
}

// set begins to count anew, and makes it blow at a write.
func (f *fuse) set(at write, blow func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.counts, f.blowAt, f.blow, f.blown = map[string]int{}, at, blow, false
}

func (f *fuse) hasBlown() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.blown
}

func (f *fuse) seen() map[string]int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return maps.Clone(f.counts)
}

// kindOf is the kind of a write that matters; "" for others: events do not, and dry
// runs write nothing.
func kindOf(r *http.Request) string {
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	parts := strings.Split(path, "/") // namespace, resource, name, subresource
	if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" || !namespaced || len(parts) < 2 || parts[1] == "events" {
		return ""
	}
	kind := r.Method + " " + parts[1]
	if len(parts) > 3 {
		kind += "/" + parts[3]
	}
	return kind
}

// atEvents makes it blow twice at every event of the manager's: before it is written, and
// when it is sent again, after that. Until it has something to blow nothing is written.
func (f *fuse) atEvents(blow func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.told == nil {
		f.told = map[string]int{}
	}
	f.blow, f.blown = blow, blow == nil
}

// eventName is how an event is called, in whatever way it is encoded.
var eventName = regexp.MustCompile(`[-a-z0-9]+\.[0-9a-f]{16}`)

func (f *fuse) tell(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.blown {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	name := string(eventName.Find(body))
	f.told[name]++
	n := f.told[name]
	if n == 2 {
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n <= 2 {
		f.blown = true
		f.blow()
		panic(http.ErrAbortHandler)
	}
	f.proxy.ServeHTTP(w, r)
}

// hold leaves events unanswered until the function that it returns is called.
func (f *fuse) hold() (release func()) {
	f.held = make(chan struct{})
	return sync.OnceFunc(func() { close(f.held) })
}

func (f *fuse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := kindOf(r)
	switch query := r.URL.Query(); {
	case query.Get("dryRun") != "":
		f.dryRuns.Add(1)
	case r.Method == http.MethodGet && query.Get("watch") == "":
		f.reads.Add(1)
	}
	if f.held != nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/events.k8s.io/") {
		select {
		case <-f.held:
		case <-r.Context().Done(): // the manager does not wait any longer
			panic(http.ErrAbortHandler)
		}
	}
	if f.told != nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/events.k8s.io/") {
		f.tell(w, r)
		return
	}
	if kind == "" {
		f.proxy.ServeHTTP(w, r)
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock() // one write after the other
	if f.blown {
		panic(http.ErrAbortHandler) // of a manager that is dead
	}
	f.counts[kind]++
	if kind == f.blowAt.kind && f.counts[kind] == f.blowAt.n {
		f.blown = true
		if !f.blowAt.before {
			f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		f.blow()
		panic(http.ErrAbortHandler)
	}
	f.proxy.ServeHTTP(w, r)
}

// The manager is killed before and after every write of a life, those of JobSet's
// controller in it included, and started again: nothing is lost, nothing is done
// twice.
func TestKilledAtEveryWrite(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	f, kubeconfig := newFuse(t)
	var quiet map[string]int
	t.Run("never", func(t *testing.T) {
		liveOnce(t, f, kubeconfig, write{})
		quiet = f.seen()
	})
	t.Logf("the writes of a life: %v", quiet)
	for _, kind := range []string{
		"PATCH miniclusters/status", "POST secrets", "POST configmaps", "POST services", "POST jobsets", "POST jobs",
		"PUT jobsets/status", "PATCH pods", "DELETE pods",
		"POST endpointslices", "DELETE endpointslices",
	} {
		if quiet[kind] == 0 {
			t.Errorf("a life has no %s", kind)
		}
		for n := 1; n <= quiet[kind]; n++ {
			for _, before := range []bool{true, false} {
				at := write{kind, n, before}
				t.Run(fmt.Sprintf("%s/%d/before=%v", strings.ReplaceAll(kind, "/", "-"), n, before), func(t *testing.T) {
					liveOnce(t, f, kubeconfig, at)
				})
			}
		}
		delete(quiet, kind)
	}
	delete(quiet, "PUT endpointslices") // only if the pods get their addresses at different times
	if len(quiet) > 0 {
		t.Errorf("a life also has %v", quiet)
	}
}

// The manager is killed before and after it tells of every decision, through lives that are
// resized, lost, given up and suspended: each is told once, and nothing is done twice.
func TestKilledAtEveryEvent(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	f, kubeconfig := newFuse(t)
	s := newSite(t, 14)
	record := s.newRecord()
	defer f.keepAlive(t, kubeconfig)()
	again := func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("1s")}
	}
	resized := s.create(s.miniCluster("resized").Launcher().Size(3).MinSize(1).MaxSize(6).PodAnnotation(simulator.Runtime, "1h"))
	lost := s.create(s.miniCluster("lost").Size(2).PodAnnotation(simulator.LoseRanks, "1").PodAnnotation(simulator.Runtime, "1h").
		Spec(again).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.OnLoss = v1alpha2.LossRecreate }))
	givenUp := s.create(s.miniCluster("given-up").Size(2).PodAnnotation(simulator.NeverStart, "1").
		Spec(again).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("3s"), duration("5s")
	}))
	suspended := s.create(s.miniCluster("suspended").Size(2).PodAnnotation(simulator.Runtime, "1h"))
	reach := func(mc *v1alpha2.MiniCluster, reason string) {
		t.Helper()
		eventually(t, func() error {
			if seen := record.of(mc); seen.times(reason) == 0 {
				return fmt.Errorf("%s: no %s was decided", mc.Name, reason)
			}
			return nil
		})
	}
	reach(resized, "Started")
	s.patch(resized, `{"spec":{"size":5}}`)
	reach(suspended, "Started")
	s.patch(suspended, `{"spec":{"suspend":true}}`)
	reach(resized, "Grew")
	s.patch(resized, `{"spec":{"size":2}}`)
	reach(suspended, "Released")
	s.patch(suspended, `{"spec":{"suspend":false,"deadlineSeconds":1}}`)
	reach(resized, "Vacated")
	s.patch(resized, `{"spec":{"deadlineSeconds":1}}`)
	for _, mc := range []*v1alpha2.MiniCluster{resized, lost, givenUp, suspended} {
		s.awaitState(mc, v1alpha2.StateFailed)
	}
	record.check(s)
	for mc, runs := range map[*v1alpha2.MiniCluster]int{resized: 1, lost: 2, givenUp: 0, suspended: 2} {
		if n := record.runsOf(mc.UID); n != runs {
			t.Errorf("%s: the command began %d times, want %d", mc.Name, n, runs)
		}
	}
}

// Events are not answered: all decisions are made nevertheless, also by a manager that is started
// meanwhile. Once events are answered, each decision is told once.
func TestKilledWhileEventsHang(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	f, kubeconfig := newFuse(t)
	s := newSite(t, 4)
	record := s.newRecord()
	release := f.hold()
	defer release()
	m, err := startManager(kubeconfig, jobSetEmbedded)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { m.Stop() }()
	running := s.create(s.miniCluster("running").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	ended := s.create(s.miniCluster("ended").Size(2))
	s.awaitState(running, v1alpha2.StateRunning)
	s.awaitSuccess(ended)
	s.awaitTold(running)
	m.Kill()
	if m, err = startManager(kubeconfig, jobSetEmbedded); err != nil {
		t.Fatal(err)
	}
	s.endCommand(running)
	for _, mc := range []*v1alpha2.MiniCluster{running, ended} {
		s.awaitSuccess(mc)
		s.awaitTold(mc)
	}
	release()
	for _, mc := range []*v1alpha2.MiniCluster{running, ended} {
		s.awaitTold(mc, "Admitted", "Started", v1alpha2.ReasonSucceeded)
		s.await(mc, "without pending events", func(mc *v1alpha2.MiniCluster) bool { return len(mc.Status.PendingEvents) == 0 })
	}
	record.check(s)
}

// keepAlive starts a manager, and another whenever the fuse has killed it at an event,
// until the function that it returns is called.
func (f *fuse) keepAlive(t *testing.T, kubeconfig string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	f.atEvents(nil)
	go func() {
		m, err := startManager(kubeconfig, jobSetEmbedded)
		for err == nil {
			f.atEvents(m.Kill)
			select {
			case <-ctx.Done():
				m.Stop()
				ended <- nil
				return
			case <-m.Done:
				m, err = startManager(kubeconfig, jobSetEmbedded)
			}
		}
		ended <- err
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// restartManager starts the manager that the other tests use.
func restartManager(t *testing.T) {
	t.Helper()
	var err error
	if env.manager, err = startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded); err != nil {
		t.Error(err)
	}
}

// The same while it waits, and its pods are made ahead.
func TestKilledWhileMakingAhead(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	f, kubeconfig := newFuse(t)
	for _, at := range []write{
		{kind: "POST secrets", n: 1}, {kind: "POST configmaps", n: 1}, {kind: "POST services", n: 1}, {kind: "POST jobsets", n: 1},
		{kind: "POST jobs", n: 1}, {kind: "PATCH miniclusters/status", n: 1}, {kind: "PATCH miniclusters/status", n: 2}, {kind: "PATCH pods", n: 1},
	} {
		for _, at.before = range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%d/before=%v", strings.ReplaceAll(at.kind, "/", "-"), at.n, at.before), func(t *testing.T) {
				if !live(t, f, kubeconfig, at, true) {
					t.Error("nobody was killed")
				}
			})
		}
	}
}

// liveOnce lives a life in which the manager is killed at a write. It has flags; the
// one after it has not.
func liveOnce(t *testing.T, f *fuse, kubeconfig string, at write, args ...string) (killed bool) {
	t.Helper()
	return live(t, f, kubeconfig, at, false, args...)
}

// live is the same; the nodes may be in others' use until the pods are there.
func live(t *testing.T, f *fuse, kubeconfig string, at write, ahead bool, args ...string) (killed bool) {
	t.Helper()
	s := newSite(t, 3)
	f.set(write{}, nil)
	m, err := startManager(kubeconfig, jobSetEmbedded, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { m.Stop() }()
	f.set(at, m.Kill)
	reach := func(what string, reached func() bool) {
		t.Helper()
		eventually(t, func() error {
			if f.hasBlown() {
				killed = true
				f.set(write{}, nil)
				if m, err = startManager(kubeconfig, jobSetEmbedded); err != nil {
					t.Fatal(err)
				}
			}
			if !reached() {
				return errors.New("it is not " + what)
			}
			return nil
		})
	}
	var others []*corev1.Pod
	if ahead {
		others = append(others, s.occupy(s.nodes[0]), s.occupy(s.nodes[1]))
	}
	mc := s.create(s.miniCluster("life").Size(2).PodAnnotation(simulator.Runtime, "100ms"))
	if ahead {
		reach("made ahead", func() bool { return len(s.pods(mc)) == 2 })
		for _, other := range others {
			s.delete(other, client.GracePeriodSeconds(0))
		}
	}
	reach("done", func() bool {
		return state(s.get(mc)) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0 && len(s.pods(mc)) == 1
	})
	checkLife(s, mc)
	return killed
}

// checkLife checks that a life of two brokers was lived once, to its end: the lead's
// pod is left alone.
func checkLife(s *site, mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		if n := len(s.pods(mc)); n != 1 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	if n := s.leadsOf(mc); n != 1 {
		s.t.Errorf("the command ran %d times", n)
	}
	if mc.Status.Admission.Attempt != 1 || mc.Status.RequeueState != nil || *mc.Status.ExitCode != 0 {
		s.t.Errorf("the status is %+v", mc.Status)
	}
	var set jobsetapi.JobSet
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &set); err != nil {
		s.t.Fatal(err)
	}
	if n := s.podsOf(mc); n != 2 {
		s.t.Errorf("%d pods were made for two brokers", n)
	}
	if made := env.watch.madeBeforeBound(set.UID); made != 2 {
		s.t.Errorf("%d of 2 pods were there when the first was bound", made)
	}
	for reason, n := range s.events(mc) {
		if n > 1 {
			s.t.Errorf("event %s was said %d times", reason, n)
		}
	}
}

// With two managers one leads; when it dies the other takes over, and the life goes
// on.
func TestLeaderElection(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	s := newSite(t, 2)
	elect := []string{"--leader-elect", "--leader-election-namespace=flux-elastic-system"}
	var managers []*harness.Manager
	defer func() {
		for _, m := range managers {
			m.Stop()
		}
	}()
	for range 2 {
		m, err := startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded, elect...)
		if err != nil {
			t.Fatal(err)
		}
		managers = append(managers, m)
	}
	mc := s.create(s.miniCluster("life").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	managers[0].Kill() // the first to come leads
	s.endCommand(mc)
	s.awaitSuccess(mc)
	checkLife(s, mc)
}

// A manager that uses the JobSet of the cluster makes what one needs that it runs
// itself.
func TestExternalJobSet(t *testing.T) {
	env.manager.Stop()
	defer restartManager(t)
	s := newSite(t, 2)
	external, err := startManager(env.cluster.ManagerKubeconfig, jobSetExternal)
	if err != nil {
		t.Fatal(err)
	}
	defer external.Stop()
	mc := s.create(s.miniCluster("life").Size(2))
	// Nobody runs JobSets: it gets as far as having one.
	eventually(t, func() error {
		return env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &jobsetapi.JobSet{})
	})
	if pods := s.pods(mc); len(pods) > 0 {
		t.Errorf("it has %d pods", len(pods))
	}
	stop := runJobSet(t)
	defer stop()
	s.awaitSuccess(mc)
	checkLife(s, mc)
}
