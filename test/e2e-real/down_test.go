// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// traces are what may be found of a cluster on the machine: all that has the name or the
// directory of the cluster, and what Kubernetes puts at places of the machine.
type traces struct {
	dir, name  string
	namespaces []string // of processes
	before     string   // state of the machine, which others do not change
}

// trace notes what to look for, while the cluster runs.
func (c *cluster) trace(before string) *traces {
	c.Helper()
	tr := &traces{dir: c.Dir, before: before}
	tr.readName(c.T)
	status, err := localcluster.GetStatus(c.Context(), c.Dir)
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range status.Processes {
		if !strings.HasPrefix(p.Name, "real-") {
			continue
		}
		namespace, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/ns/pid")
		if err != nil {
			c.Fatal(err)
		}
		tr.namespaces = append(tr.namespaces, namespace)
	}
	if len(tr.left(c.T)) < 5 {
		c.Fatalf("of a cluster that runs is found no more than %q", tr.left(c.T))
	}
	return tr
}

// readName finds the name of a cluster's network, if it has got one.
func (tr *traces) readName(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(tr.dir, "network"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var network struct{ Name string }
	if err := errors.Join(err, json.Unmarshal(data, &network)); err != nil || network.Name == "" {
		t.Fatal(network, err)
	}
	tr.name = network.Name
}

// machine is what a cluster could change of the machine as a whole.
func machine(t *testing.T) string {
	t.Helper()
	var state strings.Builder
	for _, path := range []string{
		"/run/containerd", "/run/netns", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/cni",
		"/var/log/pods", "/var/log/containers", "/opt/containerd", "/etc/cni/net.d",
	} {
		entries, err := os.ReadDir(path)
		fmt.Fprintln(&state, path, len(entries), errors.Is(err, fs.ErrNotExist))
	}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&state, name, string(value))
	}
	for _, group := range mustGlob(t, "/sys/fs/cgroup/k8s.io", "/sys/fs/cgroup/*/k8s.io", "/sys/fs/cgroup/kubepods", "/sys/fs/cgroup/*/kubepods") {
		fmt.Fprintln(&state, group)
	}
	for _, command := range []string{"iptables-save", "ip6tables-save"} {
		if out, err := exec.Command(command).Output(); err == nil { // where it is not, nothing could make a rule
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "-") || strings.HasPrefix(line, ":KUBE") || strings.HasPrefix(line, ":CNI") {
					state.WriteString(line)
				}
			}
		}
	}
	return state.String()
}

func mustGlob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// left is what there is of the cluster.
func (tr *traces) left(t *testing.T) (left []string) {
	t.Helper()
	for _, path := range mustGlob(t, "/proc/[0-9]*/cmdline") {
		if what := tr.process(filepath.Dir(path)); what != "" {
			left = append(left, what)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, tr.dir) {
			left = append(left, "mount "+line)
		}
	}
	for _, name := range []string{"nodes", "etcd", "keys", "network", "kubeconfig"} {
		left = append(left, mustGlob(t, filepath.Join(tr.dir, name))...)
	}
	left = append(left, mustGlob(t, filepath.Join(tr.dir, "run", "*"))...)
	if tr.name != "" {
		left = append(left, mustGlob(t, "/sys/class/net/"+tr.name+"*", "/sys/fs/cgroup/"+tr.name+"*", "/sys/fs/cgroup/*/"+tr.name+"*", "/run/netns/"+tr.name+"*")...)
	}
	return left
}

// process describes a process that is the cluster's: one that names its directory, or
// runs in one of its nodes.
func (tr *traces) process(dir string) string {
	if dir == "/proc/"+strconv.Itoa(os.Getpid()) {
		return ""
	}
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(command) == 0 {
		return "" // it has ended, or waits for its parent
	}
	namespace, _ := os.Readlink(filepath.Join(dir, "ns", "pid"))
	if bytes.Contains(command, []byte(tr.dir+"/")) || slices.Contains(tr.namespaces, namespace) {
		return filepath.Base(dir) + " " + string(bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
	}
	return ""
}

// down ends the cluster, and fails the test if something is left.
func (tr *traces) down(t *testing.T) {
	t.Helper()
	if err := localcluster.Down(t.Context(), tr.dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() error { // what a process that was killed had started ends a moment later
		if left := tr.left(t); len(left) > 0 {
			return errors.New(strings.Join(left, "\n"))
		}
		return nil
	})
	if now := machine(t); now != tr.before {
		t.Errorf("the machine was\n%s\nand is\n%s", tr.before, now)
	}
}

// Of a cluster in which pods have run nothing is left, also where a part of it is suspended.
func TestDown(t *testing.T) {
	before := machine(t)
	c := up(t, 2)
	c.talk()
	tr := c.trace(before)
	for _, name := range []string{"etcd", localcluster.KubeletOf(localcluster.RealNodeName(0))} {
		if err := c.Suspend(name); err != nil {
			t.Fatal(err)
		}
	}
	tr.down(t)
}

// Nor if its processes were killed before.
func TestDownAfterKill(t *testing.T) {
	before := machine(t)
	c := up(t, 2)
	c.talk()
	tr := c.trace(before)
	status, err := localcluster.GetStatus(t.Context(), c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Processes {
		if err := c.Kill(t.Context(), p.Name); err != nil {
			t.Error(err)
		}
	}
	tr.down(t)
}

// Nor if who started it was killed while it did, at whatever point.
func TestDownAfterCrash(t *testing.T) {
	for _, point := range []string{
		"network", "run/etcd.json", "run/coredns.json", "config/node.sh", "run/real-0.json", "run/real-0-containerd.json", "run/real-0-kubelet.json",
	} {
		t.Run(strings.ReplaceAll(point, "/", "-"), func(t *testing.T) {
			tr := &traces{dir: filepath.Join(env.dir, t.Name()), before: machine(t)}
			t.Cleanup(func() { _ = localcluster.Down(context.Background(), tr.dir) })
			cmd := exec.Command(filepath.Join(env.dir, "bin", "localcluster"), "up", "--mode=real", "--nodes=2", "--port=0", "--dir="+tr.dir)
			cmd.Dir = env.root
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the commands that it runs, and not what it has started
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "there is "+point, func() error {
				_, err := os.Stat(filepath.Join(tr.dir, point))
				return err
			})
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			tr.readName(t)
			tr.down(t)
		})
	}
}

// Clusters that are started at once do not meet, and the end of one does nothing to
// another.
func TestTwoClusters(t *testing.T) {
	before := machine(t)
	var clusters [2]*cluster
	var group sync.WaitGroup
	for i := range clusters {
		clusters[i] = newCluster(t, strconv.Itoa(i))
		group.Go(func() { clusters[i].up(1) })
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	clusters[0].talk()
	clusters[1].talk()
	tr := clusters[0].trace(before)
	tr.down(t)
	pod := clusters[1].talker(0)
	if out := clusters[1].must("exec", pod, "--", "getent", "ahostsv4", "talkers"); !strings.Contains(out, clusters[1].addressOf(pod)) {
		t.Errorf("%s is not among the talkers:\n%s", pod, out)
	}
}
