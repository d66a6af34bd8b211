// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// Dir is where the files are in the init container and the Flux container.
	Dir = "/flux_operator"
	// InitScript is the entry point of the init container.
	InitScript = "flux-init.sh"
	// WaitScript is the entry point of the Flux container.
	WaitScript = "wait-0.sh"
	// CertificateFile is the file of the certificate, which is not among Files.
	CertificateFile = "curve.cert"
	// QuorumFile holds what the annotation QuorumAnnotation of the pod says.
	QuorumFile = "quorum"
	// DrainFile holds what the annotation DrainAnnotation of the pod says.
	DrainFile = "drain"
	// StopFile holds what the annotation StopAnnotation of the pod says.
	StopFile = "stop"
)

// ReadyFile is where the Flux container has a file while its pod is ready: a follower's
// while its broker is online and has not been drained of its work, the lead's when the
// command has been started. It is in the broker's run directory.
func ReadyFile(mc *v1alpha2.MiniCluster) string {
	return path.Join(mc.Spec.Flux.Container.MountPath, "config/run/flux/ready")
}

// SidecarScript is the entry point of container i of the spec, where it is Wrapped.
func SidecarScript(i int) string { return fmt.Sprintf("start-%d.sh", i) }

// ServiceScript is the entry point of service i of the spec, where it is Wrapped.
func ServiceScript(i int) string { return fmt.Sprintf("service-%d.sh", i) }

// Wrapped reports whether a container beside Flux, or a service, has something of the
// user's to run in place of its image's entry point.
func Wrapped(c *v1alpha2.MiniClusterContainer) bool {
	runs := command(c) != "" || c.Commands.Init != "" || c.Commands.ServicePre != "" || c.Commands.Post != ""
	return !c.RunFlux && !c.NoWrapEntrypoint && runs
}

// WrappedService reports the same of a service. One without a command runs its image's
// entry point.
func WrappedService(c *v1alpha2.MiniClusterContainer) bool { return Wrapped(c) && command(c) != "" }

//go:embed scripts/*.sh
var scripts embed.FS

// Files are the files that all containers find in Dir, the certificate and what the
// pod is told aside.
func Files(mc *v1alpha2.MiniCluster, attempt int32) (map[string]string, error) {
	hosts, err := instanceOf(mc)
	if err != nil {
		return nil, err
	}
	r, err := resources(mc, hosts)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"broker.toml":         brokerConfig(mc, hosts),
		"hostlist":            cmp.Or(mc.Spec.Flux.Bursting.Hostlist, hosts.list()),
		"settings.sh":         settings(mc, attempt),
		"view-environment.sh": exports(mc.Spec.Flux.Environment),
		"command.sh":          command(mc.Spec.FluxContainer()),
	}
	if r != "" {
		files["R"] = r
	}
	for name, file := range map[string]string{InitScript: "flux-init.sh", WaitScript: "wait.sh"} {
		files[name] = script(file)
	}
	for _, name := range []string{"common.sh", "lead.sh", "sizes.sh", "members.sh", "batch.sh", "batch-job.sh"} {
		files[name] = script(name)
	}
	commands := mc.Spec.FluxContainer().Commands
	addShell(files, "hook", map[string]string{
		"init": commands.Init, "pre": commands.Pre, "broker-pre": commands.BrokerPre,
		"worker-pre": commands.WorkerPre, "post": commands.Post,
	})
	addWrapped(files, mc.Spec.Containers, Wrapped, SidecarScript)
	addWrapped(files, mc.Spec.Services, WrappedService, ServiceScript)
	return files, nil
}

// addWrapped adds the entry points of containers beside Flux, and the user's shell that
// each runs.
func addWrapped(files map[string]string, containers []v1alpha2.MiniClusterContainer, wrapped func(*v1alpha2.MiniClusterContainer) bool, entry func(int) string) {
	for i := range containers {
		c := &containers[i]
		if !wrapped(c) {
			continue
		}
		files[entry(i)] = script("start.sh")
		addShell(files, strings.TrimSuffix(entry(i), ".sh"), map[string]string{
			"init": c.Commands.Init, "pre": c.Commands.ServicePre, "command": command(c), "post": c.Commands.Post,
		})
	}
}

// addShell adds pieces of the user's shell, one file each.
func addShell(files map[string]string, prefix string, pieces map[string]string) {
	for name, text := range pieces {
		if text != "" {
			files[prefix+"-"+name+".sh"] = text + "\n"
		}
	}
}

func script(name string) string {
	data, err := scripts.ReadFile("scripts/" + name)
	if err != nil { // cannot be: it is embedded
		panic(err)
	}
	return string(data)
}

// Modes of the lead.
const (
	modeInteractive = "interactive" // no command: the instance is for people
	modeLauncher    = "launcher"    // the command runs once, and submits its own jobs
	modeBatch       = "batch"       // each line of the command is a job
	modeSubmit      = "submit"      // the command is one job
)

func mode(mc *v1alpha2.MiniCluster) string {
	container := mc.Spec.FluxContainer()
	switch {
	case mc.Spec.Interactive || command(container) == "":
		return modeInteractive
	case container.Launcher:
		return modeLauncher
	case container.Batch:
		return modeBatch
	}
	return modeSubmit
}

func command(container *v1alpha2.MiniClusterContainer) string {
	text := container.Command
	if container.Commands.Script != "" {
		text = container.Commands.Script
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text + "\n"
}

// settings are the variables that the scripts read, and those that the user's shell
// sees too.
func settings(mc *v1alpha2.MiniCluster, attempt int32) string {
	s, container := &mc.Spec, mc.Spec.FluxContainer()
	logLevel := *s.Flux.LogLevel
	if s.Logging.Quiet {
		logLevel = 0
	}
	connectTimeout := ""
	if s.Flux.ConnectTimeout != nil {
		connectTimeout = *s.Flux.ConnectTimeout
	}
	leadHost, ownHosts, topology, retries := LeadHost(mc.Name), "", "kary:256", s.BackoffLimit
	if bursts(mc) {
		ownHosts = strings.Join(member{mc.Name, int(s.MaxSize)}.ranges(), ",")
		topology = "kary:0" // not every broker can reach the followers of others
	}
	if s.Flux.Bursting.LeadBroker != nil { // every broker here is a follower
		leadHost, retries = "", 0
	}
	multipleOf := int32(1)
	if s.Elastic.Tasks.MultipleOf != nil {
		multipleOf = *s.Elastic.Tasks.MultipleOf
	}
	return exports(map[string]string{
		"FLUX_MINICLUSTER_SIZE":     strconv.Itoa(int(s.Size)),
		"FLUX_MINICLUSTER_MIN_SIZE": strconv.Itoa(int(s.LeastSize())),
		"FLUX_MINICLUSTER_ATTEMPT":  strconv.Itoa(int(attempt)),
		"FLUX_OUTPUT_DIR":           container.Logs,
	}) + assignments(settingPrefix, map[string]string{
		"LEAD_HOST":        leadHost,
		"OWN_HOSTS":        ownHosts,
		"MODE":             mode(mc),
		"BACKOFF_LIMIT":    strconv.Itoa(int(retries)),
		"SIZE":             strconv.Itoa(int(s.Size)),
		"MIN_SIZE":         strconv.Itoa(int(s.LeastSize())),
		"QUORUM_TIMEOUT":   strconv.Itoa(int(s.Elastic.QuorumTimeout.Seconds())),
		"OPERATOR":         s.Elastic.Sizes.Operator,
		"OPERAND":          strconv.Itoa(int(s.Elastic.Sizes.Operand)),
		"TASKS_AT_SIZE":    strconv.Itoa(int(*s.Tasks)),
		"SCALING":          string(s.Elastic.Tasks.Scaling),
		"CONSTRAINT":       string(s.Elastic.Tasks.Constraint),
		"MULTIPLE_OF":      strconv.Itoa(int(multipleOf)),
		"SUBMIT":           cmp.Or(strings.TrimSpace(s.Flux.SubmitCommand), "flux submit"),
		"OPTION_FLAGS":     strings.TrimSpace(s.Flux.OptionFlags),
		"PREFIX":           strings.TrimSpace(container.Commands.Prefix),
		"WRAP":             s.Flux.Wrap,
		"TOPOLOGY":         cmp.Or(s.Flux.Topology, topology),
		"CONNECT_TIMEOUT":  connectTimeout,
		"LOG_LEVEL":        strconv.Itoa(int(logLevel)),
		"VIEW_BASE":        s.Flux.Container.MountPath,
		"READY":            ReadyFile(mc),
		"VIEW_DISABLED":    strconv.FormatBool(s.Flux.Container.Disable),
		"PYTHON_PATH":      s.Flux.Container.PythonPath,
		"SCHEDULER_SIMPLE": strconv.FormatBool(s.Flux.Scheduler.Simple),
		"NO_WAIT_SOCKET":   strconv.FormatBool(s.Flux.NoWaitSocket),
		"BATCH_RAW":        strconv.FormatBool(container.BatchRaw),
		"CORES_PER_NODE":   strconv.Itoa(Cores(s)),
		"DISABLE_SOCKET":   strconv.FormatBool(s.Flux.DisableSocket),
		"COMPLETE_WORKERS": strconv.FormatBool(s.Flux.CompleteWorkers),
		"ARCHIVE":          s.Archive.Path,
		"QUIET":            strconv.FormatBool(s.Logging.Quiet),
		"STRICT":           strconv.FormatBool(s.Logging.Strict),
		"DEBUG":            strconv.FormatBool(s.Logging.Debug),
		"ZEROMQ":           strconv.FormatBool(s.Logging.Zeromq),
		"TIMED":            strconv.FormatBool(s.Logging.Timed),
	})
}

// settingPrefix begins the names of settings in the scripts, so that they are none of the
// user's variables.
const settingPrefix = "FE_"

func exports(environment map[string]string) string { return assignments("export ", environment) }

// assignments writes shell assignments in the order of names, each value quoted
// so that it arrives unchanged.
func assignments(prefix string, values map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&out, "%s%s=%s\n", prefix, name, shellQuote(values[name]))
	}
	return out.String()
}

// shellQuote writes a word of the shell that stands for the text, whatever is in
// it.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ParseSettings reads the variables of a settings.sh back, as the scripts see them.
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
