// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
		"a": repeats, "array": repeats, "d": "dependency", "dependency": "dependency", "b": "begin", "begin": "begin", "singleton": "singleton",
	}
	fluxFlags = map[string]string{
		"N": "nodes", "nodes": "nodes", "t": "time-limit", "time-limit": "time-limit", "q": "queue", "queue": "queue", "cwd": "chdir",
		"x": "exclusive", "exclusive": "exclusive", "env": "env", "job-name": jobName,
		"cc": repeats, "bcc": repeats, "dependency": "dependency", "begin-time": "begin", "singleton": "singleton",
	}
)

// Options that are no flags of submit.
const (
	perTask = "cpus-per-task"
	jobName = "job-name"
	// A script that ran without these would do something else.
	repeats = "runs the script several times"
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
	if err := checkBash(text); err != nil {
		return access.Usagef("%s: %w", m.file, err)
	}
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if given["ntasks"] || given["ntasks-per-node"] { // each stands in place of the other
		given["ntasks"], given["ntasks-per-node"] = true, true
	}
	m.script = &script{name: filepath.Base(m.file)}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			break // as sbatch: directives come before the first command
		}
		if err := m.useLine(cmd, line, given); err != nil {
			return err
		}
	}
	if len(m.script.ignored) > 0 {
		fmt.Fprintln(m.ErrOut, access.PlainLine(fmt.Sprintf("These options in %s have no meaning here: %s", m.file, strings.Join(m.script.ignored, " "))))
	}
	if names := slices.Compact(slices.Sorted(slices.Values(slurmVariable.FindAllString(text, -1)))); len(names) > 0 {
		fmt.Fprintln(m.ErrOut, access.PlainLine(fmt.Sprintf("%s reads %s, which a MiniCluster does not set: flux getattr size and FLUX_MINICLUSTER_* tell sizes.", m.file, strings.Join(names, ", "))))
	}
	if usesSrun.MatchString(text) {
		fmt.Fprintln(m.ErrOut, access.PlainLine(m.file+" calls srun, which a MiniCluster does not have: use flux run."))
	}
	mc.GenerateName = nameOf(m.script.name)
	mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{Launcher: true}}
	mc.Spec.Containers[0].Commands.Script = strings.ReplaceAll(text, `\`, `\\`) // one of the two is removed (commands.script)
	return nil
}

// checkBash returns an error if a script is not one for bash, with which the lead broker runs all scripts.
func checkBash(text string) error {
	if strings.Contains(text, "\r\n") {
		return errors.New(`its lines end with \r\n, and bash needs \n: dos2unix changes the ends`)
	}
	if !utf8.ValidString(text) {
		return errors.New("it has bytes that are no UTF-8, which a MiniCluster cannot have: iconv changes the bytes")
	}
	first, _, _ := strings.Cut(text, "\n")
	if !bashLine.MatchString(first) {
		return fmt.Errorf("its first line is %q, and a script is run with bash: the interpreter has to be sh or bash", first)
	}
	return nil
}

// bashLine is a first line that names sh or bash, also by env with its options and variables.
var bashLine = regexp.MustCompile(`^#!\s*(?:\S*/)?(?:env\s+(?:(?:-\S+|\w+=\S*)\s+)*(?:\S*/)?)?(?:ba)?sh(?:\s|$)`)

// useLine sets the flags that a line names, if the line is a directive. Flags that are given stay.
func (m *submitter) useLine(cmd *cobra.Command, line string, given map[string]bool) error {
	match := directive.FindStringSubmatch(line)
	if match == nil {
		return nil
	}
	flags := fluxFlags
	if strings.HasPrefix(match[1], "SBATCH") {
		flags = slurmFlags
	}
	options, err := optionsOf(match[2])
	if err != nil {
		return access.Usagef("%s: %s: %w", m.file, line, err)
	}
	for _, o := range options {
		flag := flags[o.name]
		switch {
		case flag == repeats:
			return access.Usagef("%s: %s %s, and a MiniCluster does not: nothing was sent. Remove the line; an experiment runs a command several times", m.file, o.text, flag)
		case given[flag]:
			continue
		}
		if err := m.obey(cmd, flag, o); err != nil {
			return access.Usagef("%s: %s: %w", m.file, o.text, err)
		}
	}
	return nil
}

// obey does what an option of a directive says. flag is that of submit; "" if there is none.
func (m *submitter) obey(cmd *cobra.Command, flag string, o option) (err error) {
	value, ignored := "", o.text
	if flag != "" {
		value, ignored = valueOf(o)
	}
	if ignored != "" {
		m.script.ignored = append(m.script.ignored, ignored)
	}
	switch {
	case value == "" && ignored != "":
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

var slurmVariable = regexp.MustCompile(`\bSLURM_\w+`)

var usesSrun = regexp.MustCompile(`(?m)^[^#\n]*\bsrun\b`)

// option is one of a directive: -N4, -N 4, --nodes=4 or --nodes 4. A word that belongs to no option has no name.
type option struct{ text, name, value string }

// optionsOf are the options of a directive.
func optionsOf(line string) (out []option, err error) {
	words, err := split(line)
	open := false // the last option may have its value in the next word
	for _, word := range words {
		name, value, closed := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case strings.HasPrefix(word, "--") && name != "":
			out = append(out, option{word, name, value})
			open = !closed && name != "exclusive"
		case strings.HasPrefix(word, "-") && name != "" && len(word) > 1:
			out = append(out, option{word, word[1:2], word[2:]})
			open = len(word) == 2
		case open:
			last := &out[len(out)-1]
			last.text, last.value, open = last.text+" "+word, word, false
		default:
			out = append(out, option{text: word})
		}
	}
	return out, err
}

// A word ends at a blank or at a comment, unless these are in quotes.
var (
	wordStart = regexp.MustCompile(`^(?:[^\s'"#]|'[^']*'|"[^"]*")+`)
	quotes    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// split takes a line apart into words, as sbatch and flux batch do: without quotes, and up to a comment.
func split(line string) (words []string, err error) {
	for line = strings.TrimSpace(line); line != "" && line[0] != '#'; line = strings.TrimSpace(line) {
		word := wordStart.FindString(line)
		if line = line[len(word):]; line != "" && (line[0] == '\'' || line[0] == '"') {
			return nil, fmt.Errorf("a quote has no end: %s", line)
		}
		words = append(words, quotes.ReplaceAllStringFunc(word, func(text string) string { return text[1 : len(text)-1] }))
	}
	return words, nil
}

// slurmMemory is a size of memory for sbatch, which counts in MiB. For sbatch, 0 is all memory of a node.
var slurmMemory = regexp.MustCompile(`(?i)^(0*)(\d*)([KMGT]?)B?$`)

// valueOf is the value of an option as submit takes it, and the part of the option that has no meaning here.
func valueOf(o option) (value, ignored string) {
	switch o.name {
	case "exclusive", "x":
		return "true", ""
	case "mem":
		if match := slurmMemory.FindStringSubmatch(o.value); match != nil {
			if match[2] == "" {
				return "", o.text
			}
			return match[2] + cmp.Or(strings.ToUpper(match[3]), "M") + "i", ""
		}
	case "env":
		if !strings.Contains(o.value, "=") { // a rule for the variables of the user's shell
			return "", o.text
		}
	case "gres", "gpus-per-node":
		return gpusOf(o)
	}
	return o.value, ""
}

// gpuPart is the GPUs in a list of resources: gpu, gpu:2, gpu:a100 or gpu:a100:2.
var gpuPart = regexp.MustCompile(`^gpu(?::[^:]*[^:\d][^:]*)?(?::(\d+))?$`)

// gpusOf is the number of GPUs in a list of resources, and the option with the other resources.
func gpusOf(o option) (value, ignored string) {
	var others []string
	for part := range strings.SplitSeq(o.value, ",") {
		text := part
		if o.name == "gpus-per-node" {
			text = "gpu:" + part
		}
		if match := gpuPart.FindStringSubmatch(text); match != nil && value == "" {
			value = cmp.Or(match[1], "1")
		} else {
			others = append(others, part)
		}
	}
	if others != nil {
		ignored = "--" + o.name + "=" + strings.Join(others, ",")
	}
	return value, ignored
}
