// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func noSocket(s *v1alpha2.MiniClusterSpec) { s.Flux.DisableSocket = true }

// A follower is ready when its broker has joined the others. The lead is ready when the command
// runs, or in an interactive instance when a command could run.
func TestRunReady(t *testing.T) {
	t.Parallel()
	testReady(t, 0)
}

// So it is for a user without an entry in /etc/passwd, for whom some commands of Flux fail.
// Platforms such as OpenShift give each namespace such a user.
func TestRunReadyAsUnknownUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run processes as another user")
	}
	testReady(t, 1000770000)
}

// The image of the view and the image of the application may have different users, and each container may name its own.
func TestRunUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run processes as another user")
	}
	for name, users := range map[string]struct{ view, flux uint32 }{
		"one user":                {20001, 20001},
		"neither is root":         {20002, 20001},
		"the view's user is root": {0, 20001},
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, fixture.MiniCluster("lmp").Size(1).CPU("2").Tasks(1).Command(loop).Spec(strict), func(c *cluster) {
				c.viewUser, c.user = &users.view, users.flux
				lead := c.pod(0)
				volume := filepath.Join(c.dir, lead.dir, "v")
				if err := errors.Join(os.Chmod(c.dir, 0o755), os.MkdirAll(volume, 0o755), os.Chmod(volume, 0o777)); err != nil { // as an emptyDir
					t.Fatal(err)
				}
				lead.start()
				c.awaitBegun()
				if lua := c.read(filepath.Join(lead.dir, "v/config/etc/flux/shell/affinity.lua")); !strings.Contains(lua, "cpu-affinity") {
					t.Errorf("Flux binds tasks to cores: %q", lua)
				}
				c.release()
				lead.ends(0)
			})
		})
	}
}

func testReady(t *testing.T, user uint32) {
	t.Helper()
	batch := func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Batch = true }
	raw := func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].BatchRaw = true }
	line := "-n1 bash -c " + shellQuote(loop)
	for name, mc := range map[string]*fixture.MiniClusterWrapper{
		"submitted":               three(loop),
		"submitted by flux run":   three(loop, func(s *v1alpha2.MiniClusterSpec) { s.Flux.SubmitCommand = "flux run" }),
		"a launcher":              three(loop, launcher, strict),
		"a launcher, no socket":   three(loop, launcher, noSocket),
		"a batch":                 three(line, batch),
		"a raw batch":             three("flux run "+line, batch, raw),
		"interactive":             three("x", interactive, strict),
		"interactive, no socket":  three("x", interactive, noSocket),
		"interactive, no command": three(""),
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, mc, func(c *cluster) {
				c.user = user
				lead, first, second := c.pod(0), c.pod(1), c.pod(2)
				first.start()
				first.awaitBroker()
				first.isReady(false)
				lead.start()
				first.awaitReady(true)
				lead.awaitOnline("2")
				lead.isReady(false)
				second.start()
				second.awaitReady(true)
				lead.awaitReady(true)
				if mode(&mc.Defaulted().Spec) == modeInteractive {
					lead.terminate()
					lead.ends(terminated)
				} else {
					c.awaitBegun()
					c.release()
					lead.ends(0)
				}
				for _, follower := range []*pod{first, second} {
					follower.ends(0)
				}
			})
		})
	}
}

// An interactive instance is ready with as few brokers as a command would run on.
func TestRunReadyWithFewer(t *testing.T) {
	t.Parallel()
	soon := func(s *v1alpha2.MiniClusterSpec) { s.Elastic.QuorumTimeout = &metav1.Duration{Duration: time.Second} }
	cases := map[string]struct {
		mc    *fixture.MiniClusterWrapper
		lower bool
	}{"the quorum is lowered": {three(""), true}, "its time is up": {three("", soon), false}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				lead, follower := c.pod(0), c.pod(1)
				start(lead, follower)
				lead.awaitOnline("2")
				if tc.lower {
					lead.isReady(false)
					lead.write(QuorumFile, "2")
				}
				lead.awaitReady(true)
			})
		})
	}
}

// A follower is not ready while its broker is started again, in the same pod or in a new one.
func TestRunReadyAgain(t *testing.T) {
	t.Parallel()
	for name, mc := range map[string]*fixture.MiniClusterWrapper{"with a socket": three(loop, launcher, strict), "without": three(loop, launcher, noSocket)} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, mc, func(c *cluster) {
				pods := c.startAll()
				c.awaitBegun()
				pods[1].awaitReady(true)
				pods[1].killBroker()
				pods[1].awaitReady(false)
				pods[1].awaitReady(true)

				pods[2].awaitReady(true)
				pods[2].kill()
				pods[0].awaitOnline("2")
				before := pods[2].made("ready")
				again := pods[2].again() // the old file is still on its volume
				again.await("it to be ready anew", func() bool { return again.made("ready").After(before) })
				c.release()
				pods[0].ends(0)
			})
		})
	}
}

// busy has work on all brokers until the test releases it. Then it goes on without work until the
// test writes the file RUNS.
var busy = `flux run -N 3 -n 3 bash -c '[[ $FLUX_TASK_RANK != 0 ]] || ` + loop + `'; echo done; ` + until(`-e $RUNS`)

// The pod of a rank that is to leave is ready until its work has ended. It is ready again if the
// rank may stay after all.
func TestRunReadyUntilIdle(t *testing.T) {
	withFlux(t, three(busy, launcher), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		for _, pod := range pods {
			pod.awaitReady(true)
		}
		pods[0].write(DrainFile, "1-2")
		pods[0].awaitFlux("1-2", "resource", "status", "-s", "draining", "-no", "{ranks}")
		for _, pod := range pods {
			pod.isReady(true)
		}
		c.release()
		pods[1].awaitReady(false)
		pods[2].awaitReady(false)
		pods[0].isReady(true)

		pods[0].write(DrainFile, "2")
		pods[1].awaitReady(true)
		pods[0].awaitDrained("2")
		pods[2].isReady(false)

		// The pod is evicted and made again while its rank is still to leave: it gets no work.
		pods[2].terminate()
		pods[2].ends(terminated)
		pods[0].awaitFlux("2", "resource", "status", "-s", "offline", "-no", "{ranks}")
		again := c.pod(2)
		again.start()
		again.await("it to be told", func() bool { return again.has("leaving") })
		again.awaitReady(false)
		pods[0].awaitDrained("2")
		pods[0].write(DrainFile, "")
		again.awaitReady(true)
		pods[0].awaitOnline("3")
		c.save("runs", "")
		pods[0].ends(0)
	})
}

// A rank that has left and may stay again is undrained, and a new pod can use it.
func TestRunComesAgain(t *testing.T) {
	withFlux(t, three(loop+"\nflux run -N 3 bash -c 'echo \"again $FLUX_TASK_RANK\"'", launcher, noSocket), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[0].write(DrainFile, "2")
		pods[2].awaitReady(false)
		pods[2].terminate()
		pods[2].ends(terminated)
		pods[0].awaitFlux("2", "resource", "status", "-s", "offline", "-no", "{ranks}")
		pods[0].write(DrainFile, "")
		pods[0].awaitDrained("")
		again := c.pod(2)
		again.start()
		again.awaitReady(true)
		pods[0].awaitOnline("3")
		c.release()
		pods[0].ends(0)
		pods[0].hasLine("again 2")
	})
}

// After the quorum was lowered, the surplus brokers get no part of the command, even if they are
// up: they are going to be evicted.
func TestRunWithoutThoseThatLeave(t *testing.T) {
	withFlux(t, three("bash -c 'echo \"on $(flux resource list -s allocated -no {ranks})\"'"), func(c *cluster) {
		lead := c.pod(0)
		lead.write(QuorumFile, "9")
		start(lead, c.pod(1), c.pod(2))
		lead.awaitOnline("3")
		lead.write(DrainFile, "1")
		lead.write(QuorumFile, "2")
		lead.ends(0)
		lead.hasLine("on 0,2")
	})
}

// A lead that reads which ranks leave does not begin before it reads the new quorum, too.
// Otherwise the command would wait for the leaving ranks for ever.
func TestRunOnceQuorumIsTold(t *testing.T) {
	withFlux(t, three("bash -c 'echo \"on $(flux resource list -s allocated -no {ranks})\"'"), func(c *cluster) {
		lead := c.pod(0)
		lead.write(QuorumFile, "3")
		lead.write(DrainFile, "1")
		start(lead, c.pod(1), c.pod(2))
		lead.awaitDrained("1")
		lead.isReady(false)
		lead.write(QuorumFile, "2")
		lead.ends(0)
		lead.hasLine("on 0,2")
	})
}

// A lead whose annotation asks it to end does so as after a signal. It prints the reason, and
// reports no success of a command that has not ended well.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	begun := func(lead, first, second *pod) {
		start(lead, first, second)
		lead.awaitBegun()
	}
	cases := map[string]struct {
		mc    *fixture.MiniClusterWrapper
		phase func(lead, first, second *pod)
		codes []int // the first, or with a real Flux any
	}{
		"before it starts": {three(loop), func(lead, _, _ *pod) {
			lead.write(StopFile, "evicted 15")
			lead.start()
		}, []int{terminated}},
		"while it is being started": {three(loop, func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Commands.BrokerPre = `echo begun >"$BEGUN"; ` + until(`-e $RELEASE`)
		}), func(lead, _, _ *pod) {
			lead.start()
			lead.awaitBegun()
		}, []int{terminated}},
		"before the quorum of Flux": {three(loop), func(lead, _, _ *pod) {
			lead.start()
			lead.awaitBroker()
		}, []int{terminated}},
		"while it waits for the quorum": {three(loop), func(lead, first, _ *pod) {
			start(lead, first)
			lead.awaitOnline("2")
		}, []int{terminated}},
		"while the command runs": {three(loop), begun, []int{terminated}},
		"while a launcher runs":  {three(loop, launcher, strict), begun, []int{terminated}},
		"while a batch runs": {three("-n1 bash -c "+shellQuote(loop), func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Batch = true
		}), begun, []int{terminated}},
		"a launcher that saves its work":         {three("trap 'exit 5' TERM; "+loop, launcher), begun, []int{5}},
		"a launcher that saves its work, well":   {three("trap 'exit 0' TERM; "+loop, launcher), begun, []int{terminated}},
		"a launcher that does not heed":          {three("trap '' HUP TERM; "+loop, launcher), begun, []int{128 + int(syscall.SIGKILL)}},
		"a job that does not heed":               {three("trap '' HUP TERM; " + loop), begun, []int{128 + int(syscall.SIGKILL)}},
		"an instance for people":                 {three("", strict), func(lead, first, second *pod) { start(lead, first, second); lead.awaitReady(true) }, []int{terminated}},
		"an instance for people before it is up": {three(""), func(lead, _, _ *pod) { lead.start(); lead.awaitBroker() }, []int{terminated, hungUp}}, // Flux may send SIGHUP to what starts it
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				c.kills = slices.Contains(tc.codes, 128+int(syscall.SIGKILL))
				lead, first, second := c.pod(0), c.pod(1), c.pod(2)
				tc.phase(lead, first, second)
				lead.write(StopFile, "evicted 15") // without a line end, as the kubelet writes it
				codes := tc.codes
				if c.double {
					codes = codes[:1]
				}
				lead.ends(codes...)
				lead.hasLine("Asked to end: evicted")
				lead.hasNot("released")
				for _, follower := range []*pod{first, second} {
					if follower.isRunning() {
						follower.ends(0)
					}
				}
			})
		})
	}
}

// A command that has ended well is a success, also if the lead is asked to end while the hook after it still runs.
func TestRunStoppedAfterItsEnd(t *testing.T) {
	mc := three("true", func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].Commands.Post = `echo begun >"$BEGUN"; ` + until(`-e $RELEASE`)
	})
	withFlux(t, mc, func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[0].write(StopFile, "Preempted 30")
		c.release()
		pods[0].ends(0)
	})
}

// The exit code of a lead is that of its command, also if Flux fails at its end, and says so by an exit code of its own.
func TestRunTroubleAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 3} {
		mc := three(fmt.Sprintf("exit %d", code), func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Commands.Pre = `
				scripts=$(mktemp -d) && mkdir "$scripts/rc3.d" && export FLUX_RC_EXTRA=$FLUX_RC_EXTRA:$scripts
				printf '#!/bin/sh\nexit 1\n' >"$scripts/rc3.d/fails" && chmod +x "$scripts/rc3.d/fails"`
		})
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			withFlux(t, mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].ends(code)
				for _, follower := range pods[1:] {
					follower.endsAnyhow()
				}
			})
		})
	}
}

// ready reports whether the probes of the pod would succeed.
func (p *pod) ready() bool { return p.has("ready") }

// has reports whether the run directory of the broker has a file.
func (p *pod) has(name string) bool { return !p.made(name).IsZero() }

// made returns when a file of the run directory was made, or the zero time if there is none.
func (p *pod) made(name string) time.Time {
	p.Helper()
	mc := p.mc.Defaulted()
	mc.Spec.Flux.Container.MountPath = filepath.Join(p.cluster.dir, p.dir, "v")
	info, err := os.Stat(filepath.Join(filepath.Dir(ReadyFile(mc)), name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (p *pod) isReady(want bool) {
	p.Helper()
	if p.ready() != want {
		p.Errorf("%s is ready: %t, want %t", p.host, !want, want)
	}
}

func (p *pod) awaitReady(want bool) {
	p.Helper()
	what := p.host + " to be ready"
	if !want {
		what = p.host + " to be ready no more"
	}
	p.await(what, func() bool { return p.ready() == want })
}

// killBroker kills the broker, and no other process of the pod.
func (p *pod) killBroker() {
	p.Helper()
	killed := 0
	for _, pid := range processes(p.cmd.Process.Pid) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(line), "-Srundir=") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed != 1 {
		p.Errorf("%d processes are a broker", killed)
	}
}
