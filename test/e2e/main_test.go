// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs MiniClusters on a real control plane with simulated nodes, by
// the manager as it is shipped: a process of its own, with the rights of its own
// service account and no more.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

const (
	nodeCount      = 96
	systemIdentity = "system:serviceaccount:flux-elastic-system:flux-elastic"
)

// env is what all tests share.
var env struct {
	root     string // of the checkout
	cluster  *localcluster.Cluster
	client   client.Client
	binaries localcluster.Binaries
	// kubeconfig has the rights of the manager's service account.
	kubeconfig string
	bin        string // directory of our programs
	manager    *manager
	watch      *podWatch
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait for the cluster, and not for a core.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logs, err := os.MkdirTemp("", "flux-elastic-e2e-")
	if err != nil {
		return 1, err
	}
	if err := start(ctx, logs); err != nil {
		return 1, err
	}
	defer func() {
		env.manager.stop()
		cancel()
		if downErr := localcluster.Down(context.Background(), env.cluster.Dir); downErr != nil && err == nil {
			err = downErr
		}
		if code == 0 && err == nil {
			_ = os.RemoveAll(logs)
		} else {
			fmt.Fprintln(os.Stderr, "e2e: logs are in", logs)
		}
	}()
	return m.Run(), nil
}

// start brings up the cluster, the simulator and the manager.
func start(ctx context.Context, dir string) error {
	var err error
	if env.root, err = localcluster.Root(); err != nil {
		return err
	}
	var missing []string
	env.binaries, missing, err = localcluster.FindBinaries(ctx, localcluster.ModuleDir(env.root))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%v have to be built first: run `make test`, or `bin/localcluster build`", missing)
	}
	config := localcluster.Config{
		Dir:   filepath.Join(dir, "cluster"),
		Nodes: localcluster.NodeConfig{Count: nodeCount, CPU: "8", Memory: "32Gi", Pods: 110},
	}
	if env.cluster, err = localcluster.Up(ctx, config, env.binaries, func(string) {}); err != nil {
		return err
	}
	logFile, err := os.Create(filepath.Join(dir, "simulator.log"))
	if err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(logFile)))
	restConfig, err := env.cluster.RESTConfig()
	if err != nil {
		return err
	}
	go func() {
		if err := simulator.Run(ctx, restConfig); err != nil {
			panic(err)
		}
	}()
	if env.client, err = client.New(restConfig, client.Options{Scheme: newScheme()}); err != nil {
		return err
	}
	if err := install(ctx, dir); err != nil {
		return err
	}
	if env.watch, err = watchPods(ctx, restConfig); err != nil {
		return err
	}
	if env.manager, err = startManager(env.kubeconfig, jobSetEmbedded); err != nil {
		return err
	}
	return awaitGarbageCollector(ctx)
}

// awaitGarbageCollector waits until the garbage collector knows of JobSets, for which it
// looks every half a minute: it ends deletions in the foreground.
func awaitGarbageCollector(ctx context.Context) error {
	set := &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "known"}, Spec: jobsetapi.JobSetSpec{Suspend: new(true)},
	}
	if err := env.client.Create(ctx, set); err != nil {
		return err
	}
	if err := env.client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	return poll(func() error {
		err := env.client.Get(ctx, client.ObjectKeyFromObject(set), set)
		if err == nil {
			return errors.New("the garbage collector does not know of JobSets")
		}
		return client.IgnoreNotFound(err)
	})
}

// install installs config/embedded as a user would, and builds our programs.
func install(ctx context.Context, dir string) error {
	if out, err := kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(env.root, "config", "embedded")); err != nil {
		return fmt.Errorf("installing: %w\n%s", err, out)
	}
	if out, err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout="+timeout.String(),
		"crd/miniclusters.flux-framework.org", "crd/miniclusterqueues.flux-framework.org"); err != nil {
		return fmt.Errorf("installing: %w\n%s", err, out)
	}
	// The Deployment's pods would run on simulated nodes, where nothing runs.
	if out, err := kubectl(ctx, "-n", "flux-elastic-system", "scale", "deployment/flux-elastic", "--replicas=0"); err != nil {
		return fmt.Errorf("installing: %w\n%s", err, out)
	}
	env.kubeconfig = filepath.Join(dir, "manager.kubeconfig")
	if err := writeKubeconfig(env.kubeconfig, env.cluster.URL()); err != nil {
		return err
	}
	env.bin = filepath.Join(dir, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-o", env.bin+"/", "./cmd/...")
	build.Dir = env.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}

// writeKubeconfig writes one for a server with the rights of the manager's service
// account.
func writeKubeconfig(path, server string) error {
	return impersonate(env.cluster.Kubeconfig(), path, server)
}

// impersonate writes the kubeconfig of writeKubeconfig from another one.
func impersonate(from, path, server string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		if c.Server != server { // a proxy, on this machine
			*c = clientcmdapi.Cluster{Server: server}
		}
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = systemIdentity
	}
	return clientcmd.WriteToFile(*config, path)
}

func kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return kubectlOf(ctx, env.cluster, args...)
}

func kubectlOf(ctx context.Context, cluster *localcluster.Cluster, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, env.binaries["kubectl"], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	return cmd.CombinedOutput()
}

// timeout is how long anything that is waited for may take. The timeout bounds how long a test that
// fails hangs. It says nothing about speed: a busy machine takes many times what a quiet one does.
const timeout = 5 * time.Minute
