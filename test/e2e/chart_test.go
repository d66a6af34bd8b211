// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// release is what Helm has installed in a cluster of its own.
type release struct {
	t         *testing.T
	ctx       context.Context // outlives the test, for what it cleans up
	cluster   *harness.Cluster
	namespace string
	home      string // of Helm
}

func newRelease(t *testing.T, namespace string) *release {
	t.Helper()
	r := &release{t: t, ctx: context.WithoutCancel(t.Context()), namespace: namespace, home: t.TempDir()}
	var err error
	if r.cluster, err = env.UpEmpty(r.ctx, "chart", 3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.cluster.Down(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// helm runs a command of Helm for the release.
func (r *release) helm(command string, args ...string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.ctx, "go", append([]string{"tool", "-modfile=hack/release/go.mod", "helm", command, "batch", "--namespace=" + r.namespace}, args...)...)
	cmd.Dir = env.Root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.cluster.Kubeconfig(), "HELM_CACHE_HOME="+r.home, "HELM_CONFIG_HOME="+r.home, "HELM_DATA_HOME="+r.home)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("helm %s %v: %v\n%s", command, args, err, out)
	}
}

// startManager starts a manager as the Deployment of the release would: with its arguments and the rights of
// its service account. The Deployment's pods would run on simulated nodes, where nothing runs.
func (r *release) startManager() *harness.Manager {
	r.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "flux-elastic"}}
	if err := r.cluster.Client.Get(r.ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		r.t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	args := slices.DeleteFunc(pod.Containers[0].Args, func(arg string) bool { return strings.Contains(arg, "-bind-address=") }) // the harness finds free ports
	identity := "system:serviceaccount:" + r.namespace + ":" + pod.ServiceAccountName
	path := filepath.Join(r.home, "kubeconfig")
	if err := harness.WriteKubeconfig(r.cluster.Cluster, path, r.cluster.URL(), identity); err != nil {
		r.t.Fatal(err)
	}
	m, err := startManager(path, jobSetExternal, append(args, "--leader-election-namespace="+r.namespace)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// expect checks which objects of the cluster are there, each as KIND/NAME.
func (r *release) expect(want bool, objects ...string) {
	r.t.Helper()
	for _, object := range objects {
		out, err := r.cluster.Kubectl(r.ctx, "-n", r.namespace, "get", object, "--ignore-not-found", "-o=name")
		if got := len(out) > 0; err != nil || got != want {
			r.t.Errorf("%s: got %q, %v, want it there: %t", object, out, err, want)
		}
	}
}

// categories returns a field of the definition of MiniClusters.
func (r *release) categories() []string {
	r.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "miniclusters.flux-framework.org"}}
	if err := r.cluster.Client.Get(r.ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
		r.t.Fatal(err)
	}
	return definition.Spec.Names.Categories
}

// newer returns a copy of the chart in which the definition of MiniClusters has changed.
func newer(t *testing.T, chart string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "flux-elastic")
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "files/crd/flux-framework.org_miniclusters.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("\n    categories:\n    - all\n"), []byte("\n    categories:\n    - newer\n"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A release of the chart is installed in a namespace of the site's choice, over definitions of kubectl. A MiniCluster
// lives through an upgrade, a rollback, the end of the release and its return. It goes with the definitions alone.
func TestChart(t *testing.T) {
	t.Parallel()
	r := newRelease(t, "hpc")
	chart := filepath.Join(env.Root, "charts/flux-elastic")
	if out, err := r.cluster.Kubectl(r.ctx, "apply", "--server-side", "-k", filepath.Join(env.Root, "config/crd")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.helm("install", chart, "--create-namespace", "--take-ownership", "--set=replicas=0,jobset=embedded,admission.enabled=true")
	m := r.startManager()
	t.Cleanup(func() { m.Stop() })
	site := r.cluster.NewSite(t, 3)
	mc := fixture.MiniCluster("lammps").In(site.Namespace).Size(3).CPU("8").PodAnnotation(simulator.Runtime, untilTold).New()
	site.Create(mc)
	site.AwaitState(mc, v1alpha2.StateRunning)
	for _, pod := range site.Pods(mc) {
		if pod.Spec.Affinity != nil {
			t.Errorf("pod %s was not bound by the API server, but pinned: %+v", pod.Name, pod.Spec.Affinity)
		}
	}

	r.helm("upgrade", newer(t, chart), "--reuse-values", "--force-conflicts", "--set=binder=direct")
	if got := r.categories(); !slices.Equal(got, []string{"newer"}) {
		t.Errorf("the upgrade left the definition with the categories %v", got)
	}
	r.expect(true, "clusterrole/flux-elastic-direct")
	m.Stop()
	m = r.startManager()
	second := fixture.MiniCluster("second").In(site.Namespace).Size(1).CPU("0").PodAnnotation(simulator.Runtime, "1s").New()
	site.Create(second)
	site.AwaitSuccess(second)
	r.helm("rollback", "1")
	if got := r.categories(); !slices.Equal(got, []string{"all"}) {
		t.Errorf("the rollback left the definition with the categories %v", got)
	}
	r.expect(false, "clusterrole/flux-elastic-direct")

	r.helm("uninstall")
	r.expect(true, "crd/miniclusters.flux-framework.org", "crd/miniclusterqueues.flux-framework.org", "crd/miniclusterreservations.flux-framework.org")
	r.expect(false, "deployment/flux-elastic", "serviceaccount/flux-elastic", "clusterrole/flux-elastic", "clusterrolebinding/flux-elastic",
		"validatingadmissionpolicy/flux-elastic-limits", "mutatingadmissionpolicy/flux-elastic-placement")
	m.Stop()
	r.helm("install", chart, "--set=replicas=0,jobset=embedded,crds.keep=false")
	m = r.startManager()
	site.Tell(mc, 0, simulator.Runtime, "0s")
	site.AwaitSuccess(mc)
	if mc.Status.Admission.Attempt != 1 {
		t.Errorf("it ended with attempt %d", mc.Status.Admission.Attempt)
	}

	third := fixture.MiniCluster("third").In(site.Namespace).Size(3).CPU("8").PodAnnotation(simulator.Runtime, untilTold).New()
	site.Create(third)
	site.AwaitState(third, v1alpha2.StateRunning)
	r.helm("uninstall")
	for _, kind := range []string{"miniclusters", "miniclusterqueues", "miniclusterreservations"} {
		site.AwaitGone(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kind + ".flux-framework.org"}})
	}
	eventually(t, func() error {
		if pods := site.Pods(third); len(pods) > 0 {
			return fmt.Errorf("%d pods are left", len(pods))
		}
		return nil
	})
}
