// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// scriptIn returns the command that runs a script of a directory, with additional environment.
func scriptIn(t *testing.T, dir, name string, environment ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(dir, name))
	cmd.WaitDelay = time.Second
	cmd.Env = append(append(os.Environ(), "FLUX_OPERATOR_DIR="+dir, "PATH="+dir+":"+os.Getenv("PATH")), environment...)
	return cmd
}

// combined runs a command, and returns its output and exit code.
func combined(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func filesOf(t *testing.T, mc *v1alpha2.MiniCluster, more map[string]string) string {
	t.Helper()
	files, err := Files(mc, 2)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(files, more)
	return writeFiles(t, files)
}

// batchFlux logs submitted jobs, and answers with their exit codes.
const batchFlux = `#!/bin/bash
case $1 in
submit) printf '<%s>' "${@:4}"; echo ;;
jobs) [[ $* != *returncode* ]] || printf '%s\n' $CODES ;;
esac
`

func TestBatch(t *testing.T) {
	cases := map[string]struct {
		command, codes string
		raw            bool
		want           []string
		code           int
	}{
		"a job for each line": {
			command: "-n 2 a\n\n \t\n# b\nc", codes: "0 0",
			want: []string{"<--error=/out/job-0.err><--output=/out/job-0.out><-n><2><a>", "<--error=/out/job-1.err><--output=/out/job-1.out><c>"},
		},
		"as typed after flux submit": {
			command: `--env=X="a  b" sh -c 'echo $HOME ` + "`x`" + ` && "y"' ü | cat && echo then`, codes: "0",
			want: []string{"<--error=/out/job-0.err><--output=/out/job-0.out><--env=X=a  b><sh><-c><echo $HOME `x` && \"y\"><ü>", "then"},
		},
		"the highest exit code counts":                {command: "a", codes: "0 3 137 -128", code: 137, want: []string{"<--error=/out/job-0.err><--output=/out/job-0.out><a>"}},
		"a line may end itself, not the others":       {command: "a; exit 4\nb", codes: "0 0", code: 4, want: []string{"<--error=/out/job-0.err><--output=/out/job-0.out><a>", "<--error=/out/job-1.err><--output=/out/job-1.out><b>"}},
		"raw lines are a script":                      {raw: true, command: "for i in 1 2\ndo echo $i\ndone", codes: "0", want: []string{"1", "2"}},
		"the exit code of a raw script counts":        {raw: true, command: "exit 5", codes: "3", code: 5},
		"and that of its jobs, where it is a success": {raw: true, command: "true", codes: "3", code: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filesOf(t, fixture.MiniCluster("lmp").Command(tc.command).Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Batch, s.Containers[0].BatchRaw, s.Containers[0].Logs = true, tc.raw, "/out"
			}).Defaulted(), map[string]string{"flux": batchFlux})
			out, code := combined(t, scriptIn(t, dir, "batch-job.sh", "CODES="+tc.codes))
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(append(tc.want, ""), strings.Split(out, "\n")); diff != "" {
				t.Errorf("it ran something else (-want +got):\n%s", diff)
			}
		})
	}
}

// members.sh calls flux only when the annotation changes, and while ranks leave. Each line of
// texts is the content of the annotation's file for a second.
func TestMembers(t *testing.T) {
	cases := map[string]struct {
		texts   string
		answers string // of flux resource status, one per line
		want    string
	}{
		"drained and undrained": {
			texts: "\n9-11\n[3,10-12]\n3\n\n\n",
			want: `resource drain --update 9,10,11 flux-elastic
resource undrain 9
stay 9
resource drain --update 3,12 flux-elastic
resource undrain 10
resource undrain 11
resource undrain 12
stay 10,11,12
resource undrain 3
stay 3
`,
		},
		"told once their work has ended, and when they may stay": {
			texts:   strings.Repeat("0,9-11\n", 9) + "10\n",
			answers: "0,9-11\n11\n11\n\n",
			want: `resource drain --update 0,9,10,11 flux-elastic
resource status -i 0,9-11 -s draining -no {ranks}
resource status -i 0,9-11 -s draining -no {ranks}
leave 9,10
resource status -i 11 -s draining -no {ranks}
resource status -i 11 -s draining -no {ranks}
leave 9,10,11
resource undrain 0
resource undrain 9
resource undrain 11
stay 9,11
`,
		},
		"who comes on such a rank is told, too": {
			texts: strings.Repeat("2\n", 22),
			want: `resource drain --update 2 flux-elastic
resource status -i 2 -s draining -no {ranks}
leave 2
leave 2
leave 2
`,
		},
		"Flux is asked again where it does not answer": {
			texts:   strings.Repeat("1\n", 6) + "\n",
			answers: "fail\n\n",
			want: `resource drain --update 1 flux-elastic
resource status -i 1 -s draining -no {ranks}
resource status -i 1 -s draining -no {ranks}
leave 1
resource undrain 1
stay 1
`,
		},
	}
	common := Scripts()["common.sh"]
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filesOf(t, fixture.MiniCluster("lmp").Size(20).Defaulted(), map[string]string{
				"texts": tc.texts, "answers": tc.answers,
				"common.sh": common + `
fe_pause() {
	[[ -s $fe_here/texts ]] || exit
	head -n 1 "$fe_here/texts" >"$fe_here/drain"
	sed -i 1d "$fe_here/texts"
}
`,
				"flux": `#!/bin/bash
cd "$FLUX_OPERATOR_DIR"
case $* in
exec*"touch leaving"*) echo "leave $5" ;;
exec*"touch ready"*) echo "stay $5" ;;
*) echo "$@" >&2 ;;
esac
case $1$2 in
exec*) exit 68 ;; # some are gone
*status)
	read -r answer <answers
	sed -i 1d answers
	[[ $answer != fail ]] || exit 1
	echo "$answer"
	;;
esac
`,
			})
			out, _ := combined(t, scriptIn(t, dir, "members.sh"))
			if diff := cmp.Diff(tc.want, out); diff != "" {
				t.Errorf("it did something else (-want +got):\n%s", diff)
			}
		})
	}
}

// beside returns a MiniCluster with a container beside Flux, and the same container as a service.
func beside(t *testing.T, c v1alpha2.MiniClusterContainer, change func(*v1alpha2.MiniClusterSpec)) *v1alpha2.MiniCluster {
	t.Helper()
	return fixture.MiniCluster("lmp").Size(3).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		c.Name = "side"
		s.Containers = append(s.Containers, c)
		s.Services = []v1alpha2.MiniClusterContainer{c}
		s.Flux.Container.MountPath = t.TempDir()
		if change != nil {
			change(s)
		}
	}).Defaulted()
}

func TestWrapped(t *testing.T) {
	cases := map[string]struct {
		container v1alpha2.MiniClusterContainer
		want      bool
	}{
		"a command":              {v1alpha2.MiniClusterContainer{Command: "x"}, true},
		"a script":               {v1alpha2.MiniClusterContainer{Commands: v1alpha2.Commands{Script: "x"}}, true},
		"hooks":                  {v1alpha2.MiniClusterContainer{Commands: v1alpha2.Commands{ServicePre: "x"}}, true},
		"nothing":                {v1alpha2.MiniClusterContainer{Command: "\n"}, false},
		"the image's own":        {v1alpha2.MiniClusterContainer{Command: "x", NoWrapEntrypoint: true}, false},
		"the one that runs Flux": {v1alpha2.MiniClusterContainer{Command: "x", RunFlux: true}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Wrapped(&tc.container); got != tc.want {
				t.Errorf("got %t", got)
			}
			if tc.container.RunFlux {
				return
			}
			files, err := Files(beside(t, tc.container, nil), 1)
			if err != nil {
				t.Fatal(err)
			}
			_, sidecar := files[SidecarScript(1)]
			_, service := files[ServiceScript(0)]
			if sidecar != tc.want || service != WrappedService(&tc.container) || (service && name == "hooks") {
				t.Errorf("scripts: %t, %t", sidecar, service)
			}
		})
	}
}

// A container beside Flux runs its pieces of shell in their order, with Flux on the path after the
// Flux container has started. A service runs them without Flux.
func TestStart(t *testing.T) {
	container := v1alpha2.MiniClusterContainer{
		Command: `echo "command $X ${fluxsocket##*/}" 'a  b' "$FLUX_MINICLUSTER_SIZE/$FLUX_MINICLUSTER_ATTEMPT"; type -t a-tool-of-the-view; exit 7`,
		Commands: v1alpha2.Commands{
			Init: "echo init; type -t a-tool-of-the-view", ServicePre: "export X=1; echo pre; type -t a-tool-of-the-view", Post: "echo post; false",
			Pre: "echo not here", Prefix: "not here",
		},
	}
	mc := beside(t, container, nil)
	dir := filesOf(t, mc, nil)
	bin := filepath.Join(mc.Spec.Flux.Container.MountPath, "view/bin")
	socket := filepath.Join(mc.Spec.Flux.Container.MountPath, "config/run/flux/local")
	for _, dir := range []string{bin, filepath.Dir(socket)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "a-tool-of-the-view"), nil, 0o755); err != nil {
		t.Fatal(err)
	}

	out, code := combined(t, scriptIn(t, dir, ServiceScript(0)))
	if diff := cmp.Diff("init\npre\ncommand 1  a  b 3/2\npost\n", out); diff != "" || code != 7 {
		t.Errorf("the service ended with %d (-want +got):\n%s", code, diff)
	}

	listener, err := net.Listen("unix", socket+"-later")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// The Flux container starts while this container waits.
	sleep := fmt.Sprintf("#!/bin/bash\nif [[ -e $0.once ]]; then mv %q %q; else touch \"$0.once\"; echo x >%q; fi\n",
		socket+"-later", socket, filepath.Join(mc.Spec.Flux.Container.MountPath, "flux-view.sh"))
	if err := os.WriteFile(filepath.Join(dir, "sleep"), []byte(sleep), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code = combined(t, scriptIn(t, dir, SidecarScript(1)))
	if diff := cmp.Diff("init\npre\nfile\ncommand 1 local a  b 3/2\nfile\npost\n", out); diff != "" || code != 7 {
		t.Errorf("the sidecar ended with %d (-want +got):\n%s", code, diff)
	}
}

// A command that has succeeded does not run again: its container stays.
func TestStartStrict(t *testing.T) {
	container := v1alpha2.MiniClusterContainer{Command: "echo command", Commands: v1alpha2.Commands{ServicePre: "false"}}
	for strict, want := range map[bool]int{false: 0, true: 1} {
		mc := beside(t, container, func(s *v1alpha2.MiniClusterSpec) { s.Logging.Strict, s.Flux.NoWaitSocket = strict, true })
		dir := filesOf(t, mc, nil)
		if err := os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/bash\necho stays to $1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, code := combined(t, scriptIn(t, dir, SidecarScript(1)))
		if stays := strings.HasSuffix(out, "command\nstays to infinity\n"); code != want || stays == strict {
			t.Errorf("strict %t: exit code %d, %s", strict, code, out)
		}
	}
}

// All processes of the command are asked to end, and post still runs.
func TestStartEnds(t *testing.T) {
	mc := beside(t, v1alpha2.MiniClusterContainer{
		Command:  "bash -c 'trap \"echo asked; exit 3\" TERM; echo up; while true; do sleep 0.1; done'; exit $?",
		Commands: v1alpha2.Commands{Post: "echo post"},
	}, nil)
	cmd := scriptIn(t, filesOf(t, mc, nil), ServiceScript(0))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("up\n"))
	if _, err := stdout.Read(line); err != nil || string(line) != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, 0, 100)
	for {
		chunk := make([]byte, 100)
		n, err := stdout.Read(chunk)
		rest = append(rest, chunk[:n]...)
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	if string(rest) != "asked\npost\n" {
		t.Errorf("got %q", rest)
	}
}

// Flux gets the paths of Fluxion if the view has Fluxion.
func TestScheduler(t *testing.T) {
	cases := map[string]struct {
		module string
		simple bool
		want   string
	}{
		"Fluxion of the view":     {module: "lib/flux/modules/sched-fluxion-qmanager.so", want: "VIEW/lib/flux/modules VIEW/etc/flux:CONFIG/etc/flux VIEW/etc/flux/modprobe"},
		"in another directory":    {module: "lib64/flux/modules/sched-fluxion-qmanager.so", want: "VIEW/lib64/flux/modules VIEW/etc/flux:CONFIG/etc/flux VIEW/etc/flux/modprobe"},
		"a view without it":       {module: "lib/flux/modules/other.so", want: " CONFIG/etc/flux "},
		"sched-simple is ordered": {module: "lib/flux/modules/sched-fluxion-qmanager.so", simple: true, want: " CONFIG/etc/flux 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Command("x").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Scheduler.Simple = tc.simple
				s.Flux.Container.MountPath = t.TempDir()
			}).Defaulted()
			view := filepath.Join(mc.Spec.Flux.Container.MountPath, "view")
			module := filepath.Join(view, tc.module)
			if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(module, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			dir := filesOf(t, mc, map[string]string{
				"curve.cert": "a certificate", JobFile: "0",
				"flux": "#!/bin/bash\n[[ $1 != start ]] || { touch \"${READY_FILE%/*}/began\"; echo \"$FLUX_MODULE_PATH $FLUX_RC_EXTRA $FLUX_MODPROBE_PATH_APPEND$FLUXION_QMANAGER_RC_NOOP\"; }\n",
			})
			out, _ := combined(t, scriptIn(t, dir, WaitScript, "FLUX_OUTPUT_DIR="+t.TempDir(), "READY_FILE="+ReadyFile(mc)))
			config := filepath.Join(mc.Spec.Flux.Container.MountPath, "config")
			if got := strings.NewReplacer(view, "VIEW", config, "CONFIG").Replace(out); got != tc.want+"\n" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Flux binds no tasks to cores if R has the cores of the pod, and each task to GPUs of its own. What a user has for the shell
// stays.
func TestAffinity(t *testing.T) {
	const want = "CONFIG/etc/flux/shell:/mine"
	for _, cpu := range []string{"2", ""} {
		w := fixture.MiniCluster("lmp").Command("x").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Container.MountPath = t.TempDir() })
		if cpu != "" {
			w.CPU(cpu)
		}
		mc := w.Defaulted()
		dir := filesOf(t, mc, map[string]string{
			"curve.cert": "a certificate", JobFile: "0",
			"flux": "#!/bin/bash\n[[ $1 != start ]] || { touch \"${READY_FILE%/*}/began\"; echo \"$FLUX_SHELL_RC_PATH\"; cat \"${FLUX_SHELL_RC_PATH%%:*}/affinity.lua\" 2>/dev/null; }\n",
		})
		out, _ := combined(t, scriptIn(t, dir, WaitScript, "FLUX_OUTPUT_DIR="+t.TempDir(), "READY_FILE="+ReadyFile(mc), "FLUX_SHELL_RC_PATH=/mine"))
		config := filepath.Join(mc.Spec.Flux.Container.MountPath, "config")
		paths, lua, _ := strings.Cut(strings.ReplaceAll(out, config, "CONFIG"), "\n")
		if paths != want || !strings.Contains(lua, `default("gpu-affinity", "per-task")`) || strings.Contains(lua, `default("cpu-affinity", "off")`) != (cpu != "") {
			t.Errorf("CPU %q: got %q, %q, want %q", cpu, paths, lua, want)
		}
	}
}

// Brokers use IPv6 where their interface has no IPv4 address, and only there. A user's own configuration stays as it is.
func TestIPv6(t *testing.T) {
	const (
		header    = "Iface\tDestination\tGateway \tFlags\n"
		route     = "eth0\t0101FEA9\t00000000\t0005\n"
		address   = "fd000000000000000000000000000001 03 40 00 80     eth0\n"
		linkLocal = "fe80000000000000c4697cfffe379b26 03 40 20 80     eth0\n"
		of2       = "fd000000000000000000000000000002 04 40 00 80     eth2\n"
		own       = "[bootstrap]\nenable_ipv6 = false\n"
	)
	for name, tc := range map[string]struct {
		files map[string]string
		own   string
		want  string // in broker.toml
	}{
		"IPv4 alone":                   {files: map[string]string{"if_inet6": "", "route": header + route}, want: ipv6Mark},
		"IPv4, and IPv6 for the link":  {files: map[string]string{"if_inet6": linkLocal, "route": header + route}, want: ipv6Mark},
		"IPv6 alone":                   {files: map[string]string{"if_inet6": address + linkLocal, "route": ""}, want: "\nenable_ipv6 = true\n"},
		"IPv6 alone, no table of IPv4": {files: map[string]string{"if_inet6": linkLocal + address}, want: "\nenable_ipv6 = true\n"},
		"both":                         {files: map[string]string{"if_inet6": address + linkLocal, "route": header + route}, want: ipv6Mark},
		"IPv4 on another interface":    {files: map[string]string{"if_inet6": address, "route": header + "eth1\t0000000A\t00000000\t0001\n"}, want: "\nenable_ipv6 = true\n"},
		"IPv6 on another interface":    {files: map[string]string{"if_inet6": linkLocal + of2, "route": ""}, want: ipv6Mark},
		"no IPv6 in the kernel":        {files: map[string]string{"route": header + route}, want: ipv6Mark},
		"a configuration of the user":  {files: map[string]string{"if_inet6": address, "route": ""}, own: own, want: own},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Command("x").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Container.MountPath, s.Flux.Container.Disable, s.Flux.BrokerConfig = t.TempDir(), true, tc.own
			}).Defaulted()
			if out, code := combined(t, scriptIn(t, filesOf(t, mc, nil), InitScript, "FE_PROC_NET="+writeFiles(t, tc.files))); code != 0 {
				t.Fatal(code, out)
			}
			got, err := os.ReadFile(filepath.Join(mc.Spec.Flux.Container.MountPath, "config/etc/flux/config/broker.toml"))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(got), "enable_ipv6"); !strings.Contains(string(got), tc.want) || n != 1 {
				t.Errorf("%d times enable_ipv6 in\n%s", n, got)
			}
			if err := toml.Unmarshal(got, new(map[string]any)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The init container tells of a domain that the DNS does not have, and nothing where nobody can know, or no name is needed.
func TestLookUp(t *testing.T) {
	const told = "kubernetes.default.svc.k8s.example.org does not resolve\n"
	for name, tc := range map[string]struct {
		getent string
		size   int32
		want   string
	}{
		"it resolves":           {getent: "[[ $* == 'ahosts kubernetes.default.svc.k8s.example.org.' ]] || exit 2", size: 2},
		"it does not":           {getent: "exit 2", size: 2, want: told},
		"nobody answers":        {getent: "exit 124", size: 2, want: told}, // which is the code of timeout, too
		"the image lacks it":    {getent: "exit 127", size: 2},
		"a lead needs no names": {getent: "exit 2", size: 1},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(tc.size).Command("x").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Container.MountPath, s.Flux.Container.Disable, s.Network.ClusterDomain = t.TempDir(), true, "k8s.example.org"
			}).Defaulted()
			dir := filesOf(t, mc, map[string]string{"getent": "#!/bin/bash\n" + tc.getent + "\n", "told": ""})
			if out, code := combined(t, scriptIn(t, dir, InitScript, "FE_TERMINATION_LOG="+filepath.Join(dir, "told"))); code != 0 {
				t.Fatal(code, out)
			}
			got, err := os.ReadFile(filepath.Join(dir, "told"))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("it tells %q, want %q", got, tc.want)
			}
		})
	}
}

// Any text of users is refused, or gives files that can be parsed.
func FuzzFiles(f *testing.F) {
	f.Add("lmp-0-0-0,x[1-3]", "burst", int32(3), "10.0.0.1", "eth0", "fcfs", "echo")
	f.Add("", "", int32(0), "::1", "\x7f\"", "\\", "'\n")
	f.Add("a[0-", "lmp", int32(-1), "a:b", "\xff", "\u2028", "\x00")
	f.Fuzz(func(t *testing.T, list, name string, size int32, address, device, policy, text string) {
		mc := fixture.MiniCluster("lmp").CPU("2").Command(text).Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Flux.Bursting.Hostlist = list
			s.Flux.Bursting.Clusters = []v1alpha2.BurstedCluster{{Name: name, Size: size}, {}}
			if address != "" {
				s.Flux.Bursting.LeadBroker = &v1alpha2.FluxBroker{Address: address, Name: name + "x", Size: size, Port: size}
			}
			s.Network.Interface, s.Network.ClusterDomain = device, policy
			s.Flux.Scheduler.QueuePolicy, s.Flux.Container.MountPath = policy, "/"+policy
			s.Containers[0].RunFlux = true
			s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: name, Command: text, Commands: v1alpha2.Commands{Init: text}})
		}).Defaulted()
		files, err := Files(mc, 1)
		if err != nil {
			return
		}
		if err := toml.Unmarshal([]byte(files["broker.toml"]), new(map[string]any)); err != nil {
			t.Errorf("%v in\n%s", err, files["broker.toml"])
		}
		if !json.Valid([]byte(files["R"])) {
			t.Errorf("R is no JSON: %s", files["R"])
		}
		if got := ParseSettings(files)["VIEW_BASE"]; got != "/"+policy {
			t.Errorf("%q is read back as %q", "/"+policy, got)
		}
	})
}

// Scripts leaves out the lines of a script that are empty or look like comments: no text in a script has lines like comments.
// Bash prints a script without its comments, and with such lines of texts.
func TestScriptsWithoutComments(t *testing.T) {
	names, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	parsed := func(path string) string {
		t.Helper()
		out, code := combined(t, exec.CommandContext(t.Context(), "bash", "--pretty-print", path))
		if code != 0 {
			t.Fatal(out)
		}
		return regexp.MustCompile("(?m)^[ \t]*\n").ReplaceAllString(out, "")
	}
	for _, name := range names {
		text, exists := Scripts()[filepath.Base(name)]
		if !exists {
			t.Fatalf("%s is not among the scripts", name)
		}
		without := filepath.Join(writeFiles(t, map[string]string{"script": text}), "script")
		if d := cmp.Diff(parsed(name), parsed(without)); d != "" {
			t.Errorf("%s is another script without its comments (-with +without):\n%s", name, d)
		}
	}
}
