// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// submitter is the verb submit.
type submitter struct {
	*access.Session
	queueing
	check                               func(*v1alpha2.MiniCluster) error
	file, name, nodes, image, view, dir string
	tasks, perNode                      int32
	script                              *script // that of the file; nil if the file is a MiniCluster
	limit                               limit
	cpu, memory, gpu                    string
	env, labels                         map[string]string
	launcher, exclusive, wait, attach   bool
	dryRun, format                      string
}

// newSubmit returns the verb. check says what the API server or the manager would refuse of a MiniCluster.
func newSubmit(s *access.Session, check func(*v1alpha2.MiniCluster) error) *cobra.Command {
	m := &submitter{Session: s, check: check}
	cmd := &cobra.Command{
		Use: "submit [-f FILE] [FLAGS] [-- COMMAND [ARGUMENT...]]", Short: "Make a MiniCluster that runs a command, as sbatch or flux submit",
		SuggestFor: []string{"sbatch", "srun", "run", "create"},
		Long: `Make a MiniCluster that runs a command. -N, -n, -t and --exclusive mean what they mean for sbatch and flux
submit, and --time, --partition and --job-name are accepted for -t, -q and --name. CPUs, memory and GPUs are those of each
node. With -f, the MiniCluster in a file is changed by the flags and the command.

Without -n and --ntasks-per-node, each node runs one task, as with srun and flux run. With -f, the tasks of the file
count; if -N changes the size, the tasks of each node stay.

With -f, a file that begins with #! is a script, as for sbatch and flux batch. The lead broker runs the script, and the
script starts tasks by flux run. Lines with #SBATCH or #FLUX: set the flags that the command line does not set. Options
that have no meaning here are named.

Submit checks the MiniCluster before it sends anything. Then it says what the MiniCluster asks for, and waits up to 3 s
to say whether the MiniCluster starts, or why it waits. With --output it does not wait.

The words of the command are joined. Words with blanks or other special characters are quoted, unless there is only one
word, which is taken as it is.`,
		Example: `  kubectl minicluster submit -N 4 -n 32 -t 20m --image=lammps --cpu=8 -- lmp -in in.reaxc
  kubectl minicluster submit -N 8-16 -q research -f minicluster.yaml --wait
  kubectl minicluster submit -f job.sh --image=lammps
  kubectl minicluster submit -N 4 --image=lammps --dry-run=client -- lmp -in in.reaxc > minicluster.yaml`,
		PreRunE: m.checkTasks,
		RunE:    func(cmd *cobra.Command, args []string) error { return m.run(cmd, args) },
	}
	m.flags(cmd)
	takesCommand(cmd, 0, "submit -N 4 --image=lammps -- lmp -in in.lj; a file follows -f")
	access.Complete(cmd, "queue", completeQueues(s))
	access.Complete(cmd, "dry-run", access.Choices("none", "client", "server"))
	output(cmd, &m.format, "", "json", "yaml", "name")
	return cmd
}

func (m *submitter) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(map[string]string{"time": "time-limit", "partition": "queue", "job-name": "name"}[name], name))
	})
	f.StringVarP(&m.file, "filename", "f", "", "file with a MiniCluster that is changed by the other flags, or with a script; -: the standard input")
	f.StringVar(&m.name, "name", "", "name; by default that of the program, with a suffix that makes it unique")
	f.StringVarP(&m.nodes, "nodes", "N", "", "number of brokers, each of which usually has a node: N, or MIN-N to begin also with fewer")
	f.Int32VarP(&m.tasks, "ntasks", "n", 0, "number of tasks at the full size; by default one for each node; 0: Flux starts one for each node that the MiniCluster gets")
	f.Int32Var(&m.perNode, "ntasks-per-node", 0, "number of tasks on each node, in place of --ntasks")
	f.VarP(&m.limit, "time-limit", "t", "how long the command may run: 90s, 20m, 1h30m, 2d, 20 (minutes) or 1:30:00; by default the limit of the queue")
	m.queueing.flags(f)
	f.StringVar(&m.image, "image", "", "image of the command")
	f.StringVar(&m.view, "flux-image", "", "image with Flux for the operating system of the command's image")
	f.StringVar(&m.dir, "chdir", "", "working directory of the command")
	f.StringVar(&m.cpu, "cpu", "", "CPUs of each broker")
	f.StringVar(&m.memory, "memory", "", "memory of each broker, such as 16Gi")
	f.StringVar(&m.gpu, "gpus", "", "NVIDIA GPUs of each broker")
	f.StringToStringVarP(&m.env, "env", "e", nil, "variables of the command: NAME=VALUE")
	f.StringToStringVarP(&m.labels, "labels", "l", nil, "labels of the MiniCluster: NAME=VALUE")
	f.BoolVar(&m.launcher, "launcher", false, "the command starts tasks itself, by flux run or flux submit")
	f.BoolVar(&m.exclusive, "exclusive", false, "each broker has its node alone")
	f.BoolVar(&m.wait, "wait", false, "wait for the end, and end with the exit code of the command")
	f.BoolVar(&m.attach, "attach", false, "as --wait, and print the output of the command")
	f.StringVar(&m.dryRun, "dry-run", "none", "none, client (print the MiniCluster) or server (let the API server check it)")
}

func (m *submitter) run(cmd *cobra.Command, command []string) error {
	namespace, err := m.Namespace()
	if err != nil {
		return err
	}
	mc, err := m.miniCluster(cmd, command)
	if err != nil {
		return err
	}
	if m.Flags.Context.Namespace != "" && mc.Namespace != "" && mc.Namespace != namespace {
		return access.Usagef("--namespace=%s: the namespace in %s is %s", namespace, m.file, mc.Namespace)
	}
	mc.Namespace = cmp.Or(mc.Namespace, namespace)
	if err := m.check(mc); err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	for _, line := range costOf(mc) {
		fmt.Fprintln(m.ErrOut, access.PlainLine(line))
	}
	switch m.dryRun {
	case "client":
		return printObject(m.Out, cmp.Or(m.format, "yaml"), mc)
	case "none", "server":
		return m.create(cmd.Context(), mc)
	}
	return access.Usagef("--dry-run=%s: it has to be none, client or server", m.dryRun)
}

func (m *submitter) create(ctx context.Context, mc *v1alpha2.MiniCluster) error {
	c, err := m.Client()
	if err != nil {
		return err
	}
	var options []client.CreateOption
	done := "created"
	if m.dryRun == "server" {
		options, done = []client.CreateOption{client.DryRunAll}, "created (server dry run)"
	}
	if err := c.Create(ctx, mc, options...); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(mc)
	switch {
	case m.format != "":
		err = printObject(m.Out, m.format, mc)
	case m.attach: // the output is that of the command
		fmt.Fprintf(m.ErrOut, "minicluster.flux-framework.org/%s %s\n", key.Name, done)
	default:
		err = say(m.Session, key, done)
	}
	switch {
	case err != nil || m.dryRun == "server":
		return err
	case m.attach:
		return attach(ctx, m.Session, c, key)
	case m.wait:
		return await(ctx, m.Session, c, key, "finished", 0)
	case m.format == "":
		return tellFirst(ctx, m.Session, c, mc)
	}
	return nil
}

// miniCluster returns what the flags and the file say.
func (m *submitter) miniCluster(cmd *cobra.Command, command []string) (*v1alpha2.MiniCluster, error) {
	mc := &v1alpha2.MiniCluster{}
	if m.file != "" {
		if err := m.read(cmd, mc); err != nil {
			return nil, err
		}
	}
	mc.APIVersion, mc.Kind = v1alpha2.GroupVersion.String(), v1alpha2.MiniClusterKind
	if len(mc.Spec.Containers) == 0 {
		mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{}}
	}
	container, size := mc.Spec.FluxContainer(), max(mc.Spec.Size, 1)
	if err := m.set(mc, container); err != nil {
		return nil, err
	}
	if len(command) > 0 {
		container.Command = join(command)
	}
	if container.Image == "" {
		return nil, access.Usagef("name an image by --image")
	}
	if err := m.setTasks(cmd, &mc.Spec, size); err != nil {
		return nil, err
	}
	m.setCores(&mc.Spec)
	if m.name != "" {
		mc.Name, mc.GenerateName = m.name, ""
	} else if mc.Name == "" && mc.GenerateName == "" {
		mc.GenerateName = nameOf(container.Command)
	}
	return mc, nil
}

func (m *submitter) read(cmd *cobra.Command, mc *v1alpha2.MiniCluster) error {
	text, err := access.ReadFile(m.file, m.In)
	if err != nil {
		return err
	}
	if isScript(text) {
		return m.useScript(cmd, mc, string(text))
	}
	if text, err = access.OnlyObject(m.file, text); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, mc); err != nil {
		return fmt.Errorf("%s: %w", m.file, err)
	}
	if mc.Kind != v1alpha2.MiniClusterKind {
		return fmt.Errorf("%s: its kind is %q, and not %s", m.file, mc.Kind, v1alpha2.MiniClusterKind)
	}
	return nil
}

// set sets what the flags say in a MiniCluster and in the container of its command.
func (m *submitter) set(mc *v1alpha2.MiniCluster, container *v1alpha2.MiniClusterContainer) error {
	spec := &mc.Spec
	if err := setNodes(spec, m.nodes); err != nil {
		return err
	}
	spec.Flux.Container.Image = cmp.Or(m.view, spec.Flux.Container.Image)
	spec.Placement.Exclusive = spec.Placement.Exclusive || m.exclusive
	if err := m.queueing.set(spec, m.Clock.Now()); err != nil {
		return err
	}
	if m.limit != 0 {
		spec.DeadlineSeconds = new(int64(time.Duration(m.limit) / time.Second))
	}
	container.Image = cmp.Or(m.image, container.Image)
	container.WorkingDir = cmp.Or(m.dir, container.WorkingDir)
	container.Launcher = container.Launcher || m.launcher
	container.Environment = merged(container.Environment, m.env)
	mc.Labels = merged(mc.Labels, m.labels)
	for flag, set := range map[string]struct {
		name  corev1.ResourceName
		value string
	}{"cpu": {corev1.ResourceCPU, m.cpu}, "memory": {corev1.ResourceMemory, m.memory}, "gpus": {gpus, m.gpu}} {
		if set.value == "" {
			continue
		}
		quantity, err := readQuantity(set.value)
		if err != nil {
			return access.Usagef("--%s=%s: %w", flag, set.value, err)
		}
		setResource(&container.Resources, set.name, quantity)
	}
	return nil
}

// schemaQuantity is what the API server takes as a quantity in a MiniCluster. The parser of Kubernetes needs minutes, or all
// memory, for others, such as 1e-99999999.
var schemaQuantity = regexp.MustCompile(`^[-+]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([KMGTPE]i|[numkMGTPE]|[eE][-+]?\d{1,2})?$`)

func readQuantity(text string) (resource.Quantity, error) {
	if !schemaQuantity.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// gpus is the resource of NVIDIA's GPUs.
const gpus = corev1.ResourceName("nvidia.com/gpu")

// setResource sets a limit, and a request that differs from it.
func setResource(r *corev1.ResourceRequirements, name corev1.ResourceName, quantity resource.Quantity) {
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	r.Limits[name] = quantity
	delete(r.Requests, name)
}

// setNodes sets the size, and the smallest size, from N or MIN-N.
func setNodes(spec *v1alpha2.MiniClusterSpec, text string) error {
	if text == "" {
		return nil
	}
	least, most, isRange := strings.Cut(text, "-")
	low, err := strconv.ParseInt(least, 10, 32)
	high := low
	if err == nil && isRange {
		high, err = strconv.ParseInt(most, 10, 32)
	}
	if err != nil || low < 1 || high < low {
		return access.Usagef("--nodes=%s: it has to be a number, or two as in 8-16", text)
	}
	spec.Size, spec.MinSize = int32(high), 0
	if isRange {
		spec.MinSize = int32(low)
	}
	return nil
}

func merged(all, more map[string]string) map[string]string {
	for key, value := range more {
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	return all
}

// plain are words that need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// join joins the words of a command, so that a shell takes them apart again.
func join(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plain.MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// notInNames are what names of objects do not have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf is the beginning of a name for a command.
func nameOf(command string) string {
	program, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(filepath.Base(program)), "-"), "-0123456789")
	return cmp.Or(name[:min(len(name), 20)], "minicluster") + "-"
}
