// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Images, with their Flux.
const (
	double = "flux-elastic/test:latest"
	mpi    = "flux-elastic/mpi:latest" // the real one, where there is one
	app    = "flux-elastic/app:latest" // none: it needs a view
)

// TestMiniClusters are the tests that share one cluster, since its start takes a while.
// Each leaves it as it was.
func TestMiniClusters(t *testing.T) {
	c := up(t, 4)
	c.manage()
	for _, part := range []struct {
		name string
		test func(*cluster)
	}{
		{"Lives", testLives},
		{"Example", testExample},
		{"Modes", testModes},
		{"Logs", testLogs},
		{"Plugin", testPlugin},
		{"Volumes", testVolumes},
		{"Beside", testBeside},
		{"Names", testNames},
		{"Interactive", testInteractive},
		{"Ready", testReady},
		{"UnknownUser", testUnknownUser},
		{"Start", testStart},
		{"Scale", testScale},
		{"Again", testAgain},
		{"Deadline", testDeadline},
		{"End", testEnd},
		{"Loss", testLoss},
		{"Back", testBack},
		{"Away", testAway},
		{"StaysDown", testStaysDown},
		{"Trouble", testTrouble},
		{"Halted", testHalted},
		{"DNS", testDNS},
		{"Killed", testKilled},
		{"Deployed", testDeployed},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(c.in(t)) })
	}
}

// hasFlux reports whether the MPI image has the real Flux.
func hasFlux() bool {
	info, err := os.Stat(filepath.Join(cmp.Or(os.Getenv("FLUX_ROOT"), "/opt/flux"), "bin", "flux"))
	return err == nil && info.Mode()&0o111 != 0
}

// best is the image with the real Flux, or where there is none, the double.
func best() string {
	if hasFlux() {
		return mpi
	}
	return double
}

// withFlux tests with the real Flux, or where there is none, with the double. Both prove the same; with the real Flux, the
// double is in Lives.
func withFlux(c *cluster, test func(c *cluster, image string)) {
	c.Helper()
	name := "double"
	if hasFlux() {
		name = "flux"
	}
	c.T.Run(name, func(t *testing.T) { test(c.in(t), best()) })
}

// manage installs config/embedded, and runs the manager outside of the cluster, with the rights of its service account.
func (c *cluster) manage() {
	c.Helper()
	c.must("apply", "--server-side", "--kustomize="+filepath.Join(env.root, "config", "embedded"))
	c.must("--namespace=flux-elastic-system", "delete", "deployment", "flux-elastic")
	c.must("wait", "--for=condition=Established", "--timeout="+patience.String(), "crd/miniclusters.flux-framework.org",
		"crd/miniclusterqueues.flux-framework.org", "crd/miniclusterreservations.flux-framework.org")
	kubeconfig := filepath.Join(c.dir, "manager.kubeconfig")
	if err := harness.WriteKubeconfig(c.Cluster, kubeconfig, c.URL(), harness.SystemIdentity); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := harness.CheckRights(context.WithoutCancel(c.Context()), c.Cluster, harness.Account); err != nil {
			c.Error(err)
		}
	})
	health := c.Address(localcluster.PortHealth)
	err := c.Cluster.Run("manager", filepath.Join(env.dir, "bin", "manager"), "--kubeconfig="+kubeconfig, "--jobset=embedded",
		"--metrics-bind-address="+c.Address(localcluster.PortMetrics), "--health-probe-bind-address="+health)
	if err != nil {
		c.Fatal(err)
	}
	eventually(c.T, "the manager", func() error {
		conn, err := net.Dial("tcp", health)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	scheme := runtime.NewScheme()
	if err := errors.Join(err, clientgoscheme.AddToScheme(scheme), v1alpha2.AddToScheme(scheme)); err != nil {
		c.Fatal(err)
	}
	config.QPS = -1
	direct, err := client.New(config, client.Options{Scheme: scheme})
	lists, err2 := cache.New(config, cache.Options{Scheme: scheme})
	pods, err3 := typedcorev1.NewForConfig(config)
	if err := errors.Join(err, err2, err3); err != nil {
		c.Fatal(err)
	}
	about := func(event client.Object) []string { return []string{string(event.(*eventsv1.Event).Regarding.UID)} }
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	c.Cleanup(cancel)
	if err := lists.IndexField(ctx, &eventsv1.Event{}, "regarding.uid", about); err != nil {
		c.Fatal(err)
	}
	go func() { _ = lists.Start(ctx) }() // a cache that did not start lists nothing
	c.client, c.pods = &watching{direct, lists}, pods
}

// watching is a client that watches the pods and the events: many tests look at them twice a second, and the API server would
// take a third of the machine for that.
type watching struct {
	client.Client
	lists cache.Cache
}

func (w *watching) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *eventsv1.EventList:
		return w.lists.List(ctx, list, options...)
	}
	return w.Client.List(ctx, list, options...)
}

// miniCluster is one that a test has made.
type miniCluster struct {
	*cluster
	name string
	gate string // directory of the machine that is /gate in its pods
}

// make makes a MiniCluster of three brokers and three tasks with Flux of the image of its
// container, or of a view. It goes with the test.
//
// The texts are YAML: more fields of the container, which others may follow, and of the
// spec. What begins with a size has its own number of tasks.
func (c *cluster) make(name, image, container, spec string) *miniCluster {
	c.Helper()
	m := &miniCluster{cluster: c, name: name, gate: c.TempDir()}
	c.Cleanup(m.remove)
	if !strings.Contains(container, "volumes: {") {
		container = strings.TrimPrefix(container+", volumes: {}", ", ")
	}
	gate := fmt.Sprintf("volumes: {gate: {hostPath: %q, path: /gate}, ", m.gate)
	container = strings.Replace(container, "volumes: {", gate, 1)
	if !strings.HasPrefix(spec, "size: ") {
		spec = "size: 3, tasks: 3, " + spec
	}
	c.apply(fmt.Sprintf(`{apiVersion: flux-framework.org/v1alpha2, kind: MiniCluster, metadata: {name: %s}, spec: {
  flux: {container: {disable: %t, image: %q}}, containers: [{image: %q, %s}], %s}}`,
		name, image != app, double, image, container, spec))
	return m
}

// command is the field of a container, with shell.
func command(shell string) string { return "command: " + strconv.Quote(shell) }

// remove deletes it, and waits until nothing of it is left.
func (m *miniCluster) remove() {
	ctx := context.WithoutCancel(m.Context())
	if m.Failed() {
		m.Log(m.describe(ctx))
	}
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name, Namespace: metav1.NamespaceDefault}}
	if err := client.IgnoreNotFound(m.client.Delete(ctx, mc)); err != nil {
		m.Error(err)
	}
	err := poll(ctx, func() error {
		pods, err := m.listPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	})
	if err != nil {
		m.Errorf("%s does not go: %v", m.name, err)
	}
}

// describe is what to look at where a test fails.
func (m *miniCluster) describe(ctx context.Context) string {
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "minicluster", m.name, "--output=yaml"},
		{"get", "pods", "--output=wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=" + v1alpha2.MiniClusterLabel + "=" + m.name, "--tail=-1", "--prefix", "--all-containers"},
	} {
		out, err := m.kubectlIn(ctx, args...)
		fmt.Fprintln(&text, strings.Join(args, " "), err)
		fmt.Fprintln(&text, out)
	}
	return text.String()
}

func (m *miniCluster) get() *v1alpha2.MiniCluster {
	m.Helper()
	mc := &v1alpha2.MiniCluster{}
	if err := m.client.Get(m.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: m.name}, mc); err != nil {
		m.Fatal(err)
	}
	return mc
}

func (m *miniCluster) listPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := m.client.List(ctx, &pods, client.MatchingLabels{v1alpha2.MiniClusterLabel: m.name})
	return pods.Items, err
}

// pod is that of a rank, the youngest of them.
func (m *miniCluster) pod(rank int) *corev1.Pod {
	m.Helper()
	pods, err := m.listPods(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	var found *corev1.Pod
	for i, pod := range pods {
		if r, ok := protocol.Rank(&pod); ok && r == rank && (found == nil || found.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			found = &pods[i]
		}
	}
	if found == nil {
		return &corev1.Pod{}
	}
	return found
}

// is waits until it is so with the MiniCluster.
func (m *miniCluster) is(what string, is func(mc *v1alpha2.MiniCluster) bool) *v1alpha2.MiniCluster {
	m.Helper()
	var mc *v1alpha2.MiniCluster
	eventually(m.T, m.name+" "+what, func() error {
		if mc = m.get(); !is(mc) {
			return fmt.Errorf("it is %s", m.state(mc))
		}
		return nil
	})
	return mc
}

func (m *miniCluster) state(mc *v1alpha2.MiniCluster) string {
	ready := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionReady)
	if ready == nil {
		return "new"
	}
	return ready.Reason + ": " + ready.Message
}

func (m *miniCluster) awaitRunning() *v1alpha2.MiniCluster {
	m.Helper()
	return m.is("runs", func(mc *v1alpha2.MiniCluster) bool {
		return strings.HasPrefix(m.state(mc), v1alpha2.StateRunning+":")
	})
}

// awaitEnd waits for the end, and checks how it was.
func (m *miniCluster) awaitEnd(reasons ...string) *v1alpha2.MiniCluster {
	m.Helper()
	mc := m.is("ends", func(mc *v1alpha2.MiniCluster) bool {
		return meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
	})
	if end := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished); !slices.Contains(reasons, end.Reason) {
		m.Fatalf("it ended with %s: %s, and not with %s", end.Reason, end.Message, reasons)
	}
	return mc
}

// podIs waits until it is so with the pod of a rank.
func (m *miniCluster) podIs(rank int, what string, is func(pod *corev1.Pod) bool) *corev1.Pod {
	m.Helper()
	var pod *corev1.Pod
	eventually(m.T, fmt.Sprintf("the pod of rank %d of %s %s", rank, m.name, what), func() error {
		if pod = m.pod(rank); !is(pod) {
			return fmt.Errorf("%s is %s", pod.Name, pod.Status.String())
		}
		return nil
	})
	return pod
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.Ready })
}

func runs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.State.Running != nil })
}

// open lets those pass that wait for a file.
func (m *miniCluster) open(file string) {
	m.Helper()
	if err := os.WriteFile(filepath.Join(m.gate, file), nil, 0o600); err != nil {
		m.Fatal(err)
	}
}

// until is shell that waits for a file.
func until(file string) string { return "until [[ -e /gate/" + file + " ]]; do sleep 1; done" }

// wait waits for a file that a pod makes.
func (m *miniCluster) wait(file string) {
	m.Helper()
	eventually(m.T, m.name+" makes "+file, func() error {
		_, err := os.Stat(filepath.Join(m.gate, file))
		return err
	})
}

// flux asks the instance on the lead.
func (m *miniCluster) flux(args string) (string, error) {
	return m.exec(0, "export FLUX_URI=local:///mnt/flux/config/run/flux/local; flux "+args)
}

// exec runs shell in the pod of a rank, for a minute at most: a job on a broker that is lost may
// never end.
func (m *miniCluster) exec(rank int, shell string) (string, error) {
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	return m.kubectlIn(ctx, "exec", m.pod(rank).Name, "--container="+m.name, "--", "bash", "-c", shell)
}

// log is that of the lead.
func (m *miniCluster) log() string {
	m.Helper()
	log, err := m.logOf(m.pod(0))
	if err != nil {
		m.Fatal(err)
	}
	return log
}

// logOf is that of a pod of its brokers.
func (m *miniCluster) logOf(pod *corev1.Pod) (string, error) {
	log, err := m.pods.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: m.name}).DoRaw(m.Context())
	return strings.TrimSpace(string(log)), err
}

// says waits until the log of the lead has all words.
func (m *miniCluster) says(words ...string) {
	m.Helper()
	eventually(m.T, fmt.Sprintf("the log of %s says %q", m.name, words), func() error {
		log := m.log()
		for _, word := range words {
			if !strings.Contains(log, word) {
				return fmt.Errorf("there is no %q in:\n%s", word, log)
			}
		}
		return nil
	})
}

// told are the messages of its events by their reasons, once there is one of a reason.
func (m *miniCluster) told(reason string) string {
	m.Helper()
	var said []string
	eventually(m.T, m.name+" is told to be "+reason, func() error {
		var events corev1.EventList
		if err := m.client.List(m.Context(), &events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": m.name}); err != nil {
			return err
		}
		said = nil
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == v1alpha2.MiniClusterKind && event.Reason == reason {
				said = append(said, event.Message)
			}
		}
		if len(said) == 0 {
			return errors.New("there is no such event")
		}
		return nil
	})
	return strings.Join(said, "\n")
}

// followersGone waits until nobody but the lead has a pod, and the nodes are free.
func (m *miniCluster) followersGone() {
	m.Helper()
	eventually(m.T, "only the lead's pod stays", func() error {
		pods, err := m.listPods(m.Context())
		if err == nil && (len(pods) != 1 || m.get().Status.Nodes != 0) {
			err = fmt.Errorf("%d pods, %d nodes", len(pods), m.get().Status.Nodes)
		}
		return err
	})
}
