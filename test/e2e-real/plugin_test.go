// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

// plugin is kubectl-minicluster in the hands of a user with Kubernetes' role edit in one namespace.
type plugin struct {
	*cluster
	kubeconfig string
}

func (c *cluster) newPlugin() *plugin {
	c.Helper()
	const user = "researcher"
	c.must("create", "rolebinding", user, "--clusterrole=edit", "--user="+user)
	c.Cleanup(func() {
		if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), "delete", "rolebinding", user); err != nil {
			c.Error(err)
		}
	})
	p := &plugin{c, filepath.Join(c.TempDir(), "kubeconfig")}
	if err := harness.WriteKubeconfig(c.Cluster, p.kubeconfig, c.URL(), user); err != nil {
		c.Fatal(err)
	}
	eventually(c.T, "the role", func() error {
		out, err := p.command("list").CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		return nil
	})
	return p
}

func (p *plugin) command(args ...string) *exec.Cmd {
	return exec.CommandContext(p.Context(), filepath.Join(env.dir, "bin", "kubectl-minicluster"), append([]string{"--kubeconfig=" + p.kubeconfig}, args...)...)
}

// run runs the program with an input, and checks its exit code and its output.
func (p *plugin) run(stdin string, code int, want string, args ...string) {
	p.Helper()
	cmd := p.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
		p.Errorf("%v: exit code %d, want %d, %v: %s", args, got, code, err, out)
	}
}

// attach starts attach, and returns how to read what the tasks have printed, in order.
func (p *plugin) attach(t *testing.T, name string) (cmd *exec.Cmd, printed func() []string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd = p.command("attach", name)
	cmd.Stdout, cmd.Stderr = out, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that did not wait for it
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, func() []string {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(`(?m)^(began|ended) \d$`).FindAllString(string(text), -1)
		slices.Sort(lines)
		return lines
	}
}

// A user prints the output of a command while the command runs, runs commands in the instance, also in a terminal, and
// gets the exit code of each.
func testPlugin(c *cluster) {
	m := c.make("plugin", best(), command(`echo "task $FLUX_TASK_RANK"; `+until("go")+"; exit 3"), "")
	p := c.newPlugin()
	m.awaitRunning()
	eventually(c.T, "the output of the command", func() error {
		out, err := p.command("logs", m.name, "--tail=3").CombinedOutput()
		return errorUnless(strings.Contains(string(out), "task 2"), string(out), err)
	})
	p.run("", 0, "task\ntask", "exec", m.name, "--", "flux", "run", "-N2", "-n2", "echo", "task")
	p.run("", 5, "", "exec", m.name, "--", "bash", "-c", "exit 5")
	p.run("echo from stdin", 0, "from stdin", "exec", m.name, "--", "bash")
	p.run("echo in the shell; exit 6", 6, "in the shell", "shell", m.name)
	p.run("", 1, "the input is no terminal", "exec", "-t", m.name, "--", "true")
	p.run("", 1, "a right is missing", "exec", "--namespace=kube-system", m.name, "--", "true")
	testTerminal(p, m.name)
	m.open("go")
	p.run("", 3, "task 0", "attach", m.name)
	p.run("", 3, "exit code 3", "wait", m.name)
	again := c.make("again", double, command(`echo ran >>/gate/runs; echo "run $(wc -l </gate/runs)"; [[ $(wc -l </gate/runs) == 2 ]] || exit 7`),
		"size: 3, tasks: 1, backoffLimit: 1, elastic: {recreate: {backoffBase: 1s}}")
	p.run("", 0, "run 2\n", "attach", again.name)
}

// A shell, and a command, have the terminal of the user, with its size also when that changes. Afterwards the user has
// it as before.
func testTerminal(p *plugin, name string) {
	p.Helper()
	shell := harness.NewTerminal(p.T, p.command("shell", name), 31, 97)
	eventually(p.T, "the size", func() error { // containerd sets the size a moment after the shell's start
		shell.Type("echo size: $(stty size)\r")
		return shell.Shows("size: 31 97")
	})
	shell.Resize(17, 123)
	eventually(p.T, "the new size", func() error {
		shell.Type("echo size: $(stty size)\r")
		return shell.Shows("size: 17 123")
	})
	shell.Type("echo brokers: $(flux getattr size)\r")
	shell.Await("brokers: 3")
	shell.Type("echo be\"gan\"; sleep 1000\r")
	shell.Await("began")
	eventually(p.T, "the code of what ctrl-C ends in the shell", func() error { // a shell that just starts it may miss ctrl-C
		shell.Type("\x03")
		shell.Type("echo code: $?\r")
		return shell.Shows("code: 130")
	})
	shell.Type("exit 7\r")
	if code := shell.ExitCode(); code != 7 {
		p.Errorf("the shell ended with %d", code)
	}

	script := p.command("exec", name, "-it", "--", "bash", "-c", "'tty; exit 9'").String() + "; echo code: $?; stty -a"
	own := harness.NewTerminal(p.T, exec.CommandContext(p.Context(), "bash", "-c", script), 31, 97)
	own.Await("/dev/pts/", "code: 9", " icanon", " echo ")
	if code := own.ExitCode(); code != 0 {
		p.Errorf("the script ended with %d", code)
	}
}
