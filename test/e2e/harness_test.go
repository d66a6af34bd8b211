// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, jobsetapi.AddToScheme, v1alpha2.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Values of the manager's --jobset.
const (
	jobSetEmbedded = "embedded"
	jobSetExternal = "external"
)

// manager is a manager process.
type manager struct {
	cmd             *exec.Cmd
	metrics, health string // addresses
	done            chan struct{}
}

// startManager starts one and waits until it is ready.
func startManager(kubeconfig, jobSet string, args ...string) (*manager, error) {
	metrics, health, err := freeAddresses()
	if err != nil {
		return nil, err
	}
	logFile, err := os.CreateTemp(filepath.Dir(env.bin), "manager-*.log")
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(filepath.Join(env.bin, "manager"), append([]string{
		"--kubeconfig=" + kubeconfig, "--jobset=" + jobSet, "--zap-log-level=1",
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
	}, args...)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &manager{cmd: cmd, metrics: metrics, health: health, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(m.done)
	}()
	if err := m.awaitReady(logFile.Name()); err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

func (m *manager) awaitReady(logPath string) error {
	return poll(func() error {
		select {
		case <-m.done:
			log, _ := os.ReadFile(logPath)
			return final{fmt.Errorf("the manager ended:\n%s", log)}
		default:
		}
		response, err := http.Get("http://" + m.health + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the manager is not ready: %s", response.Status)
		}
		return nil
	})
}

// kill ends it as a crash would.
func (m *manager) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// stop ends it as it is ended in a cluster.
func (m *manager) stop() {
	_ = m.cmd.Process.Signal(os.Interrupt)
	<-m.done
}

func freeAddresses() (a, b string, err error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer first.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer second.Close()
	return first.Addr().String(), second.Addr().String(), nil
}

// final is an error that waiting longer does not mend.
type final struct{ error }

// poll tries until something holds, and returns the last error if it does not in
// time.
func poll(attempt func() error) error { return pollFor(timeout, attempt) }

// pollFor pauses for as long as an attempt takes, so that questions do not keep the machine busy.
func pollFor(limit time.Duration, attempt func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		began := wallClock.Now()
		err := attempt()
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-wallClock.After(max(50*time.Millisecond, wallClock.Since(began))):
		}
	}
}

func eventually(t *testing.T, attempt func() error) {
	t.Helper()
	if err := poll(attempt); err != nil {
		t.Fatal(err)
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// site is a part of the cluster that a test has for itself: a namespace, a queue
// and some nodes.
type site struct {
	t         *testing.T
	ctx       context.Context // outlives the test, for what it cleans up
	namespace string
	nodes     []string
}

var sites struct {
	sync.Mutex
	count int
	taken map[string]bool
}

const siteLabel = "e2e-site"

// newSite takes nodes for a test, which must be free. They are given back, and what
// the test made is removed, when it ends.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	sites.Lock()
	defer sites.Unlock()
	sites.count++
	s := &site{t: t, ctx: context.WithoutCancel(t.Context()), namespace: fmt.Sprintf("site-%d", sites.count)}
	if sites.taken == nil {
		sites.taken = map[string]bool{}
	}
	var list corev1.NodeList
	if err := env.client.List(s.ctx, &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		node := &list.Items[i]
		if len(s.nodes) == nodes || sites.taken[node.Name] {
			continue
		}
		s.labelNode(node.Name, s.namespace)
		sites.taken[node.Name] = true
		s.nodes = append(s.nodes, node.Name)
	}
	if len(s.nodes) < nodes {
		t.Fatalf("only %d nodes are free, the test needs %d", len(s.nodes), nodes)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := env.client.Create(s.ctx, namespace); err != nil {
		t.Fatal(err)
	}
	// The order of its queue is strict, unless a test changes it.
	queue := fixture.Queue(s.namespace).Backfill(v1alpha2.BackfillNone).New()
	if err := env.client.Create(s.ctx, queue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func (s *site) labelNode(name, value string) {
	s.t.Helper()
	s.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{%q:%q}}}`, siteLabel, value)
}

// patch changes an object by a merge patch.
func (s *site) patch(object client.Object, format string, args ...any) {
	s.t.Helper()
	if err := env.client.Patch(s.ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))); err != nil {
		s.t.Fatal(err)
	}
}

// delete deletes an object.
func (s *site) delete(object client.Object, options ...client.DeleteOption) {
	s.t.Helper()
	if err := env.client.Delete(s.ctx, object, options...); err != nil {
		s.t.Fatal(err)
	}
}

// close checks what must be in every test, removes what this one made, checks that
// nothing is left, and gives the nodes back.
func (s *site) close() {
	if s.t.Failed() {
		s.describe()
	}
	if err := env.client.DeleteAllOf(s.ctx, &v1alpha2.MiniCluster{}, client.InNamespace(s.namespace)); err != nil {
		s.t.Error(err)
	}
	for _, violation := range env.watch.broken(s.namespace) {
		s.t.Error(violation)
	}
	if err := poll(s.nothingLeft); err != nil {
		s.t.Errorf("something is left over: %v", err)
	}
	for _, object := range []client.Object{&v1alpha2.MiniClusterQueue{}, &corev1.Namespace{}} {
		object.SetName(s.namespace)
		if err := env.client.Delete(s.ctx, object); err != nil {
			s.t.Error(err)
		}
	}
	sites.Lock()
	defer sites.Unlock()
	for _, node := range s.nodes {
		delete(sites.taken, node)
	}
}

// nothingLeft checks that no object of a MiniCluster is there.
func (s *site) nothingLeft() error {
	for _, list := range []client.ObjectList{
		&v1alpha2.MiniClusterList{}, &jobsetapi.JobSetList{}, &batchv1.JobList{}, &corev1.PodList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
	} {
		if err := env.client.List(s.ctx, list, client.InNamespace(s.namespace), client.HasLabels{v1alpha2.MiniClusterLabel}); err != nil {
			return err
		}
		if n := meta.LenList(list); n > 0 {
			return fmt.Errorf("%d in %T", n, list)
		}
	}
	var list v1alpha2.MiniClusterList // these have no label of ours
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%d MiniClusters", len(list.Items))
	}
	return nil
}

// describe shows what is there, for a test that failed.
func (s *site) describe() {
	out, err := kubectl(s.ctx, "-n", s.namespace, "get", "mc,mcq,jobsets,jobs,pods,events", "-o", "wide")
	if err != nil {
		s.t.Log(err)
	}
	s.t.Logf("what is there:\n%s", out)
}

// kubectl runs it in the site.
func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	out, err := kubectl(s.ctx, append([]string{"-n", s.namespace}, args...)...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// untilTold is how long a state lasts that a test ends by tell once the test has seen enough. On a
// busy machine no shorter time is certain to be long enough.
const untilTold = "1h"

// miniCluster begins one whose pods take whole nodes of the site, in its own queue,
// and whose command runs for a moment.
func (s *site) miniCluster(name string) *fixture.MiniClusterWrapper {
	return s.here(fixture.MiniCluster(name).PodAnnotation(simulator.Runtime, "1s"))
}

// here lets the pods of one take whole nodes of the site, in its own queue.
func (s *site) here(w *fixture.MiniClusterWrapper) *fixture.MiniClusterWrapper {
	return w.CPU("8").Queue(s.namespace).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Pod.NodeSelector = map[string]string{siteLabel: s.namespace}
	})
}

// create creates a MiniCluster in the site.
func (s *site) create(w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
	s.t.Helper()
	mc := w.New()
	mc.Namespace = s.namespace
	if err := env.client.Create(s.ctx, mc); err != nil {
		s.t.Fatal(err)
	}
	return mc
}

func (s *site) get(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	s.t.Helper()
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
		s.t.Fatal(err)
	}
	return mc
}

func condition(mc *v1alpha2.MiniCluster, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(mc.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func state(mc *v1alpha2.MiniCluster) string { return condition(mc, v1alpha2.ConditionReady).Reason }

// await waits until a MiniCluster is as it is expected to be.
func (s *site) await(mc *v1alpha2.MiniCluster, what string, holds func(*v1alpha2.MiniCluster) bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return final{fmt.Errorf("waiting until %s is %s: %w", mc.Name, what, err)}
		}
		if !holds(mc) {
			return fmt.Errorf("%s is not %s, but %s: %s", mc.Name, what, state(mc), condition(mc, v1alpha2.ConditionReady).Message)
		}
		return nil
	})
}

// awaitState waits for one of some states.
func (s *site) awaitState(mc *v1alpha2.MiniCluster, states ...string) {
	s.t.Helper()
	s.await(mc, strings.Join(states, " or "), func(mc *v1alpha2.MiniCluster) bool {
		for _, want := range states {
			if state(mc) == want {
				return true
			}
		}
		return false
	})
}

// awaitSuccess waits until a MiniCluster has succeeded and holds no node any more.
func (s *site) awaitSuccess(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.await(mc, "done, with no node held", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0
	})
}

// awaitGone waits until a MiniCluster is no more.
func (s *site) awaitGone(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &v1alpha2.MiniCluster{})
		switch {
		case err == nil:
			return fmt.Errorf("%s is still there", mc.Name)
		case client.IgnoreNotFound(err) != nil:
			return final{err}
		}
		return nil
	})
}

// pods are those of a MiniCluster.
func (s *site) pods(mc *v1alpha2.MiniCluster) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: mc.Name}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// tell lets the pod of a rank play something else from now on.
func (s *site) tell(mc *v1alpha2.MiniCluster, rank int, annotation, value string) {
	s.t.Helper()
	pod := s.awaitPod(mc, rank, "alive", func(pod *corev1.Pod) bool { return !protocol.Ended(pod) && pod.DeletionTimestamp == nil })
	if err := simulator.Tell(s.ctx, env.client, pod, annotation, value); err != nil {
		s.t.Fatal(err)
	}
}

// endCommand ends a command that runs until it is told.
func (s *site) endCommand(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.tell(mc, 0, simulator.Runtime, "0s")
}

// letStart starts a pod that never starts by itself.
func (s *site) letStart(mc *v1alpha2.MiniCluster, rank int) {
	s.t.Helper()
	s.tell(mc, rank, simulator.NeverStart, "")
}

// events are the reasons of a MiniCluster's events, each as often as it was said.
func (s *site) events(mc *v1alpha2.MiniCluster) map[string]int {
	s.t.Helper()
	var list corev1.EventList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == mc.UID {
			counts[e.Reason] += max(1, int(e.Count))
		}
	}
	return counts
}
