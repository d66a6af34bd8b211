// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

// invoke runs the program with the given standard input.
func invoke(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, trouble bytes.Buffer
	code = access.Report(run(context.Background(), args, access.New(strings.NewReader(stdin), &out, &trouble)), &trouble)
	return code, out.String(), trouble.String()
}

// parse reads the rendered objects. An unknown field of an object is an error.
func parse(t *testing.T, text string) (names []string, sets []*jobsetapi.JobSet) {
	t.Helper()
	for document := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "\n---\n") {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		object, ok := map[string]any{
			"Secret": &corev1.Secret{}, "ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{}, "JobSet": &jobsetapi.JobSet{},
		}[meta.Kind]
		if !ok {
			t.Fatalf("an object of kind %q:\n%s", meta.Kind, document)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Errorf("%s %s: %v", meta.Kind, meta.Name, err)
		}
		names = append(names, meta.Kind+" "+meta.Namespace+"/"+meta.Name)
		if set, ok := object.(*jobsetapi.JobSet); ok {
			sets = append(sets, set)
		}
	}
	return names, sets
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			miniClusters := strings.Count("\n"+string(text), "\nkind: MiniCluster\n")
			code, out, stderr := invoke("", "render", file)
			if miniClusters == 0 {
				if code != 1 || !strings.Contains(stderr, "there is no MiniCluster") {
					t.Errorf("exit code %d: %s", code, stderr)
				}
				return
			}
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if _, sets := parse(t, out); len(sets) != miniClusters {
				t.Errorf("%d JobSets", len(sets))
			}
			_, again, _ := invoke(string(text), "render", "-")
			if diff := cmp.Diff(out, again); diff != "" {
				t.Errorf("a second time it is another: %s", diff)
			}
		})
	}
}

const plain = `
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: lmp}
spec:
  containers: [{image: app, command: lmp}]
`

func TestRender(t *testing.T) {
	services := "# a comment\n---\n" + plain + "  size: 3\n  services: [{name: db, image: db}]\n---\nkind: Namespace\n---\n" + strings.ReplaceAll(plain, "{name: lmp}", "{name: two, namespace: own}")
	code, out, stderr := invoke(services, "render", "-", "-n", "there")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	names, sets := parse(t, out)
	for i := range names { // the digest of the scripts
		names[i] = regexp.MustCompile(`[0-9a-f]{32}$`).ReplaceAllString(names[i], "x")
	}
	want := []string{
		"ConfigMap there/flux-elastic-scripts-x", "Secret there/lmp-curve-1-xxxxx", "ConfigMap there/lmp-entrypoint-1-xxxxx", "Service there/lmp", "JobSet there/lmp",
		"ConfigMap own/flux-elastic-scripts-x", "Secret own/two-curve-1-xxxxx", "ConfigMap own/two-entrypoint-1-xxxxx", "Service own/two", "JobSet own/two",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	var jobs []string
	for _, job := range sets[0].Spec.ReplicatedJobs {
		jobs = append(jobs, job.Name+" "+string(*job.Template.Spec.CompletionMode))
	}
	if want := []string{"0 Indexed", "w Indexed", "services " + string(batchv1.NonIndexedCompletion)}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %v", jobs)
	}
	// The objects have the defaults of the schema.
	if !strings.Contains(out, v1alpha2.DefaultImage) && !strings.Contains(out, v1alpha2.DefaultViewImage) {
		t.Error("no default of the schema is in it")
	}
}

func TestErrors(t *testing.T) {
	with := func(line string) string { return plain + "  " + line + "\n" }
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"no command":             {"", nil, 2, "name a verb"},
		"another command":        {"", []string{"draw"}, 2, `unknown verb "draw"; try`},
		"a verb with a typo":     {"", []string{"stauts"}, 2, `unknown verb "stauts", did you mean status; try kubectl minicluster --help`},
		"a verb of Slurm":        {"", []string{"sbatch"}, 2, `did you mean submit`},
		"a verb below":           {"", []string{"experiment", "rum"}, 2, `unknown verb "rum", did you mean run; try`},
		"no verb below":          {"", []string{"experiment"}, 2, "name a verb: compare, report, resume, run, schema, status; try kubectl minicluster experiment --help"},
		"nobody to release":      {"", []string{"release"}, 2, "name a MiniCluster; try kubectl minicluster resume --help"},
		"two to hold":            {"", []string{"hold", "a", "b"}, 2, "name one MiniCluster, and not 2"},
		"an argument too many":   {"", []string{"list", "all"}, 2, `list has no arguments, and not ["all"]`},
		"no command to run":      {"", []string{"exec", "lmp"}, 2, "a command after --; try kubectl minicluster exec --help"},
		"a command before --":    {"", []string{"exec", "lmp", "flux", "resource", "list"}, 2, `"flux" is before --, and the command follows --: exec lammps -- flux`},
		"no -- in submit":        {"", []string{"submit", "-N4", "--image=x", "lmp"}, 2, `"lmp" is before --, and the command follows --: submit -N 4`},
		"flags of the command":   {"", []string{"submit", "-N", "4", "lmp", "-in", "x"}, 2, `"lmp" is before --`},
		"one word before --":     {"", []string{"submit", "lmp", "--", "-in", "x"}, 2, `"lmp" is before --`},
		"tasks are no namespace": {"", []string{"submit", "-n", "ada", "--image=x"}, 2, "-n ada: -n is --ntasks of submit; for a namespace use --namespace=ada; try kubectl minicluster submit --help"},
		"a flag that is a typo":  {"", []string{"submit", "--nods=4", "--", "lmp"}, 2, "unknown flag: --nods; try kubectl minicluster submit --help"},
		"no file":                {"", []string{"render"}, 2, "render needs a file"},
		"no check":               {"", []string{"migrate", "-"}, 2, "add --check"},
		"nothing to check":       {"", []string{"migrate", "--check", "-"}, 2, "there is no MiniCluster"},
		"no YAML to check":       {"{", []string{"migrate", "--check", "-"}, 2, "-, document 1: "},
		"no cluster to check":    {"", []string{"migrate", "--check", "--kubeconfig=nowhere"}, 2, "finding the cluster: "},
		"an unknown option":      {"", []string{"render", "-x"}, 2, "-x"},
		"a file that is none":    {"", []string{"render", "nowhere.yaml"}, 1, "nowhere.yaml: no such file"},
		"nothing":                {"", []string{"render", "-"}, 1, "there is no MiniCluster"},
		"other kinds alone":      {"kind: Namespace", []string{"render", "-"}, 1, "there is no MiniCluster"},
		"no YAML":                {"{", []string{"render", "-"}, 1, "-, document 1: "},
		"no object":              {"- 1", []string{"render", "-"}, 1, "document 1: it is not a Kubernetes object"},
		"the second document":    {plain + "---\n" + with("size: 0"), []string{"render", "-"}, 1, "-, document 2: spec.size: Invalid value: 0"},
		"a field twice":          {with("size: 1\n  size: 2"), []string{"render", "-"}, 1, `key "size" already set`},
		"an unknown field":       {with("sizes: 2"), []string{"render", "-"}, 1, "unknown field spec.sizes"},
		"another type":           {with("size: big"), []string{"render", "-"}, 1, "spec.size"},
		"another version":        {strings.Replace(plain, "v1alpha2", "v1alpha1", 1), []string{"render", "-"}, 1, "and not flux-framework.org/v1alpha1"},
		"a rule":                 {with("size: 4\n  maxSize: 3"), []string{"render", "-"}, 1, "maxSize must be at least size"},
		"no name":                {strings.Replace(plain, "name: lmp", "", 1), []string{"render", "-"}, 1, "metadata.name"},
		"too long with a pod":    {strings.Replace(with("services: [{name: db}]"), "name: lmp", "name: "+strings.Repeat("x", 47), 1), []string{"render", "-"}, 1, "with services it may have 46"},
		"volumes that differ":    {with("services: [{name: a, volumes: {v: {hostPath: /x, path: /p}}}, {name: b, volumes: {v: {hostPath: /y, path: /p}}}]"), []string{"render", "-"}, 1, `volume "v" differs between containers`},
		"a name that is refused": {"", []string{"submit", "--image=x", "--name=Upper", "--dry-run=client"}, 1, "nothing was sent: metadata.name: Invalid value"},
		"a name that is long":    {"", []string{"submit", "--image=x", "--name=" + strings.Repeat("x", 52), "--dry-run=client"}, 1, "nothing was sent: Invalid value: metadata.name is too long"},
		"a size beyond the most": {plain + "  maxSize: 4\n", []string{"submit", "-f", "-", "-N8"}, 1, "nothing was sent: spec: Invalid value: maxSize must be at least size"},
		"both files are named":   {with("size: 0"), []string{"render", "nowhere.yaml", "-"}, 1, "-, document 1: spec.size"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := invoke(tc.stdin, tc.args...)
			if code != tc.code || !strings.Contains(stderr, tc.want) || out != "" {
				t.Errorf("exit code %d, and it says %q and prints %q; want %d, %q", code, stderr, out, tc.code, tc.want)
			}
		})
	}
	for format, want := range map[string]string{"table": "client   " + version.String() + "\n", "yaml": "client: " + version.String() + "\n"} {
		if code, out, _ := invoke("", "version", "--client", "-o", format); code != 0 || out != want {
			t.Errorf("version as %s: %d, %q", format, code, out)
		}
	}
	if code, out, stderr := invoke("", "version", "--kubeconfig=nowhere"); code != 1 || !strings.Contains(out, version.String()) || !strings.Contains(stderr, "finding the cluster") {
		t.Errorf("version without a cluster: %d, %q, %q", code, out, stderr)
	}
	if code, out, _ := invoke("", "--help"); code != 0 || !strings.Contains(out, "kubectl minicluster [command]") {
		t.Errorf("help: exit code %d, %q", code, out)
	}
}

// Each help page has examples, which the program understands, and does not repeat the flags that all verbs have.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[2:]
		lines := strings.Split(cmd.Example, "\n")
		for _, line := range lines {
			line, _, _ = strings.Cut(line, " > ")
			words := strings.Fields(strings.TrimPrefix(line, "  kubectl minicluster "))
			found, rest, err := newRoot(access.New(strings.NewReader(""), io.Discard, io.Discard)).Find(words)
			if err != nil || len(words) == 0 || !strings.HasPrefix(found.CommandPath(), cmd.CommandPath()) {
				t.Errorf("%v: an example is %q: %v", path, line, err)
			} else if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%v: an example is %q: %v", path, line, err)
			}
		}
		code, out, _ := invoke("", append(path, "--help")...)
		if code != 0 || !strings.Contains(out, "Examples:\n"+lines[0]) || strings.Contains(out, "--kubeconfig") || !strings.Contains(out, "--namespace") || !strings.Contains(out, "kubectl minicluster options") {
			t.Errorf("%v --help: exit code %d, %s", path, code, out)
		}
		for _, below := range cmd.Commands() {
			if !below.Hidden {
				check(below)
			}
		}
	}
	check(newRoot(access.New(strings.NewReader(""), io.Discard, io.Discard)))
	if code, out, _ := invoke("", "options"); code != 0 || !strings.Contains(out, "--kubeconfig") || !strings.Contains(out, "--namespace") {
		t.Errorf("options: exit code %d, %s", code, out)
	}
}

// The shell completes words for flags. Under another name the program completes for kubectl.
func TestCompletion(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("{apiVersion: v1, kind: Config, contexts: [{name: here}, {name: there}], clusters: [{name: big}], users: [{name: me}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want []string }{
		{[]string{"wait", "--for", ""}, []string{"admitted", "running", "finished", "deleted"}},
		{[]string{"list", "--output", ""}, []string{"table", "wide", "json", "yaml", "name"}},
		{[]string{"timeline", "-o", ""}, []string{"svg", "html"}},
		{[]string{"submit", "--dry-run", ""}, []string{"none", "client", "server"}},
		{[]string{"top", "--kubeconfig=" + kubeconfig, "--context", ""}, []string{"here", "there"}},
		{[]string{"top", "--kubeconfig=" + kubeconfig, "--cluster", ""}, []string{"big"}},
		{[]string{"experiment", "s"}, []string{"schema\tPrint the JSON schema of experiments, for editors", "status\tCount the runs of an experiment by their state"}},
	} {
		code, out, _ := invoke("", arguments("/usr/bin/"+completer, tc.args)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := lines[:len(lines)-1]; code != 0 || !slices.Equal(got, tc.want) { // the last line is for the shell
			t.Errorf("%q: exit code %d, got %q, want %q", tc.args, code, got, tc.want)
		}
	}
	if got := arguments("/usr/bin/kubectl-minicluster", []string{"list"}); !slices.Equal(got, []string{"list"}) {
		t.Errorf("under its own name: %q", got)
	}
}

// The output of kubectl get -o yaml is a list.
func TestList(t *testing.T) {
	item := "{apiVersion: flux-framework.org/v1alpha2, kind: MiniCluster, metadata: {name: NAME}, spec: {containers: [{image: x}]}}"
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(item, "NAME", "a") + "\n- {apiVersion: v1, kind: Pod}\n- " + strings.ReplaceAll(item, "NAME", "b")
	code, stdout, stderr := invoke(list, "render", "-")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if _, sets := parse(t, stdout); len(sets) != 2 || sets[0].Name != "a" || sets[1].Name != "b" {
		t.Errorf("%d JobSets", len(sets))
	}
}

func TestMigrateFiles(t *testing.T) {
	with := func(lines string) string { return plain + "  " + lines + "\n" }
	running := func(command string) string { return strings.Replace(plain, "command: lmp", "command: "+command, 1) }
	for name, tc := range map[string]struct {
		stdin string
		code  int
		want  string
	}{
		"nothing to do":     {plain, 0, "works as it is"},
		"a field twice":     {with("size: 1\n  size: 2"), 0, "works as it is"},
		"unknown fields":    {with("volumes: {}\n  sizes: 2"), 1, "works with a change remove spec.sizes, which does not exist; remove spec.volumes, which does not exist"},
		"a rule":            {with("size: 4\n  maxSize: 3"), 1, "refused spec: Invalid value: maxSize must be at least size"},
		"objects":           {with("flux: {bursting: {hostlist: other}}"), 1, "refused spec.flux.bursting.hostlist has no lmp-0,"},
		"another version":   {strings.Replace(plain, "v1alpha2", "v1alpha1", 1), 1, "refused the apiVersion of a MiniCluster is"},
		"the old Service":   {with("flux: {environment: {HOST: lmp-0.flux-service}}"), 1, "works with a change set network.headlessName: flux-service, as with"},
		"it has its name":   {with("flux: {environment: {HOST: lmp-0.flux-service}}\n  network: {headlessName: flux-service}"), 0, "works as it is"},
		"hosts by name":     {with("flux: {brokerConfig: 'hosts = [{host=\"lmp-[0-3]\"}]'}"), 0, "works as it is"},
		"a variable":        {running(`echo $HOSTNAME`), 1, "works with a change look at the variables of the command"},
		"two commands":      {running(`"a b\n\nc"`), 1, "works with a change end the lines of the command with a backslash"},
		"one on two lines":  {running(`"a b \\\n c\n"`), 0, "works as it is"},
		"a batch":           {running(`"echo $X\necho", batch: true`), 0, "works as it is"},
		"an escaped batch":  {running(`'echo \$X', batch: true`), 1, "works with a change remove the backslashes"},
		"the hosts of ours": {with("flux: {brokerConfig: 'hosts = [{host=\"lmp-0-0-0,lmp-w-0-[0-2]\"}]'}"), 0, "works as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := invoke(tc.stdin, "migrate", "--check", "-")
			_, table, _ := strings.Cut(stdout, "\n")
			if got := strings.Join(strings.Fields(table), " "); code != tc.code || !strings.HasPrefix(got, "default/lmp in a file "+tc.want) {
				t.Errorf("exit code %d, %q; want %d, %q; %s", code, got, tc.code, tc.want, stderr)
			}
		})
	}
}
