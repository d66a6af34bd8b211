// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// program is kubectl-minicluster in the hands of a user.
type program struct {
	*site
	user, kubeconfig string
}

// userProgram returns the program of a user who has Kubernetes' role edit in the namespace of the site, and no more.
func (s *site) userProgram() *program {
	s.t.Helper()
	user := s.namespace + "-researcher"
	s.kubectl("create", "rolebinding", user, "--clusterrole=edit", "--user="+user)
	p := &program{s, user, filepath.Join(s.t.TempDir(), "kubeconfig")}
	if err := harness.WriteKubeconfig(env.cluster.Cluster, p.kubeconfig, env.cluster.URL(), user); err != nil {
		s.t.Fatal(err)
	}
	s.expectMay(user, s.namespace, "create miniclusters.flux-framework.org", true)
	return p
}

// command is the program with arguments.
func (p *program) command(args ...string) *exec.Cmd {
	return exec.CommandContext(p.ctx, filepath.Join(env.Bin, "kubectl-minicluster"), append([]string{"--kubeconfig=" + p.kubeconfig, "--namespace=" + p.namespace}, args...)...)
}

// run runs the program with an input.
func (p *program) run(stdin string, args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	cmd := p.command(args...)
	var out, trouble bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &trouble
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), trouble.String()
}

// await runs the program until its output has a text.
func (p *program) await(text string, args ...string) {
	p.t.Helper()
	eventually(p.t, func() error {
		if _, out, _ := p.run("", args...); !strings.Contains(out, text) {
			return errors.New(out)
		}
		return nil
	})
}

// expect runs the program, and checks its exit code and that its output has some texts. Blanks in a row count as one.
func (p *program) expect(code int, args []string, texts ...string) string {
	p.t.Helper()
	return p.expectWith("", code, args, texts...)
}

func (p *program) expectWith(stdin string, code int, args []string, texts ...string) string {
	p.t.Helper()
	got, stdout, stderr := p.run(stdin, args...)
	all := strings.Join(strings.Fields(stdout+" "+stderr), " ")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			p.t.Errorf("%v: %q is not in:\n%s%s", args, text, stdout, stderr)
		}
	}
	if got != code {
		p.t.Errorf("%v: exit code %d, want %d:\n%s%s", args, got, code, stdout, stderr)
	}
	return stdout
}

// A user of one namespace submits MiniClusters, sees why one waits, and changes and deletes them.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	p := s.userProgram()
	template := func(w *fixture.MiniClusterWrapper) string {
		mc := s.here(w).New()
		mc.Name = ""
		text, err := yaml.Marshal(mc)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	endless := template(s.miniCluster("any").PodAnnotation(simulator.Runtime, untilTold))

	p.expectWith(endless, 0, []string{"submit", "-f", "-", "--name=first", "-N3", "-n12", "-t1h", "-lsweep=a", "--", "lmp", "-in", "in file"}, "minicluster.flux-framework.org/first created",
		"asks for 3 nodes with 12 tasks")
	p.expect(0, []string{"wait", "first", "--for=running", "--timeout=5m"}, "first is Running: 3 of 3 brokers up")
	p.expect(0, []string{"list"}, "NAME QUEUE USER STATE TIME NODES NODELIST(REASON)", "first "+s.namespace+" "+s.namespace+" Running")
	p.expect(0, []string{"list", "-l", "sweep=b"}, "There is no MiniCluster.")
	p.expect(0, []string{"list", "-o", "name", "-lsweep=a"}, "minicluster.flux-framework.org/first")
	p.expect(0, []string{"status", "first"}, "command lmp -in 'in file'", "brokers 3 up of 3", "3 up 0-2")
	eventually(t, func() error {
		if _, out, _ := p.run("", "status", "first"); !strings.Contains(out, "Placed 3 of 3 brokers on") || !strings.Contains(out, "Started with 3 of 3") {
			return errors.New(out)
		}
		return nil
	})
	if lines := strings.Count(p.expect(0, []string{"status", "first", "-owide"}, "RANK NODE STATE POD"), "first-"); lines != 3 {
		t.Errorf("%d brokers are listed", lines)
	}
	first := &v1alpha2.MiniCluster{}
	if err := yaml.Unmarshal([]byte(p.expect(0, []string{"status", "first", "-oyaml"})), first); err != nil || first.Spec.DeadlineSeconds == nil || *first.Spec.DeadlineSeconds != 3600 || first.Kind != v1alpha2.MiniClusterKind {
		t.Errorf("status as YAML: %v, %+v", err, first.Spec)
	}

	p.expectWith(endless, 0, []string{"submit", "-f", "-", "--name=second", "-N2"})
	p.await(v1alpha2.ReasonNoRoom, "why", "second")
	p.expect(0, []string{"why", "second"}, "second is Queued", "Needs room for 2 brokers", "What would help: a minSize below 2, if the command can run with fewer brokers", "a right is missing: User", "get resource \"miniclusterqueues\"")
	p.expect(124, []string{"wait", "second", "--for=admitted", "--timeout=30s"}, "second is Queued (NoRoom): Needs room for 2 brokers", "second is Queued after 30s")
	p.expect(1, []string{"queue"}, "a right is missing", "list resource \"miniclusterqueues\"")
	p.expect(1, []string{"nodes"}, "a right is missing", "list resource \"nodes\"")
	p.expect(1, []string{"list", "-A"}, "a right is missing")
	p.expect(2, []string{"migrate", "--check"}, "a right is missing")
	p.expect(1, []string{"version", "--manager-namespace=kube-system"}, "client ", "Kubernetes v1.", "a right is missing", "get resource \"leases\"")
	p.expect(1, []string{"version", "--manager-namespace=" + s.namespace}, "namespace "+s.namespace+" has no Lease")
	p.expect(1, []string{"status", "third"}, `"third" not found`)
	p.expect(1, []string{"logs", "second"}, "there is no log of rank 0: second is Queued")
	p.expect(1, []string{"exec", "second", "--", "flux", "resource", "list"}, "its lead broker does not run")
	p.expect(1, []string{"logs", "first"}, "which is simulated: no command runs there")
	p.expect(1, []string{"exec", "first", "--", "flux", "resource", "list"}, "which is simulated")
	p.expectWith(endless, 0, []string{"submit", "-f", "-", "--name=lost", "-q", "nosuch"})
	p.await("What would help: a queue that exists, by submit -q; an administrator knows which", "why", "lost")

	admin := &program{s, "", env.cluster.Kubeconfig()}
	admin.await(s.namespace+"/second", "queue", s.namespace) // the status of a queue is written every few seconds
	admin.expect(0, []string{"queue", s.namespace}, "1 "+s.namespace+"/second NoRoom", s.namespace+"/first Running 3")
	admin.expect(0, []string{"queue"}, s.namespace+" 1 1")
	admin.expect(0, []string{"why", "second"}, "It is number 1 of 1 in queue "+s.namespace)
	admin.expect(0, []string{"why", "lost"}, "queues that you may use: ", s.namespace)
	admin.expect(0, []string{"queue", "default"}, "default open")
	admin.expect(0, []string{"nodes"}, s.namespace+"/first")
	admin.expect(0, []string{"nodes", "-owide"}, s.namespace+"/first")
	admin.expect(0, []string{"nodes", "-oname"}, "node/"+s.nodes[0])
	var nodes []struct {
		Name         string
		MiniClusters []string
	}
	if err := json.Unmarshal([]byte(admin.expect(0, []string{"nodes", "-ojson"})), &nodes); err != nil {
		t.Error(err)
	}
	used := 0
	for _, n := range nodes {
		if slices.Contains(n.MiniClusters, s.namespace+"/first") && slices.Contains(s.nodes, n.Name) {
			used++
		}
	}
	if used != 3 {
		t.Errorf("%d nodes as JSON have the first: %+v", used, nodes)
	}

	p.expect(0, []string{"resize", "second", "1"}, "second resized to 1")
	p.expect(0, []string{"wait", "second", "--for=running", "--timeout=5m"})
	p.expect(0, []string{"suspend", "second"}, "second suspended")
	p.await("kubectl minicluster resume second", "why", "second")
	p.expect(0, []string{"resume", "second"}, "second resumed")
	p.expect(0, []string{"resize", "first", "2"}, "first resized to 2", "SizeIgnored: The size of 2 counts from the next start")
	p.expect(0, []string{"cancel", "first", "mc/second", "lost"}, "first deleted", "second deleted")
	p.expect(0, []string{"wait", "first", "--for=deleted"}, "first deleted")
}

// The program ends with the exit code of the command, or says why there is none.
func TestPluginExitCodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	p := s.userProgram()
	fails := s.here(s.miniCluster("fails").Size(1).PodAnnotation(simulator.Runtime, "100ms").PodAnnotation(simulator.ExitCode, "7")).New()
	text, err := yaml.Marshal(fails)
	if err != nil {
		t.Fatal(err)
	}
	p.expectWith(string(text), 7, []string{"submit", "-f", "-", "--wait"}, "fails created", "exit code 7")
	p.expect(7, []string{"wait", "fails"})
	p.expectWith(string(text), 1, []string{"submit", "-f", "-", "--name=large", "-N3", "--wait"}, "large created", "large never fits: Needs room for 3 brokers")
	p.expect(2, []string{"wait", "fails", "--timeout=no"}, "invalid argument")
	p.expectWith(string(text), 1, []string{"submit", "-f", "-"}, "already exists")
	p.expect(0, []string{"submit", "--image=app", "-N1-2", "--dry-run=server", "--", "hostname"}, "created (server dry run)")
	p.expect(1, []string{"submit", "--image=app", "-N2", "--name=Upper", "--dry-run=server"}, "nothing was sent: metadata.name")
	if _, out, _ := p.run("", "__complete", "status", ""); !slices.Contains(strings.Fields(out), "fails") {
		t.Errorf("the shell completes %q", out)
	}
	if out := p.kubectlRuns("minicluster", "-n", p.namespace, "list"); !strings.Contains(out, "fails") {
		t.Errorf("kubectl minicluster list prints %q", out)
	}
	if out := p.kubectlRuns("__complete", "minicluster", "-n", p.namespace, "status", ""); !slices.Contains(strings.Fields(out), "fails") {
		t.Errorf("kubectl completes %q", out)
	}
}

// A verb that needs no terminal asks the terminal nothing: it would wait for an answer, and take what the user types ahead.
func TestPluginAsksNothing(t *testing.T) {
	t.Parallel()
	p := newSite(t, 0).userProgram()
	terminal := harness.NewTerminal(t, p.command("version", "--client"), 24, 80)
	terminal.Await("client")
	if code := terminal.ExitCode(); code != 0 || strings.Contains(terminal.Raw(), "\x1b") {
		t.Errorf("exit code %d: %q", code, terminal.Raw())
	}
}

// kubectlRuns runs kubectl for the user, with the program as a plugin on the path.
func (p *program) kubectlRuns(args ...string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	for _, name := range []string{"kubectl-minicluster", "kubectl_complete-minicluster"} {
		if err := os.Symlink(filepath.Join(env.Bin, "kubectl-minicluster"), filepath.Join(dir, name)); err != nil {
			p.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(p.ctx, env.Binaries["kubectl"], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Errorf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}
