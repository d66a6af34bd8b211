// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// settings returns the text of settings.sh, which the scripts read. It has variables of the
// scripts, and environment variables that the command sees, too.
func settings(mc *v1alpha2.MiniCluster, attempt int32) string {
	s, container := &mc.Spec, mc.Spec.FluxContainer()
	values := placeSettings(mc)
	for _, more := range []map[string]string{runSettings(mc), againSettings(mc), sizeSettings(s), fluxSettings(mc), loggingSettings(s)} {
		maps.Copy(values, more)
	}
	return exports(map[string]string{
		"FLUX_MINICLUSTER_SIZE":     strconv.Itoa(int(s.Size)),
		"FLUX_MINICLUSTER_MIN_SIZE": strconv.Itoa(int(s.LeastSize())),
		"FLUX_MINICLUSTER_ATTEMPT":  strconv.Itoa(int(attempt)),
		"FLUX_OUTPUT_DIR":           container.Logs,
	}) + assignments(settingPrefix, values)
}

// placeSettings returns the settings by which a broker learns whether it is the lead, and by
// which brokers find each other.
func placeSettings(mc *v1alpha2.MiniCluster) map[string]string {
	s := &mc.Spec
	own := memberOf(mc)
	leadJob, ownHosts, topology := v1alpha2.LeadJob, "", "kary:256"
	if s.Flux.Bursting.Used() {
		ownHosts = strings.Join(own.ranges(), ",")
		topology = "kary:0" // a broker may be unable to reach the followers of other MiniClusters
	}
	if s.Flux.Bursting.LeadBroker != nil { // all brokers of this MiniCluster are followers
		leadJob = "none"
	}
	lookUp := "kubernetes.default.svc." + s.Network.ClusterDomain
	if s.MostSize() == 1 { // a lead alone needs no name
		lookUp = ""
	}
	return map[string]string{
		"LOOK_UP":         lookUp,
		"LEAD_JOB":        leadJob,
		"OWN_HOSTS":       ownHosts,
		"NAME":            own.name,
		"NAMES_PODS":      strconv.FormatBool(own.pods),
		"INTERFACE":       s.Network.Interface,
		"IPV6_MARK":       ipv6Mark,
		"TOPOLOGY":        cmp.Or(s.Flux.Topology, topology),
		"CONNECT_TIMEOUT": ptr.Deref(s.Flux.ConnectTimeout, ""),
	}
}

// runSettings returns the settings by which the command runs.
func runSettings(mc *v1alpha2.MiniCluster) map[string]string {
	s, container := &mc.Spec, mc.Spec.FluxContainer()
	return map[string]string{
		"MODE":         mode(s),
		"SUBMIT":       cmp.Or(strings.TrimSpace(s.Flux.SubmitCommand), "flux submit"),
		"OPTION_FLAGS": strings.TrimSpace(s.Flux.OptionFlags),
		"PREFIX":       strings.TrimSpace(container.Commands.Prefix),
		"BATCH_RAW":    strconv.FormatBool(container.BatchRaw),
		"WRAP":         s.Flux.Wrap,
		"ARCHIVE":      s.Archive.Path,
		"READY":        ReadyFile(mc),
	}
}

// againSettings returns the settings by which the command writes checkpoints, and is run again.
func againSettings(mc *v1alpha2.MiniCluster) map[string]string {
	c := ptr.Deref(mc.Spec.Elastic.Checkpoint, v1alpha2.Checkpoint{})
	seconds := func(d *metav1.Duration) string { return strconv.Itoa(int(ptr.Deref(d, metav1.Duration{}).Seconds())) }
	return map[string]string{
		"RUN":                 strconv.Itoa(int(mc.Status.Runs)),
		"RESIZE":              string(mc.Spec.ResizePolicy()),
		"ON_LOSS":             string(mc.Spec.Elastic.OnLoss),
		"ATTENDS":             strconv.FormatBool(mc.Spec.TellsRuns()),
		"CHECKPOINT_SIGNAL":   c.Signal,
		"CHECKPOINT_WAIT":     seconds(c.Wait),
		"CHECKPOINT_INTERVAL": seconds(c.Interval),
		"CHECKPOINT_PATH":     c.Path,
	}
}

// sizeSettings returns the settings of elastic.Sizing, for a lead that chooses its size without
// the controller.
func sizeSettings(s *v1alpha2.MiniClusterSpec) map[string]string {
	return map[string]string{
		"SIZE":           strconv.Itoa(int(s.Size)),
		"MIN_SIZE":       strconv.Itoa(int(s.LeastSize())),
		"QUORUM_TIMEOUT": strconv.Itoa(int(s.Elastic.QuorumTimeout.Seconds())),
		"OPERATOR":       s.Elastic.Sizes.Operator,
		"OPERAND":        strconv.Itoa(int(s.Elastic.Sizes.Operand)),
		"TASKS_AT_SIZE":  strconv.Itoa(int(*s.Tasks)),
		"SCALING":        string(s.Elastic.Tasks.Scaling),
		"CONSTRAINT":     string(s.Elastic.Tasks.Constraint),
		"MULTIPLE_OF":    strconv.Itoa(int(ptr.Deref(s.Elastic.Tasks.MultipleOf, 1))),
		"SLOTS_PER_NODE": strconv.Itoa(Slots(s)),
		"CORES":          strconv.Itoa(cores(s)),
	}
}

// fluxSettings returns the paths of Flux, and the settings of its brokers.
func fluxSettings(mc *v1alpha2.MiniCluster) map[string]string {
	flux := &mc.Spec.Flux
	return map[string]string{
		"VIEW_BASE":        flux.Container.MountPath,
		"VIEW_DISABLED":    strconv.FormatBool(flux.Container.Disable),
		"PYTHON_PATH":      flux.Container.PythonPath,
		"SCHEDULER_SIMPLE": strconv.FormatBool(flux.Scheduler.Simple),
		"NO_WAIT_SOCKET":   strconv.FormatBool(flux.NoWaitSocket),
		"DISABLE_SOCKET":   strconv.FormatBool(flux.DisableSocket),
		"COMPLETE_WORKERS": strconv.FormatBool(flux.CompleteWorkers),
	}
}

func loggingSettings(s *v1alpha2.MiniClusterSpec) map[string]string {
	level := *s.Flux.LogLevel
	if s.Logging.Quiet {
		level = 0
	}
	return map[string]string{
		"LOG_LEVEL": strconv.Itoa(int(level)),
		"QUIET":     strconv.FormatBool(s.Logging.Quiet),
		"STRICT":    strconv.FormatBool(s.Logging.Strict),
		"DEBUG":     strconv.FormatBool(s.Logging.Debug),
		"ZEROMQ":    strconv.FormatBool(s.Logging.Zeromq),
		"TIMED":     strconv.FormatBool(s.Logging.Timed),
		"LABEL":     strconv.FormatBool(s.Logging.LabelIO),
	}
}

// settingPrefix begins the names of settings in the scripts, so that they never clash with the
// user's variables.
const settingPrefix = "FE_"

func exports(environment map[string]string) string { return assignments("export ", environment) }

// assignments returns shell assignments in the order of names. Values are quoted, so that the
// shell does not change them.
func assignments(prefix string, values map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&out, "%s%s=%s\n", prefix, name, shellQuote(values[name]))
	}
	return out.String()
}

// shellQuote returns a shell word whose value is the text, whatever characters the text has.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ParseSettings returns the variables of a settings.sh with the values that the scripts see, by
// name without settingPrefix.
func ParseSettings(files map[string]string) map[string]string {
	values := map[string]string{}
	rest := files["settings.sh"]
	for rest != "" {
		name, after, found := strings.Cut(rest, "='")
		if !found {
			break
		}
		var value strings.Builder
		for {
			// A quote in a value is written as the four characters '\'' .
			text, next, _ := strings.Cut(after, "'")
			value.WriteString(text)
			if !strings.HasPrefix(next, `\''`) {
				rest = strings.TrimPrefix(next, "\n")
				break
			}
			value.WriteByte('\'')
			after = next[len(`\''`):]
		}
		values[strings.TrimPrefix(strings.TrimPrefix(name, "export "), settingPrefix)] = value.String()
	}
	return values
}
