// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// killBroker kills the broker of a rank, under the script that started it.
func (m *miniCluster) killBroker(rank int) error {
	_, err := m.exec(rank, processes("flux*", "kill -KILL"))
	return err
}

// processes is shell that does something to the processes of its pod whose command matches a pattern, such as the broker.
func processes(like, do string) string {
	return "for p in /proc/[0-9]*; do read -r comm <$p/comm && [[ $comm == " + like + " ]] && " + do + " ${p#/proc/}; done; true"
}

// killContainer kills all that runs in the pod of a rank beside its first process.
func (m *miniCluster) killContainer(rank int) error { return m.signalContainer(rank, "SIGKILL") }

// signalContainer sends a signal to all that runs in the pod of a rank beside its first process.
func (m *miniCluster) signalContainer(rank int, signal string) error {
	pod := m.pod(rank)
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	return m.inNode(pod.Spec.NodeName, "ctr", "--namespace=k8s.io", "tasks", "kill", "--all", "--signal="+signal, id)
}

// What becomes of a command whose rank 2 was killed, by what it said about losses.
func testLoss(c *cluster) {
	t := c.T
	for name, test := range map[string]struct {
		kill            func(m *miniCluster, rank int) error
		container, spec string
		then            func(m *miniCluster, before *corev1.Pod)
	}{
		"broker-fail":        {(*miniCluster).killBroker, "", "", (*miniCluster).fails},
		"broker-continue":    {(*miniCluster).killBroker, launcher, "", (*miniCluster).goesOnInPod},
		"broker-recreate":    {(*miniCluster).killBroker, "", "elastic: {onLoss: Recreate, recreate: {backoffBase: 1s}}", (*miniCluster).runsAgain},
		"container-fail":     {(*miniCluster).killContainer, "", "", (*miniCluster).fails},
		"container-continue": {(*miniCluster).killContainer, launcher, "", (*miniCluster).goesOn},
		"container-recreate": {(*miniCluster).killContainer, "", "elastic: {onLoss: Recreate, recreate: {backoffBase: 1s}}", (*miniCluster).runsAgain},
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(c.in(t), func(c *cluster, image string) {
				m := c.make("loss", image, test.container+command(until("go")), test.spec)
				m.awaitRunning()
				m.isInFlux("avail", "0-2")
				before := m.podIs(2, "is ready", ready)
				if err := test.kill(m, 2); err != nil {
					c.Fatal(err)
				}
				killed := machineClock.Now()
				test.then(m, before)
				m.Logf("after %s", machineClock.Since(killed))
			})
		})
	}
}

// fails: the command does, and nothing is held after it.
func (m *miniCluster) fails(before *corev1.Pod) {
	m.failed(before)
	m.followersGone()
}

// byFluxOrNot is how a command ends that lost a broker: Flux ends its job, or if that takes long on a busy machine, the controller.
var byFluxOrNot = []string{v1alpha2.ReasonCommandFailed, v1alpha2.ReasonBrokersLost}

// failed: the command ends with the job that lost a rank.
func (m *miniCluster) failed(*corev1.Pod) {
	m.Helper()
	mc := m.awaitEnd(byFluxOrNot...)
	code := mc.Status.ExitCode
	if byFlux := mc.Status.LastDecision.Reason == v1alpha2.ReasonCommandFailed; byFlux != (code != nil && *code > 0) {
		m.Errorf("exit code %v after %s", code, mc.Status.LastDecision.Reason)
	}
	m.Log(mc.Status.LastDecision.Message)
	m.says(fmt.Sprintf("Starting on %[1]d of %[1]d nodes", mc.Spec.Size))
}

// goesOnInPod: the broker comes back in its pod, and the command gets it.
func (m *miniCluster) goesOnInPod(before *corev1.Pod) {
	eventually(m.T, "the broker comes back", func() error {
		log, err := m.logOf(before)
		return errorUnless(strings.Contains(log, "The broker ended with exit code 137; starting it again in "), log, err)
	})
	m.goesOnWith(func(pod *corev1.Pod) bool { return pod.UID == before.UID && ready(pod) })
}

// goesOn: another pod comes, and the command gets its broker.
func (m *miniCluster) goesOn(before *corev1.Pod) {
	m.goesOnWith(func(pod *corev1.Pod) bool { return pod.UID != before.UID && ready(pod) })
}

func (m *miniCluster) goesOnWith(is func(pod *corev1.Pod) bool) {
	m.Helper()
	m.podIs(2, "is back", is)
	m.allWork()
}

// allWork: there are all brokers, and do what they are told; and so the command ends. Of one
// that comes back at once Flux may not know yet that it was lost, and then loses that job.
func (m *miniCluster) allWork() {
	m.Helper()
	n := int(m.get().Spec.Size)
	m.isInFlux("avail", fmt.Sprintf("0-%d", n-1))
	m.is("has all", func(mc *v1alpha2.MiniCluster) bool { return int(mc.Status.Size) == n })
	eventually(m.T, m.name+" has a job on all", func() error {
		out, err := m.flux(fmt.Sprintf("run -N%[1]d -n%[1]d echo task", n))
		return errorUnless(out == strings.TrimSuffix(strings.Repeat("task\n", n), "\n"), out, err)
	})
	m.open("go")
	if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 0 {
		m.Errorf("attempts %+v", mc.Status.Attempts)
	}
}

// runsAgain: the command is run again from its beginning.
func (m *miniCluster) runsAgain(before *corev1.Pod) {
	m.is("is in its second attempt", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && mc.Status.Admission.Attempt == 2
	})
	m.awaitRunning()
	m.open("go")
	mc := m.awaitEnd(v1alpha2.ReasonSucceeded)
	if len(mc.Status.Attempts) != 1 || mc.Status.Attempts[0].Started == nil {
		m.Fatalf("attempts %+v", mc.Status.Attempts)
	}
	m.Log(mc.Status.Attempts[0].Message)
	if a := mc.Status.Admission; strings.Contains(a.Nodes, before.Spec.NodeName) {
		m.Errorf("it runs on %s again, where it lost a broker", a.Nodes)
	}
}

// givesUp: the command failed for what Flux lost, which its lead tells.
func (m *miniCluster) givesUp() {
	m.is("gives its first attempt up", func(mc *v1alpha2.MiniCluster) bool { return len(mc.Status.Attempts) == 1 })
}

// startAgain starts what was killed, unless it runs. The port of one that was killed may be
// taken for a moment.
func (c *cluster) startAgain(name string) {
	c.Helper()
	ctx := context.WithoutCancel(c.Context())
	err := poll(ctx, func() error {
		err := c.Start(ctx, name)
		if err != nil && strings.Contains(err.Error(), "already running") {
			err = nil
		}
		return err
	})
	if err != nil {
		c.Errorf("starting %s: %v", name, err)
	}
}

// Whatever of the cluster is killed, while a MiniCluster starts and again while its command
// ends, and comes back, the command is run once, and has the end that it had. Who is attached gets all of its output.
func testKilled(c *cluster) {
	t, p := c.T, c.newPlugin()
	for _, victim := range []string{"manager", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "real-0-kubelet", "real-1-kubelet", "real-0-containerd", "real-1-containerd"} {
		t.Run(victim, func(t *testing.T) {
			c := c.in(t)
			kill := func() {
				if err := c.Kill(c.Context(), victim); err != nil {
					t.Fatal(err)
				}
			}
			m := c.make("killed", best(), command("echo began $FLUX_TASK_RANK | tee -a /gate/began; "+until("go")+"; echo ended $FLUX_TASK_RANK; echo ended >>/gate/ended; exit 3"), "")
			t.Cleanup(func() { c.startAgain(victim) }) // before it is removed
			kill()
			c.startAgain(victim)
			m.awaitRunning()
			attached, printed := p.attach(t, m.name)
			eventually(t, "the output", func() error {
				lines := strings.Join(printed(), " ")
				return errorUnless(lines == "began 0 began 1 began 2", lines, nil)
			})
			kill()
			m.open("go")
			eventually(t, "the command ends", func() error {
				ended, err := os.ReadFile(filepath.Join(m.gate, "ended"))
				return errorUnless(string(ended) == strings.Repeat("ended\n", 3), string(ended), err)
			})
			c.startAgain(victim)
			mc := m.awaitEnd(v1alpha2.ReasonCommandFailed)
			if code := mc.Status.ExitCode; code == nil || *code != 3 || len(mc.Status.Attempts) != 1 {
				t.Errorf("exit code %v, attempts %+v", code, mc.Status.Attempts)
			}
			for _, task := range []string{"0", "1", "2"} {
				m.wrote("began", "began "+task+"\n", 1)
			}
			err := attached.Wait()
			const began, all = "began 0 began 1 began 2", "began 0 began 1 began 2 ended 0 ended 1 ended 2"
			lines := strings.Join(printed(), " ")
			loses := victim == "real-0-containerd" && strings.HasPrefix(lines, began) // what is printed while it is away
			if attached.ProcessState.ExitCode() != 3 || lines != all && !loses {
				t.Errorf("who was attached ended with %v, and got %q", err, lines)
			}
			m.followersGone()
		})
	}
}
