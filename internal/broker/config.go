// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// Port is where brokers listen.
	Port = 8050

	clusterDomain = "cluster.local"
	// networkInterface is the one that a pod's address is on.
	networkInterface = "eth0"
)

// configDir is where the broker's files are in a pod.
func configDir(mc *v1alpha2.MiniCluster) string {
	return path.Join(mc.Spec.Flux.Container.MountPath, "config")
}

// TOML is the broker's configuration (flux-config-bootstrap(5),
// flux-config-resource(5)): the user's own, or one in which the instance has all
// the hosts that it can ever have. Those that do not exist are down to Flux.
func TOML(mc *v1alpha2.MiniCluster) string {
	if own := mc.Spec.Flux.BrokerConfig; own != "" {
		return own
	}
	dir := configDir(mc)
	domain := strings.Join([]string{mc.Spec.Network.HeadlessName, mc.Namespace, "svc", clusterDomain}, ".")
	var out strings.Builder
	section := func(name string, lines ...string) {
		fmt.Fprintf(&out, "[%s]\n%s\n\n", name, strings.Join(lines, "\n"))
	}
	section("access", "allow-guest-user = true", "allow-root-owner = true")
	// noverify: a container sees the cores of its node, R has those of the pod.
	section("resource", "path = "+quote(path.Join(dir, "etc/flux/system/R")), "noverify = true")
	bootstrap := []string{
		"curve_cert = " + quote(path.Join(dir, "curve/curve.cert")),
		fmt.Sprintf("default_port = %d", Port),
		"default_bind = " + quote("tcp://"+networkInterface+":%p"),
		"default_connect = " + quote("tcp://%h."+domain+":%p"),
		"hosts = [",
	}
	for _, hosts := range hostRanges(mc) {
		bootstrap = append(bootstrap, "  {host = "+quote(hosts)+"},")
	}
	section("bootstrap", append(bootstrap, "]")...)
	section("archive", "dbpath = "+quote(path.Join(dir, "var/lib/flux/job-archive.sqlite")), `period = "1m"`, `busytimeout = "50s"`)
	section("sched-fluxion-qmanager", "queue-policy = "+quote(mc.Spec.Flux.Scheduler.QueuePolicy))
	return strings.TrimSuffix(out.String(), "\n")
}

// quote writes a TOML basic string. JSON's escapes are a part of TOML's.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil { // cannot be for a string
		panic(err)
	}
	return string(data)
}

// R is the resource set of all ranks (Flux RFC 20): the cores and GPUs that the
// Flux container of a pod may use. It is "" where the container does not say how
// many cores it has; then each broker takes what it sees on its node.
func R(mc *v1alpha2.MiniCluster) (string, error) {
	cores := amount(mc, corev1.ResourceCPU)
	if cores == 0 {
		return "", nil
	}
	children := map[string]string{"core": idset(cores)}
	gpus := amount(mc, "nvidia.com/gpu") + amount(mc, "amd.com/gpu")
	if gpus > 0 {
		children["gpu"] = idset(gpus)
	}
	type rLite struct {
		Rank     string            `json:"rank"`
		Children map[string]string `json:"children"`
	}
	type execution struct {
		RLite      []rLite  `json:"R_lite"`
		Nodelist   []string `json:"nodelist"`
		Starttime  float64  `json:"starttime"`
		Expiration float64  `json:"expiration"`
	}
	data, err := json.Marshal(struct {
		Version   int       `json:"version"`
		Execution execution `json:"execution"`
	}{1, execution{
		RLite:    []rLite{{Rank: idset(int64(mc.Spec.MaxSize)), Children: children}},
		Nodelist: hostRanges(mc),
	}})
	if err != nil {
		return "", fmt.Errorf("writing R: %w", err)
	}
	return string(data), nil
}

// amount is how much of a resource the Flux container has, in whole units: its
// limit, or else its request, or the pod's where it has none at all. Less than one CPU
// still is one core.
func amount(mc *v1alpha2.MiniCluster, name corev1.ResourceName) int64 {
	resources := mc.Spec.FluxContainer().Resources
	quantity, ok := resources.Limits[name]
	if !ok {
		quantity = resources.Requests[name]
	}
	if len(resources.Limits) == 0 && len(resources.Requests) == 0 {
		quantity = mc.Spec.Pod.Resources[name]
	}
	if quantity.Sign() <= 0 {
		return 0
	}
	return max(quantity.MilliValue()/1000, 1)
}

// idset writes the ids 0 to n-1 (Flux RFC 22).
func idset(n int64) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}
