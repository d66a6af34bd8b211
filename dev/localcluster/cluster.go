// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startTimeout is how long the control plane may take to answer.
const startTimeout = 5 * time.Minute

// Config describes a cluster.
type Config struct {
	// Dir is the directory of all files of the cluster.
	Dir string
	// Port is the first port; 0 takes free ports.
	Port int
	// Nodes are the simulated nodes.
	Nodes NodeConfig
	// Real are the real nodes, instead of simulated ones. CheckReal checks what the machine needs for real nodes.
	Real RealConfig
	// Kueue is Kueue beside the cluster; nil if the cluster has none.
	Kueue *KueueConfig
	// Karpenter is Karpenter beside the cluster; nil if the cluster has none.
	Karpenter *KarpenterConfig
	// Control are settings of the control plane.
	Control ControlConfig
	// LogDenied lets the API server log every request that no role allows. Denied returns these requests.
	LogDenied bool
}

// ControlConfig has settings of the control plane that differ from the usual ones.
type ControlConfig struct {
	// FeatureGates are feature gates of the API server, the controller manager and the
	// scheduler, as on their command lines: A=true,B=false.
	FeatureGates string
	// RuntimeConfig turns versions of the API on, as on the API server's command line.
	RuntimeConfig string
	// Scheduler is added to the configuration file of kube-scheduler (YAML).
	Scheduler string
}

// Cluster is a running cluster.
type Cluster struct {
	// Dir is the directory of all files of the cluster.
	Dir string
	// Port is the first port.
	Port      int
	control   ControlConfig
	logDenied bool
	// network is the network of the real nodes and the API server; empty without real nodes.
	network network
}

// Up starts a cluster and returns when it can run pods. It fails if a cluster already runs in the
// directory. It first removes what an earlier cluster left behind. say gets progress messages.
func Up(ctx context.Context, config Config, binaries Binaries, say func(string)) (_ *Cluster, err error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if running, err := Open(config.Dir); err == nil {
		return nil, fmt.Errorf("a cluster runs in %s already, on port %d", config.Dir, running.Port)
	}
	if err := Down(ctx, config.Dir); err != nil {
		return nil, fmt.Errorf("ending what an earlier cluster left behind: %w", err)
	}
	port, err := choosePorts(config.Port)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: config.Dir, Port: port, control: config.Control, logDenied: config.LogDenied}
	if err := c.makeDirs(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Down(context.WithoutCancel(ctx), config.Dir))
		}
	}()
	if err := c.start(ctx, config, binaries, say); err != nil {
		return nil, err
	}
	return c, nil
}

// check returns an error if a cluster with this configuration cannot be started.
func (c *Config) check() error {
	if c.Real.Count == 0 {
		return nil
	}
	if c.Nodes.Count > 0 || c.Karpenter != nil {
		return errors.New("a cluster with real nodes has no simulated ones, and no Karpenter, whose nodes are simulated: their kubelets give other signs of life")
	}
	if c.Real.Count > maxNodes {
		return fmt.Errorf("%d real nodes are too many: a cluster can have %d", c.Real.Count, maxNodes)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	// Each node mounts directories of its own over these.
	for _, hidden := range []string{"/run/", "/var/run/", "/var/lib/", "/var/log/", "/proc/"} {
		if strings.HasPrefix(dir+"/", hidden) {
			return fmt.Errorf("a cluster with real nodes cannot be in %s", hidden)
		}
	}
	c.Dir = dir
	return CheckReal(nil)
}

// start starts the control plane, the nodes, Kueue and Karpenter, and waits until all of them are ready.
func (c *Cluster) start(ctx context.Context, config Config, binaries Binaries, say func(string)) error {
	var addresses []net.IP
	if config.Real.Count > 0 {
		if err := c.makeNetwork(ctx, config.Real.Families); err != nil {
			return err
		}
		addresses = append(addresses, c.network.gateway().AsSlice())
	}
	keys, err := makeCredentials(filepath.Join(c.Dir, "keys"), addresses...)
	if err != nil {
		return err
	}
	controllers := []string{"kube-controller-manager", "kube-scheduler", "kwok"}
	if config.Real.Count > 0 {
		controllers = controllers[:2] // nothing is simulated
	}
	if err := c.startControlPlane(ctx, binaries, keys, controllers, say); err != nil {
		return err
	}
	if err := c.startNodes(ctx, config, binaries, keys, say); err != nil {
		return err
	}
	if config.Kueue != nil {
		say("starting Kueue")
		if err := c.StartKueue(ctx, binaries, *config.Kueue); err != nil {
			return err
		}
	}
	if config.Karpenter == nil {
		return nil
	}
	say("starting Karpenter")
	return c.StartKarpenter(ctx, binaries, *config.Karpenter)
}

// startNodes starts the nodes, and waits until the nodes are ready.
func (c *Cluster) startNodes(ctx context.Context, config Config, binaries Binaries, keys *credentials, say func(string)) error {
	if config.Real.Count > 0 {
		if err := c.startReal(ctx, config.Real, binaries, keys, say); err != nil {
			return err
		}
	} else {
		say(fmt.Sprintf("making %d simulated nodes", config.Nodes.Count))
		if err := c.makeNodes(ctx, config.Nodes); err != nil {
			return err
		}
	}
	return c.awaitNodes(ctx, config.Nodes.Count+config.Real.Count)
}

// Open returns the cluster that runs in a directory. It fails if the API server does not run.
func Open(dir string) (*Cluster, error) {
	c, err := Find(dir)
	if err != nil {
		return nil, err
	}
	if p, err := c.process("kube-apiserver"); err != nil || !p.alive() {
		return nil, fmt.Errorf("no cluster runs in %s", dir)
	}
	return c, nil
}

// Find returns the cluster of a directory, whether or not its API server runs.
func Find(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, "port"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no cluster runs in %s", dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir}
	if c.Port, err = strconv.Atoi(string(data)); err != nil {
		return nil, err
	}
	err = c.readNetwork()
	return c, err
}

// Down ends every process that was started in the directory, the last one first. It removes the
// cluster's data and everything else that was made for the cluster, except logs. It does nothing if
// there is no cluster.
func Down(ctx context.Context, dir string) error {
	running, err := processes(dir)
	if err != nil {
		return err
	}
	slices.Reverse(running)
	for _, p := range running {
		if err := p.stop(ctx); err != nil {
			return err
		}
		if err := os.Remove(p.file(dir)); err != nil {
			return err
		}
	}
	if err := errors.Join(removeReal(ctx, dir), downKind(ctx, dir)); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "keys", "kubeconfig", "port"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Run starts a program beside the cluster. The program ends with the cluster.
func (c *Cluster) Run(name, path string, args ...string) error {
	_, err := start(c.Dir, name, path, args...)
	return err
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// URL returns the URL of the API server.
func (c *Cluster) URL() string { return fmt.Sprintf("https://%s:%d", c.host(), c.Port+portAPIServer) }

// host returns the address of the API server. Real nodes can reach this address.
func (c *Cluster) host() string {
	if c.network.Name != "" {
		return c.network.gateway().String()
	}
	return "127.0.0.1"
}

// Address returns an address for a port of the cluster, such as PortMetrics.
func (c *Cluster) Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", c.Port+port) }

// RESTConfig returns the administrator's configuration, without a rate limit.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	return readKubeconfig(c.Kubeconfig())
}

func (c *Cluster) makeDirs() error {
	for _, name := range []string{"run", "logs", "keys", "etcd", "config"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, name), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(c.Dir, "port"), []byte(strconv.Itoa(c.Port)), 0o644)
}

func (c *Cluster) startControlPlane(ctx context.Context, binaries Binaries, keys *credentials, controllers []string, say func(string)) error {
	if err := c.writeKubeconfig(keys); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	say("starting etcd and kube-apiserver")
	etcd, err := start(c.Dir, "etcd", binaries["etcd"], c.etcdArgs()...)
	if err != nil {
		return err
	}
	args, err := c.apiServerArgs(keys)
	if err != nil {
		return err
	}
	apiServer, err := start(c.Dir, "kube-apiserver", binaries["kube-apiserver"], args...)
	if err != nil {
		return err
	}
	if err := c.awaitAPIServer(ctx, etcd, apiServer); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.startControllers(ctx, controllers, binaries, keys, client, say)
}

func (c *Cluster) awaitAPIServer(ctx context.Context, on ...*process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	ready := func() (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	}
	return c.await(ctx, "the API server", ready, on...)
}

func (c *Cluster) startControllers(ctx context.Context, controllers []string, binaries Binaries, keys *credentials, client kubernetes.Interface, say func(string)) error {
	say("starting " + strings.Join(controllers, ", "))
	if err := c.writeConfigs(); err != nil {
		return err
	}
	args := map[string][]string{
		"kube-controller-manager": c.controllerManagerArgs(keys),
		"kube-scheduler":          c.schedulerArgs(),
		"kwok":                    c.kwokArgs(),
	}
	var started []*process
	for _, name := range controllers {
		p, err := start(c.Dir, name, binaries[name], args[name]...)
		if err != nil {
			return err
		}
		started = append(started, p)
	}
	// Pods cannot be created in a namespace before its service account exists.
	ready := func() (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	}
	return c.await(ctx, "the controller manager", ready, started...)
}

// await waits for a condition that depends on some processes. If one of them ends, the error has the
// end of its log.
func (c *Cluster) await(ctx context.Context, what string, condition func() (bool, error), on ...*process) error {
	err := waitFor(ctx, startTimeout, func() (bool, error) {
		for _, p := range on {
			if !p.alive() {
				return false, fmt.Errorf("%s ended. The end of %s:\n%s", p.Name, p.Log, p.lastWords())
			}
		}
		return condition()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

func (c *Cluster) client() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (c *Cluster) writeKubeconfig(keys *credentials) error {
	const name = "flux-elastic-local"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: keys.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: keys.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, c.Kubeconfig())
}

func ignoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
