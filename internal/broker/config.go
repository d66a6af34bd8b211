// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// domain returns the DNS domain of a MiniCluster's brokers.
func domain(mc *v1alpha2.MiniCluster) string {
	return strings.Join([]string{mc.Spec.Network.HeadlessName, mc.Namespace, "svc", mc.Spec.Network.ClusterDomain}, ".")
}

// configDir returns the directory of the broker's files in a pod.
func configDir(mc *v1alpha2.MiniCluster) string {
	return path.Join(mc.Spec.Flux.Container.MountPath, "config")
}

// brokerConfig returns the broker's configuration (flux-config-bootstrap(5),
// flux-config-resource(5)). This is the user's own, or one that lists all hosts that the
// instance can ever have. To Flux, hosts that do not exist are down.
func brokerConfig(mc *v1alpha2.MiniCluster, hosts instance) string {
	if own := mc.Spec.Flux.BrokerConfig; own != "" {
		return own
	}
	dir := configDir(mc)
	var out strings.Builder
	section := func(name string, lines ...string) {
		fmt.Fprintf(&out, "[%s]\n%s\n\n", name, strings.Join(lines, "\n"))
	}
	section("access", "allow-guest-user = true", "allow-root-owner = true")
	section("resource", "path = "+quote(path.Join(dir, "etc/flux/system/R")))
	bootstrap := []string{
		"curve_cert = " + quote(path.Join(dir, "curve/curve.cert")),
		fmt.Sprintf("default_port = %d", mc.Spec.Network.Port),
		ipv6Mark,
		"default_bind = " + quote("tcp://"+mc.Spec.Network.Interface+":%p"),
		"default_connect = " + quote("tcp://%h."+domain(mc)+":%p"),
		"hosts = [",
	}
	for i, host := range hosts.ranges {
		connect := ""
		if lead := mc.Spec.Flux.Bursting.LeadBroker; i == 0 && lead != nil {
			connect = ", connect = " + quote("tcp://"+net.JoinHostPort(lead.Address, strconv.Itoa(int(lead.Port))))
		}
		bootstrap = append(bootstrap, "  {host = "+quote(host)+connect+"},")
	}
	section("bootstrap", append(bootstrap, "]")...)
	section("archive", "dbpath = "+quote(path.Join(dir, "var/lib/flux/job-archive.sqlite")), `period = "1m"`, `busytimeout = "50s"`)
	if mc.Spec.Flux.Scheduler.Simple { // even if Fluxion is installed in Flux's own prefix
		section("modules.alternatives", `sched = "sched-simple"`, `feasibility = "sched-simple"`)
	} else {
		section("sched-fluxion-qmanager", "queue-policy = "+quote(mc.Spec.Flux.Scheduler.QueuePolicy))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// ipv6Mark is a line of the configuration. The init container replaces this line in a pod whose interface has no IPv4
// address. A configuration of the user has no such line, and stays as it is.
const ipv6Mark = "# in a pod without IPv4: enable_ipv6 = true"

// quote returns a TOML basic string. All escapes of JSON are escapes of TOML; TOML also requires
// one for DEL.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil { // impossible for a string
		panic(err)
	}
	return strings.ReplaceAll(string(data), "\x7f", `\u007f`)
}

// resources returns R, the resource set of all ranks (Flux RFC 20): the cores and GPUs that the
// Flux container of a pod may use. It returns "" if each broker takes the resources of its node.
// Ranks of other MiniClusters are assumed to have the same resources.
func resources(mc *v1alpha2.MiniCluster, hosts instance) (string, error) {
	perRank := cores(&mc.Spec)
	if perRank == 0 {
		return "", nil
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
		RLite:    rLites([]ranks{{count: hosts.size, cores: int64(perRank), gpus: gpus(&mc.Spec)}}),
		Nodelist: hosts.ranges,
	}})
	if err != nil {
		return "", fmt.Errorf("writing R: %w", err)
	}
	return string(data), nil
}

// ranks are consecutive ranks that have the same resources.
type ranks struct {
	count       int
	cores, gpus int64
}

// rLite says which resources the ranks of an idset have.
type rLite struct {
	Rank     string            `json:"rank"`
	Children map[string]string `json:"children"`
}

// rLites returns one entry for all ranks that have the same resources.
func rLites(all []ranks) []rLite {
	type amounts struct{ cores, gpus int64 }
	sets := map[amounts]idset.Set{}
	var order []amounts
	first := int64(0)
	for _, r := range all {
		key := amounts{r.cores, r.gpus}
		if _, known := sets[key]; !known {
			order = append(order, key)
		}
		sets[key] = idset.Union(sets[key], ids(first, int64(r.count)))
		first += int64(r.count)
	}
	var out []rLite
	for _, key := range order {
		children := map[string]string{"core": ids(0, key.cores).String()}
		if key.gpus > 0 {
			children["gpu"] = ids(0, key.gpus).String()
		}
		out = append(out, rLite{Rank: sets[key].String(), Children: children})
	}
	return out
}

// ids returns the set of n ids from first on.
func ids(first, n int64) idset.Set {
	text := strconv.FormatInt(first, 10)
	if n > 1 {
		text += "-" + strconv.FormatInt(first+n-1, 10)
	}
	set, err := idset.Parse(text)
	if err != nil { // impossible for such a text
		panic(err)
	}
	return set
}

// gpuResources matches the extended resources of which one unit is one GPU, or a part of one that a program sees as a GPU, as
// the device plugins of their vendors name them. Other resources of gpu.intel.com are shares, memory and monitoring.
var gpuResources = regexp.MustCompile(`^(nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi[0-9]*)$`)

// gpus returns how many GPUs the Flux container has.
func gpus(s *v1alpha2.MiniClusterSpec) (n int64) {
	for name := range requested(s) {
		if gpuResources.MatchString(string(name)) || slices.Contains(s.Flux.GPUResources, name) {
			n += amount(s, name)
		}
	}
	return min(n, math.MaxInt32)
}

// requested returns the resources of the Flux container. A container without any limits and requests has those of spec.pod.
func requested(s *v1alpha2.MiniClusterSpec) corev1.ResourceList {
	resources := s.FluxContainer().Resources
	if len(resources.Limits) == 0 && len(resources.Requests) == 0 {
		return s.Pod.Resources
	}
	all := maps.Clone(resources.Requests)
	if all == nil {
		all = corev1.ResourceList{}
	}
	maps.Copy(all, resources.Limits)
	return all
}

// amount returns how much of a resource the Flux container has, in whole units up to 2^31: its limit, or
// else its request. Less than one unit counts as one.
func amount(s *v1alpha2.MiniClusterSpec, name corev1.ResourceName) int64 {
	quantity := requested(s)[name]
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.CmpInt64(math.MaxInt32) >= 0:
		return math.MaxInt32
	}
	return max(quantity.MilliValue()/1000, 1)
}
