// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

const (
	// demoTimeout is how long the examples may take.
	demoTimeout = 10 * time.Minute
	// fieldOwner is the field owner of the objects that the demo applies.
	fieldOwner = "localcluster"
)

// submission is a part of the demo.
type submission struct {
	what string
	yaml func(root string) ([]byte, error)
}

// submissions are the parts of the demo by mode, in the order in which it submits them.
var submissions = map[localcluster.Mode][]submission{
	localcluster.Simulated: {
		{"LAMMPS on four nodes", fromFile("examples/lammps/minicluster.yaml")},
		{"fourteen MiniClusters of mixed sizes", fromScript("examples/many/generate.sh", "14", "8")},
		{"an elastic one, that wants 16 nodes and takes fewer", fromFile("examples/elastic/minicluster.yaml")},
	},
	localcluster.Real: {
		{"three MiniClusters", fromFile("examples/real/miniclusters.yaml")},
	},
}

func fromFile(path string) func(string) ([]byte, error) {
	return func(root string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) }
}

func fromScript(path string, args ...string) func(string) ([]byte, error) {
	return func(root string) ([]byte, error) {
		cmd := exec.Command("bash", append([]string{filepath.Join(root, path)}, args...)...)
		cmd.Stderr = os.Stderr
		return cmd.Output()
	}
}

// demo runs the examples on a cluster of its own, shows their progress, and cleans up.
func demo(ctx context.Context, args []string) (err error) {
	config := localcluster.Config{}
	flags := newFlags("demo")
	clusterFlags(flags, &config)
	mode := modeFlag(flags)
	manager := flags.String("manager", "bin/manager", "the manager to run")
	hold := flags.Bool("hold", false, "keep the cluster and its web page at the end, until ctrl-C")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if submissions[localcluster.Mode(*mode)] == nil {
		return fmt.Errorf("there is no demo of mode %q: simulated or real", *mode)
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	root, err := localcluster.Root()
	if err != nil {
		return err
	}
	cluster, binaries, err := startNodes(ctx, localcluster.Mode(*mode), config, false)
	if err != nil {
		return err
	}
	defer func() {
		say("ending the cluster")
		err = errors.Join(err, localcluster.Down(context.WithoutCancel(ctx), cluster.Dir))
	}()
	page := cluster.Address(localcluster.PortDashboard)
	c, err := startDemo(ctx, cluster, root, *manager, "--dashboard-bind-address="+page, "--dashboard-insecure-viewer")
	if err != nil {
		return err
	}
	say("watch it on http://" + page)
	d := demonstration{Cluster: cluster, client: c, root: root, svg: filepath.Join(cluster.Dir, "timeline.svg"), page: page, hold: *hold}
	if localcluster.Mode(*mode) == localcluster.Real {
		d.kubectl = binaries["kubectl"]
	}
	return d.run(ctx, submissions[localcluster.Mode(*mode)])
}

// startDemo installs the API and starts the manager with additional options.
func startDemo(ctx context.Context, cluster *localcluster.Cluster, root, manager string, options ...string) (client.Client, error) {
	say("installing the API, starting the manager")
	c, err := installAPI(ctx, cluster.Dir, root)
	if err != nil {
		return nil, err
	}
	health := cluster.Address(localcluster.PortHealth)
	err = cluster.Run("manager", manager, append([]string{"--kubeconfig=" + managerKubeconfig(cluster.Dir), "--jobset=embedded",
		"--metrics-bind-address=" + cluster.Address(localcluster.PortMetrics), "--health-probe-bind-address=" + health}, options...)...)
	if err != nil {
		return nil, err
	}
	return c, poll(ctx, func() (bool, error) { return answers("http://" + health + "/readyz"), nil })
}

// managerKubeconfig is the path of the kubeconfig with which a manager runs beside the cluster of a directory.
func managerKubeconfig(dir string) string { return filepath.Join(dir, "manager.kubeconfig") }

// writeManagerKubeconfig writes that kubeconfig. It has the name of the manager's service account, which the policies of
// config/admission look at, and the rights of an administrator.
func writeManagerKubeconfig(dir string) error {
	config, err := clientcmd.LoadFromFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate, info.ImpersonateGroups = "system:serviceaccount:flux-elastic-system:flux-elastic", []string{"system:masters"}
	}
	return clientcmd.WriteToFile(*config, managerKubeconfig(dir))
}

// installAPI applies the CRDs, the namespace of the manager, and the policy that binds pods, to the cluster of a
// directory, and waits until the API is served.
func installAPI(ctx context.Context, dir, root string) (client.Client, error) {
	config, err := localcluster.RESTConfig(dir)
	if err := errors.Join(err, writeManagerKubeconfig(dir)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	definitions, err := filepath.Glob(filepath.Join(root, "config/crd/flux-framework.org_*.yaml"))
	if err != nil || len(definitions) == 0 {
		return nil, errors.Join(fmt.Errorf("no definitions in %s", root), err)
	}
	for _, path := range append(definitions, filepath.Join(root, "config/default/namespace.yaml")) {
		definition, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, err := apply(ctx, c, definition); err != nil {
			return nil, fmt.Errorf("installing %s: %w", filepath.Base(path), err)
		}
	}
	policy, err := os.ReadFile(filepath.Join(root, "config/admission/policy.yaml"))
	if err != nil {
		return nil, err
	}
	// A cluster of kind may have an older Kubernetes, without such policies.
	if _, err := apply(ctx, c, policy); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("installing the policy: %w", err)
	}
	served := func() (bool, error) {
		return c.List(ctx, &v1alpha2.MiniClusterList{}) == nil && c.List(ctx, &v1alpha2.MiniClusterQueueList{}) == nil, nil
	}
	if err := poll(ctx, served); err != nil {
		return nil, fmt.Errorf("waiting for the API: %w", err)
	}
	return c, nil
}

// answers reports whether a server at the URL answers with OK.
func answers(url string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	return response.StatusCode == http.StatusOK && response.Body.Close() == nil
}

// demonstration is a demo whose cluster is up.
type demonstration struct {
	*localcluster.Cluster
	client  client.Client
	root    string // the directory of the checkout
	svg     string // the file of the timeline
	kubectl string // prints the logs of the commands; "" if there are no logs
	page    string // the address of the web page
	hold    bool   // keep the page at the end
}

// run submits the examples, watches them to their end, draws the timeline, and deletes them.
func (d *demonstration) run(user context.Context, submissions []submission) error {
	ctx, cancel := context.WithTimeout(user, demoTimeout)
	defer cancel()
	restConfig, err := d.RESTConfig()
	if err != nil {
		return err
	}
	w, err := newWatcher(ctx, restConfig, d.client, &v1alpha2.MiniCluster{})
	if err != nil {
		return err
	}
	var submitted []client.Object
	for _, s := range submissions {
		data, err := s.yaml(d.root)
		if err != nil {
			return fmt.Errorf("reading %s: %w", s.what, err)
		}
		objects, err := apply(ctx, d.client, data)
		if err != nil {
			return fmt.Errorf("submitting %s: %w", s.what, err)
		}
		say("submitted " + s.what)
		submitted = append(submitted, objects...)
		// A queue orders by age in seconds, so the next part begins in the next second.
		second := time.Now().Truncate(time.Second)
		if err := poll(ctx, func() (bool, error) { return time.Now().Truncate(time.Second).After(second), nil }); err != nil {
			return err
		}
	}
	fmt.Println()
	display := newTable(os.Stdout)
	if err := w.until(ctx, display, func() bool { return w.finished() == len(submitted) }); err != nil {
		return fmt.Errorf("%d of %d MiniClusters finished: %w", w.finished(), len(submitted), err)
	}
	if err := w.until(ctx, display, func() bool { return w.holding() == 0 }); err != nil {
		return fmt.Errorf("%d nodes are still held: %w", w.holding(), err)
	}
	display.close()
	if err := w.draw(d.svg); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	if err := d.printLogs(ctx, submitted); err != nil {
		return err
	}
	w.summary(os.Stdout, d.svg)
	if d.hold {
		say("the page stays at http://" + d.page + " until ctrl-C")
		<-user.Done() // the MiniClusters go with the cluster
	} else if err := removeAll(ctx, d.client, submitted); err != nil {
		return err
	}
	return w.verdict(len(submitted))
}

// printLogs prints the logs of the commands.
func (d *demonstration) printLogs(ctx context.Context, miniClusters []client.Object) error {
	if d.kubectl == "" {
		return nil
	}
	for _, mc := range miniClusters {
		fmt.Printf("\n$ kubectl logs job/%s-0-0\n", mc.GetName())
		logs := exec.CommandContext(ctx, d.kubectl, "--kubeconfig="+d.Kubeconfig(), "--namespace="+mc.GetNamespace(), "logs", "job/"+mc.GetName()+"-0-0")
		logs.Stdout, logs.Stderr = os.Stdout, os.Stderr
		if err := logs.Run(); err != nil {
			return fmt.Errorf("reading the log of %s: %w", mc.GetName(), err)
		}
	}
	fmt.Println()
	return nil
}

// apply applies the documents of a YAML file, and returns the objects.
func apply(ctx context.Context, c client.Client, data []byte) ([]client.Object, error) {
	var objects []client.Object
	reader := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := reader.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) == 0 { // an empty document
			continue
		}
		if object.GetKind() == v1alpha2.MiniClusterKind && object.GetNamespace() == "" {
			object.SetNamespace(corev1.NamespaceDefault)
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// removeAll deletes the MiniClusters, and waits until they and their pods are gone.
func removeAll(ctx context.Context, c client.Client, objects []client.Object) error {
	for _, object := range objects {
		if err := client.IgnoreNotFound(c.Delete(ctx, object, client.PropagationPolicy("Foreground"))); err != nil {
			return fmt.Errorf("deleting %s: %w", object.GetName(), err)
		}
	}
	return poll(ctx, func() (bool, error) {
		var left v1alpha2.MiniClusterList
		var pods corev1.PodList
		if err := c.List(ctx, &left); err != nil {
			return false, err
		}
		err := c.List(ctx, &pods, client.HasLabels{v1alpha2.MiniClusterLabel})
		return len(left.Items) == 0 && len(pods.Items) == 0, err
	})
}

// poll checks a condition until it holds or the context is done.
func poll(ctx context.Context, condition func() (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) { return condition() })
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kueueapi.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}
