// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// isScript reports whether a file is a script, and not YAML.
func isScript(text []byte) bool { return strings.HasPrefix(string(text), "#!") }

// directive is a line of a script with options for sbatch or for flux batch.
var directive = regexp.MustCompile(`^#(SBATCH\s|\s*(?i:flux):)(.*)$`)

// slurmFlags and fluxFlags are the flags of submit for the options of sbatch and of flux batch.
var (
	slurmFlags = map[string]string{
		"N": "nodes", "nodes": "nodes", "n": "ntasks", "ntasks": "ntasks", "ntasks-per-node": "ntasks-per-node", "t": "time-limit", "time": "time-limit",
		"p": "queue", "partition": "queue", "D": "chdir", "chdir": "chdir", "exclusive": "exclusive", "mem": "memory", "gpus-per-node": "gpus", "gres": "gpus",
		"c": perTask, "cpus-per-task": perTask, "J": jobName, "job-name": jobName,
	}
	fluxFlags = map[string]string{
		"N": "nodes", "nodes": "nodes", "t": "time-limit", "time-limit": "time-limit", "q": "queue", "queue": "queue", "cwd": "chdir",
		"x": "exclusive", "exclusive": "exclusive", "env": "env", "job-name": jobName,
	}
)

// Options that are no flags of submit.
const (
	perTask = "cpus-per-task"
	jobName = "job-name"
)

// script is a file with a script: what its directives say that is no flag of submit.
type script struct {
	name    string // of the job
	cores   int64  // of each task
	ignored []string
}

// useScript makes the text of a script the command of a launcher, and sets the flags that its directives name. Flags of the
// command line go first.
func (m *submitter) useScript(cmd *cobra.Command, mc *v1alpha2.MiniCluster, text string) error {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	m.script = &script{name: filepath.Base(m.file)}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			break // as sbatch: directives come before the first command
		}
		match := directive.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		flags := fluxFlags
		if strings.HasPrefix(match[1], "SBATCH") {
			flags = slurmFlags
		}
		for _, o := range optionsOf(match[2]) {
			if flag := flags[o.name]; given[flag] {
				continue
			} else if err := m.obey(cmd, flag, o); err != nil {
				return access.Usagef("%s: %s: %w", m.file, o.text, err)
			}
		}
	}
	if len(m.script.ignored) > 0 {
		fmt.Fprintln(m.ErrOut, access.PlainLine(fmt.Sprintf("These options in %s have no meaning here: %s", m.file, strings.Join(m.script.ignored, " "))))
	}
	if usesSrun.MatchString(text) {
		fmt.Fprintln(m.ErrOut, access.PlainLine(m.file+" calls srun, which a MiniCluster does not have: use flux run."))
	}
	mc.GenerateName = nameOf(m.script.name)
	mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{Launcher: true}}
	mc.Spec.Containers[0].Commands.Script = strings.ReplaceAll(text, `\`, `\\`) // one of the two is removed (commands.script)
	return nil
}

// obey does what an option of a directive says. flag is that of submit; "" if there is none.
func (m *submitter) obey(cmd *cobra.Command, flag string, o option) (err error) {
	value := valueOf(o)
	switch {
	case flag == "" || flag == "gpus" && value == "":
		m.script.ignored = append(m.script.ignored, o.text)
	case flag == jobName:
		m.script.name = value
	case flag == perTask:
		m.script.cores, err = strconv.ParseInt(value, 10, 32)
	default:
		err = cmd.Flags().Set(flag, value)
	}
	return err
}

// setCores gives each broker the CPUs of its tasks, if a script names those of a task.
func (m *submitter) setCores(spec *v1alpha2.MiniClusterSpec) {
	if m.script == nil || m.script.cores < 1 || m.cpu != "" {
		return
	}
	size := max(int64(spec.Size), 1)
	tasks := max(int64(ptr.Deref(spec.Tasks, defaultTasks)), 1)
	cores := m.script.cores * ((tasks + size - 1) / size)
	setResource(&spec.FluxContainer().Resources, corev1.ResourceCPU, *resource.NewQuantity(cores, resource.DecimalSI))
}

var usesSrun = regexp.MustCompile(`(?m)^[^#\n]*\bsrun\b`)

// option is one of a directive: -N4, -N 4, --nodes=4 or --nodes 4.
type option struct{ text, name, value string }

// optionsOf are the options of a directive. A comment ends them.
func optionsOf(line string) (out []option) {
	for word := range strings.FieldsSeq(line) {
		switch {
		case strings.HasPrefix(word, "#"):
			return out
		case strings.HasPrefix(word, "--"):
			name, value, _ := strings.Cut(word[2:], "=")
			out = append(out, option{word, name, value})
		case strings.HasPrefix(word, "-") && len(word) > 1:
			out = append(out, option{word, word[1:2], word[2:]})
		case len(out) > 0 && out[len(out)-1].value == "":
			last := &out[len(out)-1]
			last.text, last.value = last.text+" "+word, word
		}
	}
	return out
}

// slurmMemory is a size of memory for sbatch, which counts in MiB.
var slurmMemory = regexp.MustCompile(`^(\d+)([KMGT]?)B?$`)

// valueOf is the value of an option as submit takes it.
func valueOf(o option) string {
	value := strings.Trim(o.value, `"'`)
	switch o.name {
	case "exclusive", "x":
		return "true"
	case "mem":
		if match := slurmMemory.FindStringSubmatch(value); match != nil {
			return match[1] + cmp.Or(match[2], "M") + "i"
		}
	case "gres":
		if !strings.HasPrefix(value, "gpu:") {
			return ""
		}
		return value[strings.LastIndex(value, ":")+1:]
	case "gpus-per-node":
		return value[strings.LastIndex(value, ":")+1:]
	}
	return value
}
