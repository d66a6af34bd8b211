// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

const (
	// terminated is the exit code of a pod that was asked to end, and of a job that lost a node.
	terminated = 128 + int(syscall.SIGTERM)
	// hungUp is the exit code of a lead that was asked to end: Flux sends SIGHUP to its program.
	hungUp = 128 + int(syscall.SIGHUP)
)

// three returns a MiniCluster of three brokers with a minSize of two.
func three(command string, changes ...func(*v1alpha2.MiniClusterSpec)) *fixture.MiniClusterWrapper {
	w := fixture.MiniCluster("lmp").Size(3).MinSize(2).CPU("2").Tasks(3).Command(command)
	for _, change := range changes {
		w.Spec(change)
	}
	return w
}

func launcher(s *v1alpha2.MiniClusterSpec)    { s.Containers[0].Launcher = true }
func strict(s *v1alpha2.MiniClusterSpec)      { s.Logging.Strict = true }
func interactive(s *v1alpha2.MiniClusterSpec) { s.Interactive = true }

// loop is a command that runs until the test releases it.
var loop = `echo begun >"$BEGUN"; ` + until(`-e $RELEASE`) + `; echo released`

// until is shell that waits for a condition. Its looks start no process: many commands look at once.
func until(condition string) string {
	return `exec {still}<> <(:); until [[ ` + condition + ` ]]; do read -rt 0.1 -u "$still" || :; done`
}

// All brokers join, and the command runs in every mode.
func TestRunModes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want []string // lines of the lead
		code int
		args []string // of the lead's flux, as the double logs them
	}{
		"submitted": {
			mc:   three(`echo "task $FLUX_TASK_RANK of $FLUX_JOB_SIZE on $FLUX_JOB_NNODES nodes"`),
			want: []string{"task 0 of 3 on 3 nodes", "task 1 of 3 on 3 nodes", "task 2 of 3 on 3 nodes"},
			args: []string{`"-Sbroker.quorum=2"`, `"submit","-N","3","-n","3","/bin/bash"`, `"job","attach","--read-only",`},
		},
		"with the network of the nodes": {
			mc:   three(`echo "task $FLUX_TASK_RANK"`, func(s *v1alpha2.MiniClusterSpec) { s.Pod.HostNetwork = true }),
			want: []string{"task 0", "task 1", "task 2"},
		},
		"with the network of the nodes, and a Flux before 0.82": {
			mc: three(`echo "task $FLUX_TASK_RANK ${FLUX_FAKE_HOSTNAME-has no host}"`, func(s *v1alpha2.MiniClusterSpec) {
				s.Pod.HostNetwork, s.Containers[0].Environment = true, map[string]string{"FAKEFLUX_OLD": "1"}
			}),
			want: []string{"task 0 has no host", "task 1 has no host", "task 2 has no host"},
		},
		"with the names of pods": {
			mc: three(`echo "task $FLUX_TASK_RANK"`, func(s *v1alpha2.MiniClusterSpec) {
				s.Pod.HostNetwork, s.Flux.Bursting.Hostlist = true, "lmp-0-0-0,lmp-w-0-[0-1]"
			}),
			want: []string{"task 0", "task 1", "task 2"},
		},
		"after a hook that waits for its own processes": {
			mc: three(`echo "task $FLUX_TASK_RANK"`, func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Commands.Pre = "sleep 0.1 & wait"
			}),
			want: []string{"task 0"},
		},
		"by a submission of the user's": {
			mc: three(`echo "task $FLUX_TASK_RANK is $X"`, func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.SubmitCommand, s.Flux.OptionFlags = "flux run", `--env=X="a  b"`
			}),
			want: []string{"task 0 is a  b", "task 1 is a  b", "task 2 is a  b"},
		},
		"a launcher": {
			mc:   three("echo \"on $FLUX_MINICLUSTER_NODES\"\nflux run -N 2 bash -c 'echo \"node $FLUX_TASK_RANK\"'\nexit 4", launcher),
			want: []string{"on 3", "node 0", "node 1"}, code: 4,
		},
		"a script": {
			mc: three("", launcher, func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Commands.Script = "f() {\n\techo \"from $1\"\n}\nf there"
			}),
			want: []string{"from there"},
		},
		"a command that fails":         {mc: three("exit $((3 + FLUX_TASK_RANK))"), code: 5},
		"a command that is killed":     {mc: three("kill -KILL $$"), code: 128 + int(syscall.SIGKILL)},
		"a command that cannot be run": {mc: three("exec /no/such/command"), code: 127},
		"a submission that Flux refuses": {
			mc: three("true", func(s *v1alpha2.MiniClusterSpec) { s.Flux.OptionFlags = "--no-such-option" }), code: 2,
		},
		"a job that never fits": {mc: three("true", func(s *v1alpha2.MiniClusterSpec) { s.Flux.OptionFlags = "-c $((1000))" }), code: 1},
		"several jobs": {
			mc:   three(`echo "copy $FLUX_JOB_CC"; exit "$FLUX_JOB_CC"`, func(s *v1alpha2.MiniClusterSpec) { s.Flux.OptionFlags = "--cc=1-2" }),
			want: []string{"copy 1", "copy 2"}, code: 2,
		},
		"a command that fails, strict": {mc: three("false || exit 7", strict), code: 7},
		"a launcher that fails, strict": {
			mc: three("flux submit --watch --quiet bash -c 'exit 6'; code=$?; echo \"code $code\"; exit $code", launcher, strict), want: []string{"code 6"}, code: 6,
		},
		"a command of anything": {
			mc:   three("printf '<%s>\\n' "+shellQuote(nasty)+" | cat && echo 'after it'", func(s *v1alpha2.MiniClusterSpec) { *s.Tasks = 1 }),
			want: append(strings.Split("<"+nasty+">", "\n"), "after it"),
		},
		"with variables and hooks of any name": {
			mc: three(`echo "$DEBUG $MODE $nodes $view $here"`, launcher, func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Environment = map[string]string{"DEBUG": "1", "MODE": "prod", "nodes": "a,b", "view": "v", "exit_code": "0", "LOG_LEVEL": "info"}
				s.Containers[0].Commands.Init = "run() { echo mine; }; lead() { echo mine; }; options=x; export here=there LOG_LEVEL=debug"
			}),
			want: []string{"1 prod a,b v there"},
		},
		"submissions with line ends": {
			mc: three(`echo "task $X"`, func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.SubmitCommand, s.Flux.OptionFlags, s.Containers[0].Commands.Prefix = " flux  run\n", "--env=X=1\n", "env Y=2\n"
			}),
			want: []string{"task 1"},
		},
		"with all that can be set": {
			mc: three("echo done", func(s *v1alpha2.MiniClusterSpec) {
				timeout := "5s"
				s.Flux.ConnectTimeout, s.Flux.Topology, s.Flux.CompleteWorkers = &timeout, "kary:2", true
				s.Flux.DisableSocket, s.Logging.Zeromq, s.Flux.Wrap = true, true, "env,WRAPPED=1"
			}),
			want: []string{"done"},
			args: []string{`"--wrap=env,WRAPPED=1"`, `"-Stbon.topo=kary:2"`, `"-Stbon.connect_timeout=5s"`, `"-Stbon.zmqdebug=1"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].ends(tc.code)
				for _, follower := range pods[1:] {
					follower.ends(0)
				}
				for _, line := range tc.want {
					pods[0].hasLine(line)
				}
				for _, text := range tc.args {
					c.wasCalled(pods[0].host, text)
				}
			})
		})
	}
}

// The log has a line of the command while the command runs.
func TestRunLive(t *testing.T) {
	t.Parallel()
	first := `echo "task $FLUX_TASK_RANK began"; ` + loop + "; exit 3"
	set := func(change func(*v1alpha2.MiniClusterSpec)) *fixture.MiniClusterWrapper { return three(first, change) }
	quiet := func(s *v1alpha2.MiniClusterSpec) { s.Logging.Quiet = true }
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		line string // of the command; "task 1 began" if empty
	}{
		"submitted": {mc: three(first)},
		"quiet":     {mc: set(quiet)},
		"strict":    {mc: set(strict)},
		"debug":     {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Logging.Debug = true })},
		"timed":     {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Logging.Timed = true })},
		"with options": {mc: set(func(s *v1alpha2.MiniClusterSpec) {
			s.Flux.SubmitCommand, s.Flux.OptionFlags = "flux submit --env=X=1", "--env=Y=1"
		})},
		"by flux run":       {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Flux.SubmitCommand = "flux run" })},
		"with a prefix":     {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Commands.Prefix = "env X=1" })},
		"labelled":          {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Logging.LabelIO = true }), line: "1: task 1 began"},
		"labelled flux run": {mc: set(func(s *v1alpha2.MiniClusterSpec) { s.Logging.LabelIO, s.Flux.SubmitCommand = true, "flux run" }), line: "1: task 1 began"},
		"a launcher":        {mc: set(launcher), line: "task  began"},
		"a batch": {mc: set(func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Batch, s.Containers[0].BatchRaw, s.Logging.LabelIO = true, true, true
			s.Containers[0].Command = "unset FLUX_TASK_RANK\n" + s.Containers[0].Command
		}), line: "task  began"},
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].awaitLine(cmp.Or(tc.line, "task 1 began"))
				c.release()
				pods[0].ends(3)
				if name == "quiet" {
					pods[0].hasNot("flux-job:")
				}
			})
		})
	}
}

// Without a command the instance runs until its pods are deleted.
func TestRunInteractive(t *testing.T) {
	t.Parallel()
	for name, mc := range map[string]*fixture.MiniClusterWrapper{"interactive": three("echo not run", interactive), "no command": three("")} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].awaitOnline("3")
				pods[0].awaitReady(true)
				pods[0].terminate()
				pods[0].ends(terminated)
				if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "the container was ended while the command ran\n" {
					t.Errorf("the lead tells %q", told)
				}
				for _, pod := range pods {
					pod.hasNot("not run")
				}
				for _, follower := range pods[1:] {
					follower.ends(0)
				}
			})
		})
	}
}

const nodes = `echo "with $FLUX_MINICLUSTER_NODES of $FLUX_MINICLUSTER_SIZE: $FLUX_MINICLUSTER_TASKS tasks"`

func TestRunLateJoin(t *testing.T) {
	withFlux(t, three(nodes, launcher), func(c *cluster) {
		lead, first, second := c.pod(0), c.pod(1), c.pod(2)
		first.start() // before the lead
		lead.start()
		lead.awaitOnline("2")
		lead.hasNot("Starting")
		second.start()
		lead.ends(0)
		lead.hasLine("with 3 of 3: 3 tasks")
		first.ends(0)
		second.ends(0)
	})
}

// If a broker is missing, the command starts after the controller has lowered the quorum.
func TestRunLoweredQuorum(t *testing.T) {
	withFlux(t, three(nodes), func(c *cluster) {
		lead, follower := c.pod(0), c.pod(2)
		lead.start()
		follower.start()
		lead.awaitOnline("2")
		lead.hasNot("Starting")
		lead.write(QuorumFile, "2")
		lead.ends(0)
		lead.hasLine("with 2 of 3: 2 tasks")
		follower.ends(0)
	})
}

// If a broker is missing and nobody lowers the quorum, the lead starts the command by itself.
func TestRunQuorumTimeout(t *testing.T) {
	soon := func(s *v1alpha2.MiniClusterSpec) { s.Elastic.QuorumTimeout = &metav1.Duration{Duration: time.Second} }
	withFlux(t, three(nodes, soon), func(c *cluster) {
		lead, follower := c.pod(0), c.pod(1)
		lead.start()
		follower.start()
		lead.ends(0)
		lead.hasLine("with 2 of 3: 2 tasks")
		follower.ends(0)
	})
}

// A lead that starts alone, with fewer brokers than are online, drains the ones that have no part.
func TestRunSurplus(t *testing.T) {
	pairs := func(s *v1alpha2.MiniClusterSpec) {
		// Longer than three brokers take to come on a busy machine: one that comes later is not drained.
		s.Size, s.Elastic.QuorumTimeout = 4, &metav1.Duration{Duration: 15 * time.Second}
		s.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
	}
	withFlux(t, three(loop, pairs), func(c *cluster) {
		pods := []*pod{c.pod(0), c.pod(1), c.pod(2)}
		start(pods...)
		c.awaitBegun()
		pods[0].awaitDrained("2")
		c.release()
		pods[0].ends(0)
	})
}

// A launcher goes on without a lost broker, and can use the broker that replaces it.
func TestRunLostFollowerOfLauncher(t *testing.T) {
	withFlux(t, three(loop+"\nflux run -N 3 bash -c 'echo \"again $FLUX_TASK_RANK\"'", launcher), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[2].kill()
		pods[0].awaitOnline("2")
		c.release()
		pods[0].awaitLine("released")
		c.pod(2).start()
		pods[0].ends(0)
		pods[0].hasLine("again 2")
		pods[1].ends(0)
	})
}

// A job on all nodes ends when a broker is lost, and the lead writes down the lost rank.
func TestRunLostFollowerOfJob(t *testing.T) {
	withFlux(t, three(loop), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[2].kill()
		pods[0].ends(terminated)
		pods[0].hasNot("released")
		if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "lost ranks 2\n" {
			c.Errorf("the lead tells %q", told)
		}
		pods[1].ends(0)
	})
}

// A broker that crashes comes back in its pod. But if the MiniCluster is to be run again, it stays away: Flux has ended the
// job, and everybody has to hear of the loss.
func TestRunLostBroker(t *testing.T) {
	t.Parallel()
	t.Run("Continue", func(t *testing.T) {
		withFlux(t, three(loop, launcher), func(c *cluster) {
			pods := c.startAll()
			c.awaitBegun()
			pods[2].awaitReady(true)
			pods[2].killBroker()
			pods[2].awaitLine("The broker ended with exit code 137; starting it again in 1 s")
			c.release()
			pods[0].ends(0)
		})
	})
	t.Run("Recreate", func(t *testing.T) {
		withFlux(t, three(loop, func(s *v1alpha2.MiniClusterSpec) { s.Elastic.OnLoss = v1alpha2.LossRecreate }), func(c *cluster) {
			pods := c.startAll()
			c.awaitBegun()
			pods[2].awaitReady(true)
			pods[2].killBroker()
			pods[0].ends(terminated)
			if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "lost ranks 2\n" {
				c.Errorf("the lead tells %q", told)
			}
			pods[2].ends(128 + int(syscall.SIGKILL))
		})
	})
}

// A follower that starts after the instance has ended waits until its pod is deleted.
func TestRunFollowerAfterTheEnd(t *testing.T) {
	withFlux(t, three("true"), func(c *cluster) {
		pods := []*pod{c.pod(0), c.pod(1)}
		pods[0].write(QuorumFile, "2")
		start(pods...)
		pods[0].ends(0)
		pods[1].ends(0)
		late := c.pod(2)
		late.start()
		late.awaitBroker()
		late.terminate()
		if code := late.endsAnyhow(); code == 0 {
			t.Error("it ended as if it had been there")
		}
	})
}

// A pod that is deleted ends in every phase. A deleted lead never reports success.
func TestRunTerminated(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mc    *fixture.MiniClusterWrapper
		phase func(lead, first, second *pod) // brings the pods into the phase, and ends one of them
		lead  []int                          // its exit codes
		told  string                         // its termination message, if the lead ends before its command
	}{
		"the lead while it waits for the quorum": {three("true"), func(lead, first, _ *pod) {
			lead.start()
			first.start()
			lead.awaitOnline("2")
			lead.terminate()
		}, []int{terminated, hungUp}, "the container was ended\n"}, // Flux may send SIGHUP before the lead's script waits for it
		"the lead while the command runs": {three(loop), func(lead, first, second *pod) {
			start(lead, first, second)
			lead.awaitBegun()
			lead.terminate()
		}, []int{hungUp}, "the container was ended while the command ran\n"},
		"the lead while a launcher runs": {three(loop, launcher, strict), func(lead, first, second *pod) {
			start(lead, first, second)
			lead.awaitBegun()
			lead.terminate()
		}, []int{hungUp}, "the container was ended while the command ran\n"},
		"the lead while a launcher runs that saves its work": {three("trap 'echo saved; exit 5' HUP; "+loop, launcher), func(lead, first, second *pod) {
			start(lead, first, second)
			lead.awaitBegun()
			lead.terminate()
			lead.awaitLine("saved")
		}, []int{5}, "the container was ended while the command ran\n"},
		"a follower before the lead is there": {three("true", func(s *v1alpha2.MiniClusterSpec) { s.MinSize = 1 }), func(lead, first, second *pod) {
			first.start()
			first.awaitBroker()
			first.terminate()
			first.endsAnyhow()
			lead.write(QuorumFile, "2")
			start(lead, second)
		}, []int{0}, ""},
		"a follower while the lead waits for the quorum": {three("true"), func(lead, first, second *pod) {
			start(lead, first)
			lead.awaitOnline("2")
			first.terminate()
			first.ends(terminated)
			lead.awaitOnline("1")
			start(second)
			lead.write(QuorumFile, "2")
		}, []int{0}, ""},
		"a follower while the command runs": {three(loop), func(lead, first, second *pod) {
			start(lead, first, second)
			lead.awaitBegun()
			first.terminate()
			first.ends(terminated)
		}, []int{terminated}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				lead, first, second := c.pod(0), c.pod(1), c.pod(2)
				tc.phase(lead, first, second)
				lead.ends(tc.lead...)
				lead.hasNot("released")
				if told := c.read(filepath.Join(lead.dir, "o", "termination-log")); tc.told != "" && told != tc.told {
					t.Errorf("the lead tells %q", told)
				}
				for _, follower := range []*pod{first, second} {
					if follower.isRunning() {
						follower.ends(0)
					}
				}
			})
		})
	}
}

func start(pods ...*pod) {
	for _, pod := range pods {
		pod.start()
	}
}

// A lead that ends before its quorum reports no success, although Flux ends with 0.
func TestRunTerminatedBeforeQuorum(t *testing.T) {
	withFlux(t, three("true"), func(c *cluster) {
		lead := c.pod(0)
		lead.start()
		lead.awaitBroker()
		lead.terminate()
		if code := lead.endsAnyhow(); code == 0 {
			t.Error("the lead reports success, and the command has not run")
		}
	})
}

// With logging.timed, a lead that is asked to end prints how long it took, and leaves no process.
func TestRunTerminatedTimed(t *testing.T) {
	withFlux(t, three(loop, func(s *v1alpha2.MiniClusterSpec) { s.Logging.Timed = true }), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[0].terminate()
		pods[0].endsAnyhow()
		if left := processes(pods[0].cmd.Process.Pid); len(left) > 0 {
			t.Errorf("%d processes are left", len(left))
		}
		for _, what := range []string{"fluxsubmit", "fluxstart"} {
			if text := "FLUXTIME " + what + " wall time 0:"; !strings.Contains(pods[0].output.String(), text) {
				t.Errorf("it did not print %q", text)
			}
		}
	})
}

// Each line of a batch is a job, and their highest exit code is the result.
func TestRunBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command string
		raw     bool
		code    int
		line    string // of the first job's output, or of the lead's output with batchRaw
	}{
		"lines":     {"-n1 bash -c 'echo \"one  $X\"'\n\n# a remark\n-n1 bash -c 'exit 3'\n-n1 bash -c 'exit 2'", false, 3, "0: one  1"},
		"raw lines": {"echo raw\nflux submit -n1 bash -c 'exit 4'", true, 4, "raw"},
	} {
		t.Run(name, func(t *testing.T) {
			mc := three(tc.command, func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Batch, s.Containers[0].BatchRaw, s.Logging.Debug = true, tc.raw, true
				s.Logging.LabelIO, s.Flux.OptionFlags = true, "-o x"
				s.Containers[0].Commands.BrokerPre = "export X=1"
			})
			withFlux(t, mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].ends(tc.code)
				c.wasCalled(pods[0].host, `"batch","--output=kvs","--error=kvs","-N","3","-n","3","-o","x"`)
				if tc.raw {
					pods[0].hasLine(tc.line)
				} else if text := c.read(filepath.Join(pods[0].dir, "logs/job-0.out")); text != tc.line+"\n" {
					t.Errorf("the first job printed %q, want %q", text, tc.line)
				}
			})
		})
	}
}

// Ranks that are asked to leave are drained, and ranks that may stay after all are undrained.
func TestRunDrains(t *testing.T) {
	withFlux(t, three(loop, launcher), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		for _, ranks := range []string{"1-2", "2", ""} {
			pods[0].write(DrainFile, ranks)
			pods[0].awaitDrained(ranks)
		}
		c.release()
		pods[0].ends(0)
	})
}

// A hook that ends the script is no success: the command has not run.
func TestRunHookThatEndsTheScript(t *testing.T) {
	mc := three("true", func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Commands.BrokerPre = "exit 0" })
	withFlux(t, mc, func(c *cluster) {
		lead := c.pod(0)
		lead.start()
		lead.ends(1)
	})
}
