// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package harness starts what the suites with simulated nodes share: a real control plane, simulated
// nodes, and the manager as it is shipped, a process of its own with the rights of its own service
// account and no more.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// Account is the service account of the manager: its namespace and name. SystemIdentity is its user name.
const (
	Account        = "flux-elastic-system:flux-elastic"
	SystemIdentity = "system:serviceaccount:" + Account
)

// Main runs the tests of a package, and ends the process. `start` starts in a new directory what the
// tests share, and returns what ends that, also with an
// error. The directory stays if a test fails.
func Main(m *testing.M, name string, start func(ctx context.Context, dir string) (end func() error, err error)) {
	flag.Parse()
	// Tests wait for the cluster, and not for a core: many of them for times of the product.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	code, err := run(m, name, start)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, name string, start func(context.Context, string) (func() error, error)) (code int, err error) {
	dir, err := os.MkdirTemp("", "flux-elastic-"+name+"-")
	if err != nil {
		return 1, err
	}
	end, err := start(context.Background(), dir)
	if err == nil {
		code = m.Run()
	}
	if end != nil {
		err = errors.Join(err, end())
	}
	if code == 0 && err == nil {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Fprintf(os.Stderr, "%s: logs are in %s\n", name, dir)
	}
	return code, err
}

// Suite is what the clusters of one test process share.
type Suite struct {
	// Root is the directory of the checkout, Dir is that of all files of the suite, and Bin is that of
	// the programs of the checkout.
	Root, Dir, Bin string
	// Binaries are the programs of the control plane.
	Binaries localcluster.Binaries
	// Scheme has the kinds that clients of the suite know.
	Scheme *runtime.Scheme
}

// NewSuite finds the control plane's programs, with those of the given parts, and builds the programs
// of the checkout. `command` is what builds programs that are missing.
func NewSuite(ctx context.Context, dir, command string, parts ...localcluster.Part) (*Suite, error) {
	s := &Suite{Dir: dir, Bin: filepath.Join(dir, "bin"), Scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, jobsetapi.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(s.Scheme); err != nil {
			return nil, err
		}
	}
	var err error
	if s.Root, err = localcluster.Root(); err != nil {
		return nil, err
	}
	var missing []string
	s.Binaries, missing, err = localcluster.FindBinaries(ctx, localcluster.ModuleDir(s.Root), parts...)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%v have to be built first: run `%s`", missing, command)
	}
	logFile, err := os.Create(filepath.Join(dir, "simulator.log"))
	if err != nil {
		return nil, err
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(logFile)))
	// Programs that `make build` has linked are not linked again if they are up to date.
	if err := os.CopyFS(s.Bin, os.DirFS(filepath.Join(s.Root, "bin"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.Bin+"/", "./cmd/...")
	build.Dir = s.Root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return s, nil
}

// Cluster is a cluster with simulated nodes, in which the simulator runs.
type Cluster struct {
	*localcluster.Cluster
	Client client.Client
	// ManagerKubeconfig has the rights of the manager's service account.
	ManagerKubeconfig string

	suite *Suite
	sites sites
	end   context.CancelFunc
}

// Beside is what runs beside the control plane of a cluster.
type Beside func(*localcluster.Config)

// Up starts a cluster with nodes of 8 CPUs, in a directory of the suite, and installs config/embedded
// and the policy of config/admission as a user would. Tests start managers themselves.
func (s *Suite) Up(ctx context.Context, name string, nodes int, beside ...Beside) (*Cluster, error) {
	c, err := s.UpEmpty(ctx, name, nodes, beside...)
	if err != nil {
		return nil, err
	}
	if err := c.Install(ctx, s.Root); err != nil {
		return nil, errors.Join(fmt.Errorf("installing: %w", err), c.stop())
	}
	return c, nil
}

// UpEmpty starts a cluster as Up does, and installs nothing.
func (s *Suite) UpEmpty(ctx context.Context, name string, nodes int, beside ...Beside) (_ *Cluster, err error) {
	config := localcluster.Config{
		Dir:       filepath.Join(s.Dir, name),
		Nodes:     localcluster.NodeConfig{Count: nodes, CPU: "8", Memory: "32Gi", Pods: 110},
		LogDenied: true,
	}
	for _, add := range beside {
		add(&config)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Cluster{suite: s, end: cancel, ManagerKubeconfig: filepath.Join(config.Dir, "manager.kubeconfig")}
	if c.Cluster, err = localcluster.Up(ctx, config, s.Binaries, func(string) {}); err != nil {
		cancel()
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	restConfig, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	go func() {
		if err := simulator.Run(ctx, restConfig); err != nil && ctx.Err() == nil {
			panic(err)
		}
	}()
	if c.Client, err = client.New(restConfig, client.Options{Scheme: s.Scheme}); err != nil {
		return nil, err
	}
	if err := WriteKubeconfig(c.Cluster, c.ManagerKubeconfig, c.URL(), SystemIdentity); err != nil {
		return nil, err
	}
	return c, nil
}

// Down ends the cluster and its simulator. It fails if the manager asked for what its roles do not allow.
func (c *Cluster) Down() error {
	return errors.Join(CheckRights(context.Background(), c.Cluster, Account), c.stop())
}

func (c *Cluster) stop() error {
	c.end()
	return localcluster.Down(context.Background(), c.Dir)
}

// CheckRights returns an error if a service account asked for what its roles do not allow. A manager repeats such a
// request, and a test that waits long enough passes.
func CheckRights(ctx context.Context, c *localcluster.Cluster, account string) error {
	denied, err := c.Denied(ctx, account)
	if err == nil && len(denied) > 0 {
		err = fmt.Errorf("no role allows %s to\n%s", account, strings.Join(denied, "\n"))
	}
	return err
}

// Install installs what a checkout has in config/embedded and config/admission. The Deployment's pods would run on
// simulated nodes, where nothing runs, and have autoscalers bring nodes.
func (c *Cluster) Install(ctx context.Context, checkout string) error {
	dir := filepath.Join(c.Dir, "install")
	embedded, err := filepath.Rel(dir, filepath.Join(checkout, "config", "embedded"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	withoutPods := fmt.Sprintf("resources: [%q]\nreplicas: [{name: flux-elastic, count: 0}]\n", embedded)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(withoutPods), 0o600); err != nil {
		return err
	}
	commands := [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", dir},
		{"wait", "--for=condition=Established", "--timeout=" + Timeout.String(), "crd/miniclusters.flux-framework.org", "crd/miniclusterqueues.flux-framework.org",
			"crd/miniclusterreservations.flux-framework.org"},
		{"apply", "--server-side", "--force-conflicts", "-f", filepath.Join(checkout, "config", "admission", "policy.yaml")},
	}
	for _, args := range commands {
		if out, err := c.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// WriteKubeconfig writes the kubeconfig of a server, which is that of a cluster or a proxy, with the rights of a user.
func WriteKubeconfig(c *localcluster.Cluster, path, server, user string) error {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		if cluster.Server != server { // a proxy, on this machine
			*cluster = clientcmdapi.Cluster{Server: server}
		}
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	return clientcmd.WriteToFile(*config, path)
}

// Kubectl runs kubectl as the administrator, and returns all that kubectl prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.suite.Binaries["kubectl"], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	return cmd.CombinedOutput()
}

// StartManager starts a manager of the cluster.
func (c *Cluster) StartManager(jobSet string, args ...string) (*Manager, error) {
	return c.suite.StartManager(c.ManagerKubeconfig, jobSet, args...)
}

// AwaitGarbageCollector waits until the garbage collector knows of JobSets, for which it looks every
// half a minute: it ends deletions in the foreground.
func (c *Cluster) AwaitGarbageCollector(ctx context.Context) error {
	set := &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "known"}, Spec: jobsetapi.JobSetSpec{Suspend: new(true)},
	}
	if err := c.Client.Create(ctx, set); err != nil {
		return err
	}
	if err := c.Client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	return Poll(func() error {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(set), set)
		if err == nil {
			return errors.New("the garbage collector does not know of JobSets")
		}
		return client.IgnoreNotFound(err)
	})
}
