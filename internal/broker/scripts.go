// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
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
)

//go:embed scripts/*.sh
var scripts embed.FS

// Files are the files that both containers find in Dir, the certificate and the
// quorum aside.
func Files(mc *v1alpha2.MiniCluster, attempt int32) (map[string]string, error) {
	r, err := R(mc)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"broker.toml":         TOML(mc),
		"hostlist":            hostlist.Encode(Hosts(mc)),
		"settings.sh":         settings(mc, attempt),
		"view-environment.sh": exports(mc.Spec.Flux.Environment),
		"command.sh":          command(mc.Spec.FluxContainer()),
	}
	if r != "" {
		files["R"] = r
	}
	for name, file := range map[string]string{
		InitScript: "flux-init.sh", WaitScript: "wait.sh", "lead.sh": "lead.sh", "sizes.sh": "sizes.sh",
	} {
		data, err := scripts.ReadFile("scripts/" + file)
		if err != nil {
			return nil, err
		}
		files[name] = string(data)
	}
	commands := mc.Spec.FluxContainer().Commands
	for name, text := range map[string]string{
		"init": commands.Init, "pre": commands.Pre, "broker-pre": commands.BrokerPre,
		"worker-pre": commands.WorkerPre, "post": commands.Post,
	} {
		if text != "" {
			files["hook-"+name+".sh"] = text + "\n"
		}
	}
	return files, nil
}

// Modes of the lead.
const (
	modeInteractive = "interactive" // no command: the instance is for people
	modeLauncher    = "launcher"    // the command runs once, and submits its own jobs
	modeSubmit      = "submit"      // the command is one job
)

func mode(mc *v1alpha2.MiniCluster) string {
	container := mc.Spec.FluxContainer()
	switch {
	case mc.Spec.Interactive || command(container) == "":
		return modeInteractive
	case container.Launcher:
		return modeLauncher
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

// settings are the variables that the scripts read.
func settings(mc *v1alpha2.MiniCluster, attempt int32) string {
	s, container := &mc.Spec, mc.Spec.FluxContainer()
	logLevel := *s.Flux.LogLevel
	if s.Logging.Quiet {
		logLevel = 0
	}
	submit := s.Flux.SubmitCommand
	if submit == "" {
		submit = "flux submit"
	}
	connectTimeout := ""
	if s.Flux.ConnectTimeout != nil {
		connectTimeout = *s.Flux.ConnectTimeout
	}
	multipleOf := int32(1)
	if s.Elastic.Tasks.MultipleOf != nil {
		multipleOf = *s.Elastic.Tasks.MultipleOf
	}
	return assignments("", map[string]string{
		"LEAD_HOST":        LeadHost(mc.Name),
		"MODE":             mode(mc),
		"BACKOFF_LIMIT":    strconv.Itoa(int(s.BackoffLimit)),
		"ATTEMPT":          strconv.Itoa(int(attempt)),
		"SIZE":             strconv.Itoa(int(s.Size)),
		"MIN_SIZE":         strconv.Itoa(int(s.MinSize)),
		"QUORUM_TIMEOUT":   strconv.Itoa(int(s.Elastic.QuorumTimeout.Seconds())),
		"OPERATOR":         s.Elastic.Sizes.Operator,
		"OPERAND":          strconv.Itoa(int(s.Elastic.Sizes.Operand)),
		"TASKS_AT_SIZE":    strconv.Itoa(int(*s.Tasks)),
		"SCALING":          string(s.Elastic.Tasks.Scaling),
		"CONSTRAINT":       string(s.Elastic.Tasks.Constraint),
		"MULTIPLE_OF":      strconv.Itoa(int(multipleOf)),
		"SUBMIT":           submit,
		"OPTION_FLAGS":     s.Flux.OptionFlags,
		"PREFIX":           container.Commands.Prefix,
		"WRAP":             s.Flux.Wrap,
		"TOPOLOGY":         s.Flux.Topology,
		"CONNECT_TIMEOUT":  connectTimeout,
		"LOG_LEVEL":        strconv.Itoa(int(logLevel)),
		"VIEW_BASE":        s.Flux.Container.MountPath,
		"VIEW_DISABLED":    strconv.FormatBool(s.Flux.Container.Disable),
		"PYTHON_PATH":      s.Flux.Container.PythonPath,
		"DISABLE_SOCKET":   strconv.FormatBool(s.Flux.DisableSocket),
		"COMPLETE_WORKERS": strconv.FormatBool(s.Flux.CompleteWorkers),
		"ARCHIVE":          s.Archive.Path,
		"FLUX_OUTPUT_DIR":  container.Logs,
		"QUIET":            strconv.FormatBool(s.Logging.Quiet),
		"STRICT":           strconv.FormatBool(s.Logging.Strict),
		"DEBUG":            strconv.FormatBool(s.Logging.Debug),
		"ZEROMQ":           strconv.FormatBool(s.Logging.Zeromq),
		"TIMED":            strconv.FormatBool(s.Logging.Timed),
	})
}

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
		values[name] = value.String()
	}
	return values
}
