// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// meaning is what a task of a container prints, here and with the Flux Operator. The task runs on
// host "task" with task rank 7. The scripts run on host "lead".
type meaning struct {
	what      string // for docs/migrate.md, where both differ
	container v1alpha2.MiniClusterContainer
	options   string // optionFlags
	ours      string
	theirs    string // "same" for the same
}

const same = "same"

func single(command, ours, theirs string) meaning {
	return meaning{code(command), v1alpha2.MiniClusterContainer{Command: command}, "", ours, theirs}
}

func scripted(script, ours, theirs string) meaning {
	return meaning{"script: " + code(script), v1alpha2.MiniClusterContainer{Commands: v1alpha2.Commands{Script: script}}, "", ours, theirs}
}

func hooked(what, command string, commands v1alpha2.Commands, ours, theirs string) meaning {
	return meaning{what, v1alpha2.MiniClusterContainer{Command: command, Commands: commands}, "", ours, theirs}
}

func batched(line, ours, theirs string) meaning {
	return meaning{"batch: " + code(line), v1alpha2.MiniClusterContainer{Command: line, Batch: true}, "", ours, theirs}
}

// code is text as a cell of a table in Markdown has it.
func code(text string) string {
	if text == "" {
		return "nothing"
	}
	return "`` " + strings.NewReplacer("|", `\|`, "\n", "⏎").Replace(text) + " ``"
}

var meanings = []meaning{
	// A command is shell for every task here. In the Flux Operator it is a string in double quotes,
	// whose words are the arguments of the task.
	single(`echo hello world`, "hello world", same),
	single(`echo \${HOSTNAME}`, "${HOSTNAME}", same),
	single(`echo \"a b\"`, `"a b"`, same),
	single(`echo a\\b`, `a\b`, same),
	single("echo a \\\n b", "a b", same),
	single(`echo x="y"`, "x=y", same),
	single(`echo *.txt`, "a.txt b.txt", same),
	single(`echo ${HOSTNAME}`, "task", "lead"),
	single(`echo $(hostname)`, "task", "lead"),
	single("echo `hostname`", "task", "lead"),
	single(`echo $FLUX_TASK_RANK`, "7", ""),
	single(`echo 'a  b'`, "a  b", "'a b'"),
	single(`echo "a  b"`, "a  b", "no command: interactive"),
	single(`echo a; echo b`, "a\nb", "a; echo b"),
	single(`echo a && echo b`, "a\nb", "a && echo b"),
	single(`echo a | cat`, "a", "a | cat"),
	single("echo a\necho b", "a\nb", "a echo b"),
	single(`echo a\n`, "an", `a\n`),
	single(`echo ~root`, "/root", "~root"),
	single(`echo a # b`, "a", "a # b"),

	// A script is a file that the Flux Operator writes by a here-document without quotes.
	scripted(`echo "rank \${FLUX_TASK_RANK}"`, "rank 7", same),
	scripted("f() { echo \"from \\$1\"; }\nf there", "from there", same),
	scripted("echo \\`hostname\\` \\$(hostname)", "task task", same),
	scripted(`awk 'BEGIN { x = "a"; printf "%s\\n", x }'`, "a", same),
	scripted(`bash -c "echo \\\$FLUX_TASK_RANK"`, "7", same),
	scripted(`echo "a  b" 'c  d' \"e\" x\y`, `a  b c  d "e" xy`, same),
	scripted("echo a \\\n  b", "a b", same),
	scripted(`echo $FLUX_TASK_RANK $(hostname)`, "7 task", "lead"),
	scripted(`f() { echo "from $1"; }; f there`, "from there", "from"),

	// A batch is a file that the Flux Operator writes by `echo "..."`.
	batched(`echo hello world`, "hello world", same),
	batched(`printf %s 'a  b'`, "a  b", same),
	batched(`echo "a  b"`, "a  b", "no command: interactive"),
	batched(`bash -c 'echo $FLUX_TASK_RANK'`, "7", ""),
	batched(`bash -c 'echo \$FLUX_TASK_RANK'`, "$FLUX_TASK_RANK", "7"),
	batched(`echo \"a  b\"`, `"a b"`, "a  b"),

	// Hooks are shell in the shell of the start script, and see earlier ones.
	hooked("", "printenv X", v1alpha2.Commands{Prefix: `env "X=a  b"`}, "a  b", same),
	hooked("", "bash ./file", v1alpha2.Commands{Pre: "echo 'echo $X $Y' >file; export X=1", BrokerPre: "export Y=2"}, "1 2", same),
	hooked("", "pwd", v1alpha2.Commands{BrokerPre: "mkdir -p deep; cd deep"}, "DIR/deep", same),
	hooked("`echo $X`, with `init: X=1`", "echo $X", v1alpha2.Commands{Init: "X=1"}, "", "1"),
	hooked("`echo $X`, with `pre: export X=1`", "echo $X", v1alpha2.Commands{Pre: "export X=1"}, "1", ""),
	hooked("`printenv X`, with `brokerPre: X=1` and `prefix: env X=$X`", "printenv X", v1alpha2.Commands{BrokerPre: "X=1", Prefix: "env X=$X"}, "", "1"),
	hooked("`printenv X`, with `prefix: X=1`", "printenv X", v1alpha2.Commands{Prefix: "X=1"}, "1", ""),
	{"`printenv X`, with `optionFlags: --env=X=\"a b\"`", v1alpha2.MiniClusterContainer{Command: "printenv X"}, `--env=X="a b"`, "a b", ""},
}

// anyFlux runs what it is told to submit or start, and writes its output to a file.
const anyFlux = `#!/bin/bash
kind=$1 env=()
shift
while [[ $1 == -* ]]; do
	case $1 in
	-N | -n | -S | --flags | --config | --config-path) shift ;;
	--env=*) env+=("${1#--env=}") ;;
	esac
	shift
done
case $kind in
resource) echo 1 ;;
start)
	(($# > 0)) || exit
	FAKE_LEAD=$HOSTNAME exec "$@" >>"$FAKE_OUT" ;;
broker) echo "no command: interactive" >>"$FAKE_OUT" ;;
batch) "$@" >/dev/null; echo f1 ;;
submit)
	HOSTNAME=task FLUX_TASK_RANK=7 env "${env[@]}" "$@" >>"$FAKE_OUT"
	echo f1 ;;
esac
exit 0
`

// outcome runs a start script on the lead, and returns what the tasks have printed.
func outcome(t *testing.T, dir, script, host string) string {
	t.Helper()
	work, out := filepath.Join(dir, "work"), filepath.Join(dir, "out")
	for name, text := range map[string]string{
		"work/a.txt": "", "work/b.txt": "", "out": "", "bin/flux": anyFlux, "bin/hostname": "#!/bin/bash\necho \"$HOSTNAME\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", script)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "FLUX_OPERATOR_DIR="+dir, "HOSTNAME="+host, "FAKE_OUT="+out, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	said, _ := cmd.CombinedOutput() // some commands fail
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) == 0 {
		t.Logf("it printed nothing, and said %s", said)
	}
	text := strings.ReplaceAll(string(data), "f1\n", "") // ids of jobs
	return strings.NewReplacer(host, "lead", work, "DIR").Replace(strings.TrimSpace(text))
}

// A command has the documented meaning.
func TestMeaning(t *testing.T) {
	for i, m := range meanings {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			mc := fixture.MiniCluster("lmp").Size(1).Tasks(1).Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Logging.Quiet, s.Flux.Container.MountPath, s.Flux.Container.Disable = true, t.TempDir(), true
				s.Flux.OptionFlags = m.options
				c := &s.Containers[0]
				c.Command, c.Commands, c.Batch, c.Logs = m.container.Command, m.container.Commands, m.container.Batch, t.TempDir()
			}).Defaulted()
			dir := filesOf(t, mc, map[string]string{CertificateFile: "a certificate", QuorumFile: "1", JobFile: "0"})
			if got := outcome(t, dir, filepath.Join(dir, WaitScript), LeadHost("lmp")); got != m.ours {
				t.Errorf("%+v: it prints %q, want %q", m, got, m.ours)
			}
		})
	}
}

// docs/migrate.md has all differences.
func TestMeaningIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range meanings {
		row := "| " + m.what + " | " + code(m.theirs) + " | " + code(m.ours) + " |\n"
		if m.theirs != same && !strings.Contains(string(doc), row) {
			t.Errorf("docs/migrate.md has no row\n%s", row)
		}
	}
}

// The Flux Operator of FLUX_OPERATOR_SRC gives a command the documented meaning.
func TestMeaningInFluxOperator(t *testing.T) {
	source := os.Getenv("FLUX_OPERATOR_SRC")
	if source == "" {
		t.Skip("FLUX_OPERATOR_SRC names no checkout of the Flux Operator")
	}
	templates, err := template.ParseGlob(filepath.Join(source, "pkg/flux/templates/*.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range meanings {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			want := m.theirs
			if want == same {
				want = m.ours
			}
			dir := t.TempDir()
			if got := outcome(t, dir, operatorScript(t, templates, &m, dir), "lmp-0"); got != want {
				t.Errorf("%+v: it prints %q, want %q", m, got, want)
			}
		})
	}
}

// operatorScript renders the Flux Operator's start script, with all of its paths in a directory.
func operatorScript(t *testing.T, templates *template.Template, m *meaning, dir string) string {
	t.Helper()
	type values = map[string]any
	commands := m.container.Commands
	var text bytes.Buffer
	err := templates.ExecuteTemplate(&text, "wait-0.sh", values{
		"ViewBase": dir + "/view", "MainHost": "lmp-0", "RequiredRanks": "", "Batch": strings.Split(m.container.Command, "\n"),
		"Container": values{
			"Command": m.container.Command, "Batch": m.container.Batch, "BatchRaw": false, "Launcher": false, "Logs": dir,
			"Commands": values{
				"Init": commands.Init, "Pre": commands.Pre, "BrokerPre": commands.BrokerPre, "WorkerPre": commands.WorkerPre,
				"Post": commands.Post, "Prefix": commands.Prefix, "Script": commands.Script,
			},
		},
		"Spec": values{
			"Size": 1, "Tasks": 1, "Interactive": false,
			"Logging": values{"Quiet": true, "Strict": false, "Timed": false, "Zeromq": false, "Debug": false},
			"Flux": values{
				"Container": values{"Disable": true}, "OptionFlags": m.options, "SubmitCommand": "", "Wrap": "", "Topology": "",
				"ConnectTimeout": "", "DisableSocket": false, "CompleteWorkers": false, "LogLevel": 0,
			},
			"Archive": values{"Path": ""},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.NewReplacer("/tmp/", dir+"/", "/opt/software", dir+"/software", "/flux_operator/", dir+"/")
	for name, data := range map[string]string{
		"wait-0.sh": paths.Replace(text.String()), CertificateFile: "a certificate", "view/config/etc/flux/system/hostlist": "lmp-0",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "wait-0.sh")
}
