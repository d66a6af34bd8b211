// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// Dir is the directory of the files in the containers.
	Dir = "/flux_operator"
	// InitScript is the entry point of the init container.
	InitScript = "flux-init.sh"
	// WaitScript is the entry point of the Flux container.
	WaitScript = "wait-0.sh"
	// CertificateFile is the file of the certificate, which Files does not return.
	CertificateFile = "curve.cert"
	// QuorumFile has the value of the pod's QuorumAnnotation.
	QuorumFile = "quorum"
	// JobFile has the name of the pod's replicated job.
	JobFile = "job"
	// IndexFile has the completion index of the pod.
	IndexFile = "index"
	// DrainFile has the value of the pod's DrainAnnotation.
	DrainFile = "drain"
	// RestartFile has the value of the pod's RestartAnnotation.
	RestartFile = "restart"
	// StopFile has the value of the pod's StopAnnotation.
	StopFile = "stop"
)

// ReadyFile returns the path of a file in the broker's run directory. The file exists in the
// Flux container while its pod is ready. A follower is ready while its broker is online, unless
// the broker is drained and has no work left. The lead is ready when the command has started.
func ReadyFile(mc *v1alpha2.MiniCluster) string {
	return path.Join(mc.Spec.Flux.Container.MountPath, "config/run/flux/ready")
}

// SidecarScript returns the entry point of container i of the spec, if Wrapped is true for it.
func SidecarScript(i int) string { return fmt.Sprintf("start-%d.sh", i) }

// ServiceScript returns the entry point of service i of the spec, if WrappedService is true for
// it.
func ServiceScript(i int) string { return fmt.Sprintf("service-%d.sh", i) }

// Wrapped reports whether a container beside Flux runs a script with the user's shell in place
// of the entry point of its image.
func Wrapped(c *v1alpha2.MiniClusterContainer) bool {
	runs := command(c) != "" || c.Commands.Init != "" || c.Commands.ServicePre != "" || c.Commands.Post != ""
	return !c.RunFlux && !c.NoWrapEntrypoint && runs
}

// WrappedService reports whether a service runs such a script. A service without a command runs
// the entry point of its image.
func WrappedService(c *v1alpha2.MiniClusterContainer) bool { return Wrapped(c) && command(c) != "" }

//go:embed scripts/*.sh
var scripts embed.FS

// Files returns the files of Dir by name that are a MiniCluster's own, without the certificate and without the files
// that have the values of annotations.
func Files(mc *v1alpha2.MiniCluster, attempt int32) (map[string]string, error) {
	hosts, err := instanceOf(mc)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkTasks(mc), checkResize(&mc.Spec)); err != nil {
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
	commands := mc.Spec.FluxContainer().Commands
	addShell(files, "hook", map[string]string{
		"init": commands.Init, "pre": commands.Pre, "broker-pre": commands.BrokerPre,
		"worker-pre": commands.WorkerPre, "post": commands.Post,
	})
	if c := mc.Spec.Elastic.Checkpoint; c != nil {
		addShell(files, "checkpoint", map[string]string{"command": c.Command})
		addShell(files, "restart", map[string]string{"command": c.RestartCommand})
	}
	addWrapped(files, mc.Spec.Containers, Wrapped, SidecarScript)
	addWrapped(files, mc.Spec.Services, WrappedService, ServiceScript)
	return files, nil
}

// addWrapped adds the entry points of containers beside Flux or of services, and the user's
// shell that each of them runs.
func addWrapped(files map[string]string, containers []v1alpha2.MiniClusterContainer, wrapped func(*v1alpha2.MiniClusterContainer) bool, entry func(int) string) {
	for i := range containers {
		c := &containers[i]
		if !wrapped(c) {
			continue
		}
		files[entry(i)] = "#!/bin/bash\n. \"${FLUX_OPERATOR_DIR:-" + Dir + "}/start.sh\"\n"
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

// Scripts returns the files of Dir by name that are the same for every MiniCluster: the scripts, without their comments.
// No text of a script has lines that look like comments.
func Scripts() map[string]string { return maps.Clone(withoutComments()) }

var withoutComments = sync.OnceValue(func() map[string]string {
	comment, out := regexp.MustCompile(`(?m)^[ \t]*(#.*)?\n`), map[string]string{} // or an empty line
	err := fs.WalkDir(scripts, "scripts", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := scripts.ReadFile(path)
		out[entry.Name()] = "#!/bin/bash\n" + comment.ReplaceAllString(string(data), "")
		return err
	})
	if err != nil { // impossible: the files are embedded
		panic(err)
	}
	return out
})

// Modes of the lead.
const (
	modeInteractive = "interactive" // no command: users work in the instance
	modeLauncher    = "launcher"    // the command runs once, and submits its own jobs
	modeBatch       = "batch"       // each line of the command is a job
	modeSubmit      = "submit"      // the command is one job
)

func mode(s *v1alpha2.MiniClusterSpec) string {
	container := s.FluxContainer()
	switch {
	case s.ForUsers():
		return modeInteractive
	case container.Launcher:
		return modeLauncher
	case container.Batch:
		return modeBatch
	}
	return modeSubmit
}

func command(container *v1alpha2.MiniClusterContainer) string {
	text := container.Text()
	if container.Commands.Script != "" {
		text = unescape(text)
	}
	if text == "" {
		return ""
	}
	return text + "\n"
}

// unescape returns what a shell leaves of the backslashes in a here-document without quotes. The
// Flux Operator writes scripts by such a here-document, so a `$` in its scripts has a backslash.
// Text without a backslash is left alone here, while the Flux Operator expands it on the lead.
func unescape(script string) string { return unescaper.Replace(script) }

var unescaper = strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`", "\\\n", "")
