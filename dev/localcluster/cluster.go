// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// DefaultPort is the default of a cluster's first port.
const DefaultPort = 6550

// Ports of a cluster, counted from the first one.
const (
	portAPIServer = iota
	portEtcd
	portEtcdPeer
	// PortControllerManager, PortScheduler and PortKwok serve the metrics of these programs.
	PortControllerManager
	PortScheduler
	PortKwok
	// PortMetrics, PortHealth and PortDashboard are for a manager that runs beside the cluster.
	PortMetrics
	PortHealth
	PortDashboard
	portKueueWebhook
	portKueueHealth
	portKueueVisibility
	portKarpenterMetrics
	portKarpenterHealth
	portsPerCluster
)

// Requests per second that the control plane's clients may send. The defaults are 20 for the
// controller manager and 50 for the scheduler: benchmarks would only measure these limits.
const (
	clientQPS   = "1000"
	clientBurst = "2000"
)

// usualLease is the kubelet's default.
const usualLease = 40 * time.Second

// startTimeout is how long the control plane may take to answer.
const startTimeout = 5 * time.Minute

// environments are additional environment variables by program. Without GOGC=300, a quarter of the
// API server's time is garbage collection.
var environments = map[string][]string{"kube-apiserver": {"GOGC=300"}}

//go:embed stages/*.yaml
var stages embed.FS

// Config describes a cluster.
type Config struct {
	// Dir is the directory of all files of the cluster.
	Dir string
	// Port is the first port; 0 takes free ports.
	Port int
	// Nodes are the simulated nodes.
	Nodes NodeConfig
	// Real are the real nodes. CheckReal checks what the machine needs for them. A cluster may
	// have nodes of both kinds.
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
	lease     time.Duration // of the simulated nodes
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
	c := &Cluster{Dir: config.Dir, Port: port, control: config.Control, logDenied: config.LogDenied, lease: cmp.Or(config.Nodes.Lease, usualLease)}
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
		if err := c.makeNetwork(ctx); err != nil {
			return err
		}
		addresses = append(addresses, c.network.gateway().AsSlice())
	}
	keys, err := makeCredentials(filepath.Join(c.Dir, "keys"), addresses...)
	if err != nil {
		return err
	}
	controllers := []string{"kube-controller-manager", "kube-scheduler", "kwok"}
	if config.Real.Count > 0 && config.Nodes.Count == 0 && config.Karpenter == nil {
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
	}
	if config.Nodes.Count > 0 || config.Real.Count == 0 {
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

func (c *Cluster) writeConfigs() error {
	scheduler := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection:
  kubeconfig: ` + c.Kubeconfig() + `
  qps: ` + clientQPS + `
  burst: ` + clientBurst + "\n" + c.control.Scheduler
	if err := os.WriteFile(c.config("scheduler.yaml"), []byte(scheduler), 0o644); err != nil {
		return err
	}
	entries, err := stages.ReadDir("stages")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		data, err := stages.ReadFile("stages/" + entry.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.config("kwok-"+entry.Name()), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) config(name string) string { return filepath.Join(c.Dir, "config", name) }

func (c *Cluster) etcdArgs() []string {
	client, peer := "http://"+c.Address(portEtcd), "http://"+c.Address(portEtcdPeer)
	return []string{
		"--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", // the data is removed with the cluster anyway
		"--quota-backend-bytes=4294967296", "--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(keys *credentials) ([]string, error) {
	args := []string{
		"--etcd-servers=http://" + c.Address(portEtcd),
		"--bind-address=" + c.host(), "--advertise-address=" + c.host(),
		"--secure-port=" + strconv.Itoa(c.Port+portAPIServer),
		"--tls-cert-file=" + keys.certFile, "--tls-private-key-file=" + keys.keyFile,
		"--token-auth-file=" + keys.tokenFile, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keys.serviceAccountKeyFile,
		"--service-account-signing-key-file=" + keys.serviceAccountKeyFile,
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		"--allow-privileged",
		// No limits on requests: benchmarks would only measure these limits.
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false",
	}
	args = append(args, c.featureGates()...)
	if c.control.RuntimeConfig != "" {
		args = append(args, "--runtime-config="+c.control.RuntimeConfig)
	}
	if c.logDenied {
		args = append(args, "--vmodule=rbac=5")
	}
	// With this certificate, the API server passes requests on to servers of further APIs.
	certFile, keyFile, err := keys.issue("aggregator", &x509.Certificate{
		Subject: pkix.Name{CommonName: "aggregator"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	args = append(args, "--proxy-client-cert-file="+certFile, "--proxy-client-key-file="+keyFile,
		"--client-ca-file="+keys.caFile, "--requestheader-client-ca-file="+keys.caFile, "--requestheader-allowed-names=aggregator",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-")
	if err != nil || c.network.Name == "" {
		return args, err
	}
	// The API server and the kubelets authenticate each other by certificates.
	certFile, keyFile, err = keys.issue("kubelet-client", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	args[slices.Index(args, "--authorization-mode=RBAC")] = "--authorization-mode=Node,RBAC"
	return append(args,
		"--kubelet-certificate-authority="+keys.caFile, "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+certFile, "--kubelet-client-key="+keyFile), err
}

// featureGates returns the flag of the feature gates, if there are any.
func (c *Cluster) featureGates() []string {
	if c.control.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + c.control.FeatureGates}
}

func (c *Cluster) controllerManagerArgs(keys *credentials) []string {
	args := c.featureGates()
	if c.lease > usualLease {
		args = append(args, "--node-monitor-grace-period="+c.lease.String())
	}
	return append(args,
		"--kubeconfig="+c.Kubeconfig(), "--authentication-kubeconfig="+c.Kubeconfig(), "--authorization-kubeconfig="+c.Kubeconfig(),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(c.Port+PortControllerManager), "--leader-elect=false",
		"--service-account-private-key-file="+keys.serviceAccountKeyFile, "--root-ca-file="+keys.caFile,
		// Each controller has an identity of its own, as in most clusters. Admission policies see it.
		"--use-service-account-credentials",
		"--kube-api-qps="+clientQPS, "--kube-api-burst="+clientBurst, "--concurrent-job-syncs=20",
		"--horizontal-pod-autoscaler-sync-period=1s",
		// No program of the cluster requests a certificate.
		"--controllers=*,-certificatesigningrequest-approving-controller,-certificatesigningrequest-cleaner-controller,-certificatesigningrequest-signing-controller",
	)
}

func (c *Cluster) schedulerArgs() []string {
	return append(c.featureGates(),
		"--config="+c.config("scheduler.yaml"),
		"--authentication-kubeconfig="+c.Kubeconfig(), "--authorization-kubeconfig="+c.Kubeconfig(),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(c.Port+PortScheduler),
	)
}

func (c *Cluster) kwokArgs() []string {
	args := []string{
		"--kubeconfig=" + c.Kubeconfig(), "--server-address=" + c.Address(PortKwok),
		"--manage-nodes-with-label-selector=" + simulatedLabel + "=" + simulatedValue,
		"--node-lease-duration-seconds=" + strconv.Itoa(int(c.lease.Seconds())),
		"--node-ip=127.0.0.1", "--v=WARN",
	}
	entries, _ := stages.ReadDir("stages") // writeConfigs has read this directory
	for _, entry := range entries {
		args = append(args, "--config="+c.config("kwok-"+entry.Name()))
	}
	return args
}

// choosePorts returns the first one of consecutive free ports: the given port, or any if that is 0.
func choosePorts(first int) (int, error) {
	if first != 0 {
		if busy := busyPort(first); busy != 0 {
			return 0, fmt.Errorf("port %d of 127.0.0.1 is in use; a cluster needs %d ports from PORT (%d) on: choose another PORT",
				busy, portsPerCluster, first)
		}
		return first, nil
	}
	for range 100 { // no two clusters share a port of which one does not listen yet
		if first = 20000 + portsPerCluster*rand.IntN(12000/portsPerCluster); busyPort(first) == 0 {
			return first, nil
		}
	}
	return 0, errors.New("finding free ports: none in a hundred tries")
}

func busyPort(first int) int {
	for port := first; port < first+portsPerCluster; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return port
		}
		_ = listener.Close()
	}
	return 0
}

// Status describes a cluster.
type Status struct {
	Cluster   *Cluster
	Version   string // of Kubernetes
	Nodes     int
	Ready     int // nodes
	Pods      int
	Processes []ProcessStatus
}

// ProcessStatus describes a process of a cluster.
type ProcessStatus struct {
	Name  string
	PID   int
	Alive bool
	Log   string
}

// GetStatus returns the status of the cluster in a directory.
func GetStatus(ctx context.Context, dir string) (*Status, error) {
	c, err := Open(dir)
	if err != nil {
		return nil, err
	}
	running, err := processes(dir)
	if err != nil {
		return nil, err
	}
	status := &Status{Cluster: c}
	for _, p := range running {
		status.Processes = append(status.Processes, ProcessStatus{Name: p.Name, PID: p.PID, Alive: p.alive(), Log: p.Log})
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server: %w", err)
	}
	status.Version = version.GitVersion
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	status.Nodes = len(nodes.Items)
	for i := range nodes.Items {
		if nodeReady(&nodes.Items[i]) {
			status.Ready++
		}
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	status.Pods = len(pods.Items)
	return status, nil
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func ignoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
