// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Requests per second that the control plane's clients may send. The defaults are 20 for the
// controller manager and 50 for the scheduler: benchmarks would only measure these limits.
const (
	clientQPS   = "1000"
	clientBurst = "2000"
)

// environments are additional environment variables by program. Without GOGC=300, a quarter of the
// API server's time is garbage collection.
var environments = map[string][]string{"kube-apiserver": {"GOGC=300"}}

//go:embed stages/*.yaml
var stages embed.FS

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
		"--service-cluster-ip-range=" + c.serviceRanges(), "--endpoint-reconciler-type=none",
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

// serviceRanges returns the range of the addresses of Services in each family.
func (c *Cluster) serviceRanges() string {
	var ranges []string
	for _, family := range c.network.Families {
		if family == corev1.IPv6Protocol {
			ranges = append(ranges, "fd66:6c75:7866::/112")
		} else {
			ranges = append(ranges, "10.96.0.0/16")
		}
	}
	return cmp.Or(strings.Join(ranges, ","), "10.96.0.0/16")
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
	if c.network.Name == "" {
		args = append(args, "--node-monitor-grace-period=87600h") // simulated nodes give no signs of life
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
		// Without leases. kwok ignores what happens to the pods of a node whose lease it does not hold, and never looks at them
		// again: also while a node is back and the garbage collector has removed the lease of the node before.
		"--node-lease-duration-seconds=0",
		"--node-ip=127.0.0.1", "--v=WARN",
	}
	entries, _ := stages.ReadDir("stages") // writeConfigs has read this directory
	for _, entry := range entries {
		args = append(args, "--config="+c.config("kwok-"+entry.Name()))
	}
	return args
}
