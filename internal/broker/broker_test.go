// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"crypto/ecdh"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

func TestHosts(t *testing.T) {
	lead := &v1alpha2.FluxBroker{Address: "1.2.3.4", Name: "big", Size: 3}
	clusters := []v1alpha2.BurstedCluster{{}, {Name: "lmp", Size: 4}}
	cases := map[string]struct {
		mc       *fixture.MiniClusterWrapper
		bursting v1alpha2.Bursting
		want     string
		problem  string
	}{
		"one broker is the lead":                 {mc: fixture.MiniCluster("lmp"), want: "lmp-0"},
		"followers come after it":                {mc: fixture.MiniCluster("lmp").Size(4), want: "lmp-0,lmp-[1-3]"},
		"one follower":                           {mc: fixture.MiniCluster("lmp").Size(2), want: "lmp-0,lmp-1"},
		"all that there can ever be are listed":  {mc: fixture.MiniCluster("lmp").Size(2).MaxSize(12).Launcher(), want: "lmp-0,lmp-[1-11]"},
		"a command that cannot grow has no more": {mc: fixture.MiniCluster("lmp").Size(2).MaxSize(12), want: "lmp-0,lmp-1"},
		"with others it has all that they know": {
			mc: fixture.MiniCluster("lmp").Size(2).MaxSize(3), bursting: v1alpha2.Bursting{Clusters: []v1alpha2.BurstedCluster{{Name: "far", Size: 1}}},
			want: "lmp-0,lmp-[1-2],far-0",
		},
		"those that join come after": {
			mc: fixture.MiniCluster("lmp").Size(3), bursting: v1alpha2.Bursting{Clusters: []v1alpha2.BurstedCluster{{}, {Name: "far", Size: 1}}},
			want: "lmp-0,lmp-[1-2],burst-0-0,burst-0-[1-2],far-0",
		},
		"one that joins comes after the first": {
			mc: fixture.MiniCluster("lmp").Size(2), bursting: v1alpha2.Bursting{LeadBroker: lead}, want: "big-0,big-[1-2],lmp-0,lmp-1",
		},
		"or where it is named": {
			mc: fixture.MiniCluster("lmp").Size(4), bursting: v1alpha2.Bursting{LeadBroker: lead, Clusters: clusters},
			want: "big-0,big-[1-2],burst-0-0,burst-0-[1-3],lmp-0,lmp-[1-3]",
		},
		"a list of the user stays as it is": {
			mc: fixture.MiniCluster("lmp").Size(2), bursting: v1alpha2.Bursting{Hostlist: "lmp-0-0-0,lmp-w-0-[0],x[8,9]"}, want: "lmp-0-0-0,lmp-w-0-[0],x[8,9]",
		},
		"a list of the Flux Operator does, too": {
			mc: fixture.MiniCluster("lmp").Size(2), bursting: v1alpha2.Bursting{Hostlist: "lmp-[0-1],x[8,9]"}, want: "lmp-[0-1],x[8,9]",
		},
		"a lead broker without an address is none": {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{LeadBroker: &v1alpha2.FluxBroker{}}, want: "lmp-0"},

		"no list":                    {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Hostlist: "a[0"}, problem: "host list"},
		"a list that asks for a lot": {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Hostlist: "a[0-999999999]"}, problem: "more than"},
		"a list without us":          {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{LeadBroker: lead, Hostlist: "a"}, problem: "has no lmp-0"},
		"a list that begins with others": {
			mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Hostlist: "a,lmp-0-0-0"}, problem: "has to begin with the hosts of this MiniCluster",
		},
		"a list with a host twice, in other words": {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Hostlist: "lmp-0-0-0,a[1-20],a1[3]"}, problem: "has a13 twice"},
		"a list with a host twice":                 {mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Hostlist: "lmp-0-0-0,a,a"}, problem: "has a twice"},
		"a name twice": {
			mc: fixture.MiniCluster("lmp"), bursting: v1alpha2.Bursting{Clusters: []v1alpha2.BurstedCluster{{Name: "a"}, {Name: "a"}}}, problem: "two MiniClusters",
		},
		"fewer of us than there can be": {
			mc: fixture.MiniCluster("lmp").Size(5), bursting: v1alpha2.Bursting{LeadBroker: lead, Clusters: clusters}, problem: "4 brokers, but maxSize is 5",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := tc.mc.Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Bursting = tc.bursting }).Defaulted()
			files, err := Files(mc, 1)
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Fatalf("got %v, want %s", err, tc.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := files["hostlist"]; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			listed, err := hostlist.Decode(tc.want, 100)
			if err != nil {
				t.Fatal(err)
			}
			var inTOML []string
			for _, entry := range readTOML(t, mc).Bootstrap.Hosts {
				hosts, err := hostlist.Decode(entry.Host, 100)
				if err != nil {
					t.Fatal(err)
				}
				inTOML = append(inTOML, hosts...)
			}
			if diff := cmp.Diff(listed, inTOML); diff != "" {
				t.Errorf("the TOML has others (-list +TOML):\n%s", diff)
			}
		})
	}
}

// config is the part of the broker's TOML that the tests check.
type config struct {
	Access    struct{ AllowGuestUser, AllowRootOwner bool }
	Resource  struct{ Path string }
	Bootstrap struct {
		CurveCert      string `toml:"curve_cert"`
		DefaultPort    int    `toml:"default_port"`
		DefaultBind    string `toml:"default_bind"`
		DefaultConnect string `toml:"default_connect"`
		Hosts          []host
	}
	Modules  struct{ Alternatives map[string]string }
	Qmanager struct {
		Policy string `toml:"queue-policy"`
	} `toml:"sched-fluxion-qmanager"`
}

type host struct{ Host, Connect string }

// file returns a file of a MiniCluster.
func file(t *testing.T, mc *v1alpha2.MiniCluster, name string) string {
	t.Helper()
	files, err := Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	return files[name]
}

func readTOML(t *testing.T, mc *v1alpha2.MiniCluster) config {
	t.Helper()
	text := file(t, mc, "broker.toml")
	var got config
	if err := toml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return got
}

func TestTOML(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(3).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Flux.Container.MountPath = `/mnt/"flux"`
		s.Flux.Scheduler.QueuePolicy = "hybrid"
		s.Network = v1alpha2.Network{HeadlessName: "net", Port: 9000, Interface: "net1", ClusterDomain: "k8s.example.org"}
	}).Defaulted()
	want := config{}
	want.Resource.Path = `/mnt/"flux"/config/etc/flux/system/R`
	want.Bootstrap.CurveCert = `/mnt/"flux"/config/curve/curve.cert`
	want.Bootstrap.DefaultPort = 9000
	want.Bootstrap.DefaultBind = "tcp://net1:%p"
	want.Bootstrap.DefaultConnect = "tcp://%h.net.default.svc.k8s.example.org:%p"
	want.Bootstrap.Hosts = []host{{Host: "lmp-0"}, {Host: "lmp-[1-2]"}}
	want.Qmanager.Policy = "hybrid"
	if diff := cmp.Diff(want, readTOML(t, mc)); diff != "" {
		t.Errorf("the configuration is another (-want +got):\n%s", diff)
	}
}

// The broker calls its host as the user's own configuration does.
func TestNamesPods(t *testing.T) {
	for name, tc := range map[string]struct {
		name, own string
		want      bool
	}{
		"no configuration":         {"lmp", "", false},
		"ranks":                    {"lmp", "hosts = [{host = \"lmp-[0-3]\"}]", false},
		"pods":                     {"lmp", "hosts = [\n  {host=\"lmp-0-0-0\"}, {host='lmp-w-0-[0-2]'}]", true},
		"pods in one list":         {"lmp", "hosts = [{bind = \"tcp://eth0:1\", host = 'lmp-0-0-0,lmp-w-0-[0-2]'}]", true},
		"an address of the lead":   {"lmp", "hosts = [{host = \"lmp-0\", connect = \"tcp://lmp-0-0-0.lmp.default.svc.cluster.local:8050\"}]", false},
		"a comment":                {"lmp", "# host = \"lmp-0-0-0\"\n", false},
		"pods of others":           {"lmp", "hosts = [{host = \"a-lmp-0-0-0\"}]", false},
		"like the lead of another": {"lmp-0-0", "", true},
		"like its follower":        {"lmp-w-0", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster(tc.name).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.BrokerConfig = tc.own }).Defaulted()
			if got := namesPods(mc); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestTOMLOfOneThatJoins(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.1": "tcp://10.0.0.1:8050", "fd00::1": "tcp://[fd00::1]:8050", "big.example.org": "tcp://big.example.org:8050"} {
		mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Flux.Bursting.LeadBroker = &v1alpha2.FluxBroker{Address: address, Name: "big", Size: 1}
		}).Defaulted()
		if diff := cmp.Diff([]host{{"big-0", want}, {Host: "lmp-0"}}, readTOML(t, mc).Bootstrap.Hosts); diff != "" {
			t.Errorf("the hosts are others (-want +got):\n%s", diff)
		}
		files, err := Files(mc, 1)
		if err != nil {
			t.Fatal(err)
		}
		// No broker of this MiniCluster is the lead.
		if got := ParseSettings(files); got["LEAD_JOB"] != "none" || got["TOPOLOGY"] != "kary:0" {
			t.Errorf("lead %q, topology %q", got["LEAD_JOB"], got["TOPOLOGY"])
		}
	}
}

func TestTOMLOfTheSimpleScheduler(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Scheduler.Simple = true }).Defaulted()
	if got := readTOML(t, mc); got.Modules.Alternatives["sched"] != "sched-simple" || got.Modules.Alternatives["feasibility"] != "sched-simple" {
		t.Errorf("got %+v", got)
	}
}

func TestTOMLOfTheUser(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.BrokerConfig = "[mine]\na = '$x'\n" }).Defaulted()
	if got := file(t, mc, "broker.toml"); got != "[mine]\na = '$x'\n" {
		t.Errorf("got %q", got)
	}
}

func TestR(t *testing.T) {
	cases := map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string
	}{
		"cores of the limit": {
			fixture.MiniCluster("lmp").Size(4).CPU("8").Defaulted(),
			`{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-7"}}],"nodelist":["lmp-0","lmp-[1-3]"],"starttime":0,"expiration":0}}`,
		},
		"GPUs of all kinds, but not their memory": {
			fixture.MiniCluster("lmp").CPU("4").Limit("nvidia.com/gpu", "2").Limit("gpu.intel.com/i915", "1").Limit("gpu.intel.com/memory.max", "8").Defaulted(),
			`{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-3","gpu":"0-2"}}],"nodelist":["lmp-0"],"starttime":0,"expiration":0}}`,
		},
		"part of a core is one core, parts of several are rounded down": {
			fixture.MiniCluster("lmp").CPU("500m").Defaulted(),
			`{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["lmp-0"],"starttime":0,"expiration":0}}`,
		},
		"brokers of others count": {
			fixture.MiniCluster("lmp").CPU("2").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Bursting.Clusters = []v1alpha2.BurstedCluster{{Size: 3}}
			}).Defaulted(),
			`{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-1"}}],"nodelist":["lmp-0","burst-0-0","burst-0-[1-2]"],"starttime":0,"expiration":0}}`,
		},
		"unknown where brokers are to look": {
			fixture.MiniCluster("lmp").CPU("2").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Resources = v1alpha2.ResourcesLocal }).Defaulted(), "",
		},
		"unknown without a limit or a request": {fixture.MiniCluster("lmp").Defaulted(), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := file(t, tc.mc, "R")
			if tc.want != "" && !json.Valid([]byte(tc.want)) {
				t.Fatal("the expectation is no JSON")
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestRanksThatHaveTheSame(t *testing.T) {
	got := rLites([]ranks{{2, 8, 0}, {1, 4, 2}, {3, 8, 0}, {1, 8, 0}, {1, 1, 1}})
	want := []rLite{
		{"0-1,3-6", map[string]string{"core": "0-7"}},
		{"2", map[string]string{"core": "0-3", "gpu": "0-1"}},
		{"7", map[string]string{"core": "0", "gpu": "0"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the entries are others (-want +got):\n%s", diff)
	}
}

func TestCertificate(t *testing.T) {
	text, err := Certificate("lmp", bytes.NewReader(bytes.Repeat([]byte{7}, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`(?m)^    (public|secret)-key = "(.{40})"$`).FindAllStringSubmatch(text, -1)
	if len(keys) != 2 || !strings.Contains(text, "\nmetadata\n    name = \"lmp\"\ncurve\n") {
		t.Fatalf("it is no certificate:\n%s", text)
	}
	secret, err := ecdh.X25519().NewPrivateKey(fromZ85(t, keys[1][2]))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(secret.PublicKey().Bytes(), fromZ85(t, keys[0][2])) {
		t.Error("the public key is not that of the secret key")
	}
}

// The example of ZeroMQ RFC 32.
func TestZ85(t *testing.T) {
	if got := z85([]byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}); got != "HelloWorld" {
		t.Errorf("got %q, want HelloWorld", got)
	}
}

func fromZ85(t *testing.T, text string) []byte {
	t.Helper()
	var out []byte
	for ; text != ""; text = text[5:] {
		value := uint32(0)
		for i := range 5 {
			value = value*85 + uint32(strings.IndexByte(z85Digits, text[i]))
		}
		out = append(out, byte(value>>24), byte(value>>16), byte(value>>8), byte(value))
	}
	return out
}

// nasty is text that a shell would interpret unless it is quoted.
const nasty = `it's "quoted" $HOME $(id) ` + "`id`" + ` \ && | ; # ünïcode 日本
and a second line	with a tab'`

func TestSettingsArriveUnchanged(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(4).MinSize(2).Tasks(0).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Flux.OptionFlags = nasty
		s.Flux.Wrap = "'"
		s.Flux.SubmitCommand = ""
		s.Elastic.QuorumTimeout = &metav1.Duration{Duration: 90 * time.Second}
	}).Defaulted()
	files, err := Files(mc, 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"OPTION_FLAGS": nasty, "WRAP": "'", "SUBMIT": "flux submit", "SIZE": "4", "MIN_SIZE": "2", "TASKS_AT_SIZE": "0",
		"QUORUM_TIMEOUT": "90", "CONNECT_TIMEOUT": "", "LEAD_JOB": "0", "NAME": "lmp", "NAMES_PODS": "false", "MODE": "submit",
	} {
		if got := ParseSettings(files)[name]; got != want {
			t.Errorf("%s is read back as %q, want %q", name, got, want)
		}
		if got := bash(t, files, `printf %s "$`+settingPrefix+name+`"`); got != want {
			t.Errorf("%s is %q in the shell, want %q", name, got, want)
		}
	}
	attempt := "FLUX_MINICLUSTER_ATTEMPT"
	if read, shell := ParseSettings(files)[attempt], bash(t, files, `printf %s "$`+attempt+`"`); read != "3" || shell != "3" {
		t.Errorf("the attempt is read back as %q, and is %q in the shell", read, shell)
	}
}

// bash runs a script after the settings, in a directory with the files, and returns its output.
func bash(t *testing.T, files map[string]string, script string) string {
	t.Helper()
	dir := writeFiles(t, files)
	cmd := exec.Command("bash", "-s")
	cmd.Stdin = strings.NewReader(`. "$FLUX_OPERATOR_DIR/settings.sh"` + "\n" + script)
	cmd.Env = append(os.Environ(), "FLUX_OPERATOR_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// writeFiles writes files, and the scripts that are not among them, into a directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	all, dir := Scripts(), t.TempDir()
	maps.Copy(all, files)
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func FuzzSettings(f *testing.F) {
	f.Add("x", "y")
	f.Add("'", "a'b\n'='c")
	f.Fuzz(func(t *testing.T, a, b string) {
		files := map[string]string{"settings.sh": assignments("", map[string]string{"A": a, "B": b})}
		got := ParseSettings(files)
		if got["A"] != a || got["B"] != b {
			t.Errorf("%q and %q are read back as %q", a, b, got)
		}
	})
}

func TestModes(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha2.MiniClusterSpec)
		want   string
	}{
		"a command is submitted":            {func(*v1alpha2.MiniClusterSpec) {}, "submit"},
		"a launcher is run":                 {func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Launcher = true }, "launcher"},
		"without a command Flux stays up":   {func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Command = " \n" }, "interactive"},
		"a batch is one":                    {func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Batch = true }, "batch"},
		"so it does when it is interactive": {func(s *v1alpha2.MiniClusterSpec) { s.Interactive = true }, "interactive"},
		"a script is a command": {func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Command, s.Containers[0].Commands.Script = "", "echo 1\necho 2"
		}, "submit"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files, err := Files(fixture.MiniCluster("lmp").Spec(tc.change).Defaulted(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := ParseSettings(files)["MODE"]; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// The shell and Go compute the same sizes and tasks.
func TestSizesInShellAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var script, want strings.Builder
	script.WriteString(`. "$FLUX_OPERATOR_DIR/sizes.sh"` + "\n")
	for range 1500 {
		s := elastic.Sizing{
			Min: 1 + random.IntN(9), Operator: []elastic.Operator{elastic.Add, elastic.Multiply, elastic.Power}[random.IntN(3)],
			Operand: 1 + random.IntN(4),
			Tasks: elastic.Tasks{
				AtSize: random.IntN(600), Fixed: random.IntN(5) == 0, MultipleOf: 1 + random.IntN(12),
				Constraint: []elastic.Constraint{elastic.AnyNumber, elastic.PowerOfTwo, elastic.Cube, elastic.MultipleOf}[random.IntN(4)],
			},
		}
		s.Size = s.Min + random.IntN(60)
		s.SlotsPerNode = random.IntN(3) * random.IntN(30)
		if random.IntN(10) == 0 { // the largest sizes that the API allows
			s.Size, s.Operand, s.Tasks.AtSize = 100_000, 2+random.IntN(50_000), random.IntN(100_000_001)
		}
		limit := random.IntN(s.Size + 5)
		scaling := v1alpha2.TasksPerNode
		if s.Tasks.Fixed {
			scaling = v1alpha2.TasksFixed
		}
		fmt.Fprintf(&script, "FE_SIZE=%d FE_MIN_SIZE=%d FE_OPERATOR='%s' FE_OPERAND=%d FE_TASKS_AT_SIZE=%d FE_SCALING=%s FE_CONSTRAINT=%s FE_MULTIPLE_OF=%d FE_SLOTS_PER_NODE=%d\n",
			s.Size, s.Min, s.Operator, s.Operand, s.Tasks.AtSize, scaling, s.Tasks.Constraint, s.Tasks.MultipleOf, s.SlotsPerNode)
		fmt.Fprintf(&script, "set_largest %d; set_tasks %d; echo $fe_nodes $fe_tasks\n", limit, limit)
		fmt.Fprintln(&want, s.LargestWithin(limit), s.TasksAt(limit))
	}
	files, err := Files(fixture.MiniCluster("lmp").Defaulted(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), bash(t, files, script.String())); diff != "" {
		t.Errorf("the shell computes otherwise (-Go +shell):\n%s", diff)
	}
}

// fakeFlux answers the requests of lead.sh, and runs a submitted command once.
const fakeFlux = `#!/bin/bash
case $1 in
resource) echo "$ONLINE" ;;
overlay) printf '%s\n' "$OVERLAY" ;;
job) exit "$(<"$FLUX_OPERATOR_DIR/code")" ;;
*)
	printf '<%s>' "$@" >&2; echo >&2
	code=0; bash "${@: -1}" >&2 || code=$?
	[[ $1 == submit && $* != *--watch* ]] || exit "$code"
	echo "$code" >"$FLUX_OPERATOR_DIR/code"; echo f1
	;;
esac
`

func TestLead(t *testing.T) {
	cases := map[string]struct {
		change         func(*v1alpha2.MiniClusterSpec)
		quorum, online string
		want           string // FILES stands for the directory of the files
		code           int
	}{
		"the command is submitted with all brokers and tasks, and arrives unchanged": {
			quorum: "4", online: "4",
			change: func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Command = `echo "a  b" 'c$x' $FLUX_MINICLUSTER_NODES/$FLUX_MINICLUSTER_SIZE $FLUX_MINICLUSTER_TASKS | cat && exit 7 # ü`
			},
			want: "<submit><-N><4><-n><32></bin/bash><FILES/task.sh><FILES/command.sh>\na  b c$x 4/4 32\n", code: 7,
		},
		"with those that the quorum asks for, though more are up": {
			quorum: "3", online: "4",
			want: "<submit><-N><3><-n><24></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"after its own timeout with an allowed size": {
			quorum: "4", online: "3",
			change: func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2} },
			want:   "<submit><-N><2><-n><16></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"tasks: 0 leaves their number to Flux": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) { s.Tasks = new(int32) },
			want: "<submit><-N><4></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"fewer tasks than brokers are not tied to brokers": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) { s.Tasks = new(int32(2)) },
			want: "<submit><-n><2></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"options, prefix and submission are shell": {
			quorum: "4", online: "4",
			change: func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Commands.Prefix = `env PREFIX="p q"`
				s.Containers[0].Command = `echo "$PREFIX"`
				s.Flux.SubmitCommand, s.Flux.OptionFlags = "flux run", `-o "mpi=a b" --env=X='$y'`
				s.Logging.Debug = true
			},
			want: "<run><-N><4><-n><32><-vvv><-o><mpi=a b><--env=X=$y><--quiet></bin/bash><FILES/task.sh><FILES/command.sh>\np q\n",
		},
		"a submission of several jobs is watched by Flux": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) { s.Flux.OptionFlags = "--cc=0-3" },
			want: "<submit><-N><4><-n><32><--cc=0-3><--quiet><--watch></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"as is one that prints no id": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) { s.Flux.SubmitCommand = "flux submit --quiet" },
			want: "<submit><--quiet><-N><4><-n><32><--quiet><--watch></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"and one of several commands": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) { s.Flux.SubmitCommand = "flux submit /dev/null; flux submit -q x" },
			want: "<submit></dev/null>\nf1\n<submit><-q><x><-N><4><-n><32><--quiet><--watch></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"not one to a queue": {
			quorum: "4", online: "4", change: func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.SubmitCommand, s.Flux.OptionFlags, s.Logging.LabelIO = "flux submit --queue=x", "--cwd=/", true
			},
			want: "<submit><--queue=x><-N><4><-n><32><--label-io><--cwd=/></bin/bash><FILES/task.sh><FILES/command.sh>\nran\n",
		},
		"a launcher runs once, itself": {
			quorum: "2", online: "2",
			change: func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Launcher, s.Containers[0].Command = true, "echo on $FLUX_MINICLUSTER_NODES; exit 5"
			},
			want: "on 2\n", code: 5,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(4).MinSize(2).Tasks(32).Command("echo ran").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Logging.Quiet, s.Flux.Container.MountPath = true, t.TempDir()
				s.Elastic.QuorumTimeout = &metav1.Duration{Duration: time.Millisecond}
				if tc.change != nil {
					tc.change(s)
				}
			}).Defaulted()
			dir := leadFiles(t, mc, map[string]string{"quorum": tc.quorum})
			out, code := runLead(dir, "ONLINE="+tc.online)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "FILES", dir), string(out)); diff != "" {
				t.Errorf("it ran something else (-want +got):\n%s", diff)
			}
		})
	}
}

// leadFiles makes the files of a lead, with a Flux that answers as the environment says.
func leadFiles(t *testing.T, mc *v1alpha2.MiniCluster, more map[string]string) string {
	t.Helper()
	files, err := Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(ReadyFile(mc)), 0o755); err != nil {
		t.Fatal(err)
	}
	maps.Copy(files, more)
	files["flux"], files["told"] = fakeFlux, ""
	return writeFiles(t, files)
}

func runLead(dir string, environment ...string) (out []byte, code int) {
	cmd := exec.Command("bash", filepath.Join(dir, "lead.sh"))
	cmd.Env = append(os.Environ(), "FLUX_OPERATOR_DIR="+dir, "FE_TERMINATION_LOG="+filepath.Join(dir, "told"), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, environment...)
	out, _ = cmd.CombinedOutput() // the exit code reports the error
	return out, cmd.ProcessState.ExitCode()
}

// A lead writes down that its command began, and of one that failed the ranks that it had lost.
func TestLeadTellsOfItsEnd(t *testing.T) {
	const began = "the command began\n"
	cases := map[string]struct {
		overlay string
		code    int
		want    string
	}{
		"none, one has not come":  {"0 a: partial\n1 b: full\n2 c: offline", 1, began},
		"some":                    {"0 a: degraded\n1 b: lost lost connection\n2 c: full\n10 d: lost", 1, "lost ranks 1,10\n"},
		"a command that did well": {"0 a: degraded\n1 b: lost", 0, began},
		"Flux does not answer":    {"", 1, began},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(4).Command(fmt.Sprint("exit ", tc.code)).Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Container.MountPath = t.TempDir()
				s.Elastic.QuorumTimeout = &metav1.Duration{Duration: time.Millisecond} // one broker never joins
			}).Defaulted()
			dir := leadFiles(t, mc, map[string]string{"quorum": "4"})
			out, code := runLead(dir, "ONLINE=4", "OVERLAY="+tc.overlay)
			if code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", code, tc.code, out)
			}
			told, err := os.ReadFile(filepath.Join(dir, "told"))
			if err != nil || string(told) != tc.want {
				t.Errorf("it told %q (%v), want %q", told, err, tc.want)
			}
		})
	}
}

// The user's pieces of shell run in their order, and see the variables that earlier ones
// exported. A piece that fails ends the pod only with strict. The exit code is the broker's.
func TestWait(t *testing.T) {
	const broker = "broker of A B C\n"
	cases := map[string]struct {
		commands v1alpha2.Commands
		strict   bool
		want     string
		code     int
	}{
		"in order": {
			commands: v1alpha2.Commands{
				Init: "export X=A; echo init", Pre: `export X="$X B"; echo pre`, BrokerPre: `export X="$X C"; echo lead`,
				WorkerPre: "echo follower", Post: "echo post",
			},
			want: "init\npre\nlead\n" + broker + "post\n", code: 4,
		},
		"a failure before the broker": {
			commands: v1alpha2.Commands{BrokerPre: "false; export X='A B C'; false"}, want: broker, code: 4,
		},
		"a failure before the broker, strict": {
			commands: v1alpha2.Commands{BrokerPre: "false; echo not here"}, strict: true, code: 1,
		},
		"a failure after the broker":         {commands: v1alpha2.Commands{Pre: "export X='A B C'", Post: "false"}, want: broker, code: 4},
		"a failure after the broker, strict": {commands: v1alpha2.Commands{Pre: "export X='A B C'", Post: "exec 2>/dev/null; echo $UNSET"}, strict: true, want: broker, code: 4},
		"an exit after the broker":           {commands: v1alpha2.Commands{Pre: "export X='A B C'", Post: "exit 3"}, want: broker, code: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files, err := Files(fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Commands, s.Logging.Strict = tc.commands, tc.strict
				s.Flux.Container.MountPath = t.TempDir()
				s.Flux.Container.Disable = true
			}).Defaulted(), 1)
			if err != nil {
				t.Fatal(err)
			}
			files["curve.cert"], files[JobFile] = "a certificate", "0"
			files["flux"] = "#!/bin/bash\n" + `[[ $1 != start ]] || { echo "broker of $X"; exit 4; }` + "\n"
			dir := writeFiles(t, files)
			cmd := exec.Command("bash", filepath.Join(dir, WaitScript))
			cmd.Env = append(os.Environ(), "FLUX_OPERATOR_DIR="+dir, "PATH="+dir+":"+os.Getenv("PATH"),
				"FLUX_OUTPUT_DIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
			if diff := cmp.Diff(tc.want, string(out)); diff != "" {
				t.Errorf("it ran something else (-want +got):\n%s", diff)
			}
		})
	}
}

// The files have no secret, and no file that the scripts do not expect. No file hides a script.
func TestFiles(t *testing.T) {
	mc := fixture.MiniCluster("lmp").CPU("8").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].Commands = v1alpha2.Commands{Init: "a", Pre: "b", BrokerPre: "c", WorkerPre: "d", Post: "e"}
		s.Flux.CurveCert = "the secret"
		s.Flux.Environment = map[string]string{"X": "it's"}
	}).Defaulted()
	files, err := Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	for names, got := range map[string]map[string]string{
		"R broker.toml command.sh hook-broker-pre.sh hook-init.sh hook-post.sh hook-pre.sh hook-worker-pre.sh hostlist settings.sh view-environment.sh": files,
		"again.sh batch-job.sh common.sh flux-init.sh joined.sh lead.sh members.sh sizes.sh start.sh submit.sh task.sh wait-0.sh":                       Scripts(),
	} {
		if diff := cmp.Diff(strings.Fields(names), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("the files are others (-want +got):\n%s", diff)
		}
	}
	if files["view-environment.sh"] != `export X='it'\''s'`+"\n" {
		t.Errorf("view-environment.sh is %q", files["view-environment.sh"])
	}
	for name, text := range files {
		if strings.Contains(text, "the secret") {
			t.Errorf("%s holds the certificate", name)
		}
	}
}
