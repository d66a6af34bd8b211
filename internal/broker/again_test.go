// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// program is an MPI program in shell: it goes on from its checkpoint, which only its first task writes, and ends when the
// test releases it. HANDLE says what it does when it is asked for a checkpoint.
var program = `cat >"$RUNS.$FLUX_TASK_RANK" <<'END'
[[ $FLUX_TASK_RANK != 0 ]] || echo "run $FLUX_MINICLUSTER_RESTART on $FLUX_MINICLUSTER_NODES with $FLUX_MINICLUSTER_TASKS from $(cat "$FLUX_MINICLUSTER_CHECKPOINT/step" 2>/dev/null)"
echo "task $FLUX_TASK_RANK" >>"$RUNS"
write() { [[ $FLUX_TASK_RANK != 0 ]] || echo "step $((FLUX_MINICLUSTER_RESTART + 1))" >"$FLUX_MINICLUSTER_CHECKPOINT/step"; }
trap 'HANDLE' USR1
: >"$RUNS.up.$FLUX_MINICLUSTER_RESTART.$FLUX_TASK_RANK"
if [[ $FLUX_TASK_RANK == 0 ]]; then
	for ((i = 1; i < FLUX_MINICLUSTER_TASKS; i++)); do ` + until("-e $RUNS.up.$FLUX_MINICLUSTER_RESTART.$i") + `; done
	echo begun >"$BEGUN"
fi
` + until("-e $RELEASE") + `
END
bash "$RUNS.$FLUX_TASK_RANK"
code=$?
echo "task $FLUX_TASK_RANK ended with $code"
exit "$code"`

// again returns a MiniCluster of three brokers whose command is run again with other brokers.
func again(handle string, changes ...func(*v1alpha2.MiniClusterSpec)) *fixture.MiniClusterWrapper {
	mc := three(strings.ReplaceAll(program, "HANDLE", handle), func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Resize = v1alpha2.ResizeRestart
		s.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Path: "/ckpt", Wait: &metav1.Duration{Duration: 30 * time.Second}}
	})
	for _, change := range changes {
		mc.Spec(change)
	}
	return mc
}

func rigidStart(s *v1alpha2.MiniClusterSpec) { s.MinSize = 1 }

// probe plays the readiness probe of a lead until the test ends.
func (p *pod) probe() {
	ticker := time.NewTicker(period)
	go func() {
		defer ticker.Stop()
		for p.context.Err() == nil {
			if p.has("ready") {
				p.touch("ready.seen")
			} else if p.has("began") {
				p.miss()
			}
			<-ticker.C
		}
	}()
}

// A program that writes checkpoints all the time is ready as long as its checkpoints are not told, for a probe that
// looks at times.
func TestRunManyCheckpoints(t *testing.T) {
	mc := again("", func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Resize, s.Elastic.Checkpoint.Signal = "", "" })
	withFlux(t, mc, func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		for range 2 {
			c.await("the probe to see a lead that is ready", func() bool { c.save("ckpt/.written", ""); return pods[0].has("ready") })
			before := pods[0].made("ready")
			looks := 40 // of a lead that looks several times in this time
			c.await("a checkpoint that is not told", func() bool {
				c.save("ckpt/.written", "")
				looks--
				return looks == 0
			})
			if made := pods[0].made("ready"); !made.Equal(before) {
				t.Errorf("the file was made at %s, and at %s again before it was seen", before, made)
			}
			pods[0].touch("ready.seen")
			c.await("the lead not to be ready", func() bool { return !pods[0].has("ready") })
			pods[0].miss()
			pods[0].miss()
		}
		c.release()
		pods[0].ends(0)
	})
}

// touch makes a file of the run directory, or adds to it.
func (p *pod) touch(name string, text ...byte) {
	mc := p.mc.Defaulted()
	mc.Spec.Flux.Container.MountPath = filepath.Join(p.cluster.dir, p.dir, "v")
	file, err := os.OpenFile(filepath.Join(filepath.Dir(ReadyFile(mc)), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the directory goes at the end
	}
	_, _ = file.Write(text)
	_ = file.Close()
}

// miss plays a look of the probe at a pod that is not ready.
func (p *pod) miss() { p.touch("ready.missed", '.') }

// order tells the lead to run the command again.
func (p *pod) order(quorum, drain, restart string) {
	p.Helper()
	p.write(QuorumFile, quorum)
	p.write(DrainFile, drain)
	p.write(RestartFile, restart)
}

// awaitAgain waits until the lead's pod was not ready and is ready again.
func (p *pod) awaitAgain(since time.Time) {
	p.Helper()
	p.await(p.host+" to be ready again", func() bool { return p.made("ready").After(since) })
}

// The command ends after its checkpoint, and runs again with the ranks that it was told, from the checkpoint.
func TestRunAgain(t *testing.T) {
	withFlux(t, again("write; exit 0", rigidStart), func(c *cluster) {
		pods := c.startAll()
		pods[0].probe()
		c.awaitBegun()
		pods[0].awaitLine("run 0 on 3 with 3 from ")
		before := pods[0].made("ready")

		pods[0].order("2", "1", "1 0,2")
		c.awaitBegun()
		pods[0].awaitLine("run 1 on 2 with 2 from step 1")
		pods[0].awaitAgain(before)
		pods[1].awaitReady(false)
		pods[2].isReady(true)

		before = pods[0].made("ready")
		pods[0].order("3", "", "2 0-2")
		c.awaitBegun()
		pods[0].awaitLine("run 2 on 3 with 3 from step 2")
		pods[0].awaitAgain(before)
		pods[1].awaitReady(true)

		c.release()
		pods[0].ends(0)
		if tasks := strings.Count(c.read("runs"), "\n"); tasks != 8 {
			t.Errorf("%d tasks ran, want 3, 2 and 3", tasks)
		}
	})
}

// However the program takes the question for a checkpoint, it runs again.
func TestRunAgainAsked(t *testing.T) {
	t.Parallel()
	command := func(text string) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) {
			s.Elastic.Checkpoint.Signal, s.Elastic.Checkpoint.Command = "", text
		}
	}
	soon := func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Checkpoint.Wait.Duration = time.Second }
	const unknown = "It is not known whether the command has written a checkpoint"
	for name, tc := range map[string]struct {
		handle  string
		changes []func(*v1alpha2.MiniClusterSpec)
		from    string
		want    string // line of the log, or none
	}{
		"it ends":                       {"write; exit 0", nil, "step 1", ""},
		"it fails while writing":        {"exit 9", nil, "", "The command failed with exit code 9 while it wrote a checkpoint, and is run once more"},
		"it tells and goes on":          {`write; [[ $FLUX_TASK_RANK != 0 ]] || : >"$FLUX_MINICLUSTER_CHECKPOINT_WRITTEN"`, nil, "step 1", ""},
		"it never ends":                 {":", []func(*v1alpha2.MiniClusterSpec){soon}, "", unknown},
		"the signal ends it":            {"kill -KILL $$", nil, "", "The command has to end, and will run again on ranks 0-1"},
		"a command asks":                {"", []func(*v1alpha2.MiniClusterSpec){command(`echo "step 8" >"$FLUX_MINICLUSTER_CHECKPOINT/step"`)}, "step 8", ""},
		"a command asks, in two tries":  {"", []func(*v1alpha2.MiniClusterSpec){command(`[[ -e $FLUX_MINICLUSTER_CHECKPOINT/one ]] && echo "step 8" >"$FLUX_MINICLUSTER_CHECKPOINT/step" || ! : >"$FLUX_MINICLUSTER_CHECKPOINT/one"`)}, "step 8", ""},
		"a command fails, twice":        {"", []func(*v1alpha2.MiniClusterSpec){command(`false`)}, "", unknown},
		"nobody can ask":                {"", []func(*v1alpha2.MiniClusterSpec){command("")}, "", ""},
		"it takes SIGTERM for a signal": {"", []func(*v1alpha2.MiniClusterSpec){func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Checkpoint.Signal = "SIGTERM" }}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, again(tc.handle, append(tc.changes, rigidStart)...), func(c *cluster) {
				pods := c.startAll()
				pods[0].probe()
				c.awaitBegun()
				pods[0].order("2", "2", "1 0-1")
				c.awaitBegun()
				pods[0].awaitLine("run 1 on 2 with 2 from " + tc.from)
				if tc.want != "" {
					pods[0].awaitLine(tc.want)
				}
				c.release()
				pods[0].ends(0)
			})
		})
	}
}

// Once there may be a checkpoint, another command goes on from it.
func TestRunAgainWithAnotherCommand(t *testing.T) {
	mc := again("exit 0", rigidStart, func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Checkpoint.RestartCommand = `echo "goes on from $(cat "$FLUX_MINICLUSTER_CHECKPOINT/step")"; echo begun >"$BEGUN"`
	})
	withFlux(t, mc, func(c *cluster) {
		pods := c.startAll()
		pods[0].probe()
		c.awaitBegun()
		pods[0].order("3", "", "1 0-2") // nothing was written
		c.awaitBegun()
		pods[0].awaitLine("run 1 on 3 with 3 from ")
		c.save("ckpt/step", "step 5\n")
		pods[0].order("3", "", "2 0-2")
		c.awaitBegun()
		pods[0].ends(0)
		pods[0].awaitLine("goes on from step 5")
	})
}

// A second order while the first is carried out: the command ends up with the brokers of the second.
func TestRunAgainTwice(t *testing.T) {
	withFlux(t, again(until("-e $RUNS.told")+"; write; exit 0", rigidStart), func(c *cluster) {
		pods := c.startAll()
		pods[0].probe()
		c.awaitBegun()
		pods[0].order("2", "2", "1 0-1")
		pods[0].awaitLine("The command has to end, and will run again on ranks 0-1")
		pods[0].order("1", "1-2", "2 0")
		c.save("runs.told", "")
		pods[0].awaitLine("run 2 on 1 with 1 from step 1")
		c.release()
		pods[0].ends(0)
	})
}

// A command that is asked to end for good while it ends to be run again is not begun once more.
func TestRunAgainAndStopped(t *testing.T) {
	withFlux(t, again(until("-e $RUNS.told")+"; write; exit 0", rigidStart), func(c *cluster) {
		pods := c.startAll()
		pods[0].probe()
		c.awaitBegun()
		pods[0].order("2", "2", "1 0-1")
		pods[0].awaitLine("The command has to end, and will run again on ranks 0-1")
		pods[0].write(StopFile, "Suspended 45")
		c.save("runs.told", "")
		pods[0].ends(terminated)
		pods[0].hasNot("run 1 on")
		if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "the command ended as it was asked to, after a checkpoint\n" {
			c.Errorf("the lead tells %q", told)
		}
	})
}

// After the loss of a broker the command runs again with the others at once. What the controller says then changes nothing.
func TestRunAgainAfterLoss(t *testing.T) {
	withFlux(t, again("write; exit 0", rigidStart), func(c *cluster) {
		pods := c.startAll()
		pods[0].probe()
		c.awaitBegun()
		pods[2].kill()
		c.awaitBegun()
		pods[0].awaitLine("run 1 on 2 with 2 from ")
		before := pods[0].made("ready")
		pods[0].order("2", "2", "1 0-1")
		pods[0].awaitAgain(before)

		pods[0].write(DrainFile, "")
		c.pod(2).start() // in a new pod
		pods[0].awaitOnline("3")
		pods[0].order("3", "", "2 0-2")
		c.awaitBegun()
		pods[0].awaitLine("run 2 on 3 with 3 from step 2")
		c.release()
		pods[0].ends(0)
	})
}

// With too few brokers left, or if the command fails by itself, its end is the end.
func TestRunAgainNot(t *testing.T) {
	t.Parallel()
	t.Run("too few are left", func(t *testing.T) {
		withFlux(t, again("", func(s *v1alpha2.MiniClusterSpec) { s.MinSize = 3 }), func(c *cluster) {
			pods := c.startAll()
			c.awaitBegun()
			pods[2].kill()
			pods[0].endsAnyhow()
			if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "lost ranks 2\n" {
				c.Errorf("the lead tells %q", told)
			}
		})
	})
	t.Run("it fails by itself", func(t *testing.T) {
		mc := again("", func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Command = "exit 4" })
		withFlux(t, mc, func(c *cluster) {
			c.startAll()[0].ends(4)
		})
	})
	t.Run("it fails again after it failed at its checkpoint", func(t *testing.T) {
		mc := again("exit 9", func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Checkpoint.RestartCommand = "exit 5" }, rigidStart)
		withFlux(t, mc, func(c *cluster) {
			c.save("ckpt/step", "")
			pods := c.startAll()
			c.awaitBegun()
			pods[0].order("2", "2", "1 0-1")
			pods[0].ends(5)
			if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != "the command failed after its checkpoint\n" {
				c.Errorf("the lead tells %q", told)
			}
		})
	})
}

// A command that has to make room may write a checkpoint first. All of its tasks get the signals.
func TestRunStoppedWithCheckpoint(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		stop string
		told string
	}{
		"in time":          {again("write; exit 0"), "Preempted 45", "the command ended as it was asked to, after a checkpoint\n"},
		"not in time":      {again("sleep 60"), "Preempted 17", "the command ended as it was asked to\n"},
		"no time for that": {again("write; exit 0"), "DeadlineExceeded 15", "the command ended as it was asked to\n"},
		"no checkpoints":   {three(loop), "Reclaimed 30", "the command ended as it was asked to\n"},
		"a launcher":       {three(loop, launcher), "Reclaimed 30", "the command ended as it was asked to\n"},
	} {
		t.Run(name, func(t *testing.T) {
			withFlux(t, tc.mc, func(c *cluster) {
				pods := c.startAll()
				c.awaitBegun()
				pods[0].write(StopFile, tc.stop)
				pods[0].ends(terminated)
				if told := c.read(filepath.Join(pods[0].dir, "o", "termination-log")); told != tc.told {
					c.Errorf("the lead tells %q", told)
				}
				pods[0].hasNot("released")
			})
		})
	}
}

// A program that gets SIGTERM ends before the shell that runs it, so that it may still write something.
func TestRunStoppedAndTold(t *testing.T) {
	command := `cat >"$RUNS.$FLUX_TASK_RANK" <<'END'
trap 'sleep 1; echo "task $FLUX_TASK_RANK has cleaned up"; exit 0' TERM
echo "task $FLUX_TASK_RANK began"
[[ $FLUX_TASK_RANK != 0 ]] || echo begun >"$BEGUN"
while :; do sleep 0.1; done
END
bash "$RUNS.$FLUX_TASK_RANK"
echo "not run"`
	withFlux(t, three(command), func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		for _, rank := range []string{"1", "2"} {
			pods[0].awaitLine("task " + rank + " began")
		}
		pods[0].write(StopFile, "Preempted 30")
		pods[0].ends(terminated)
		for _, rank := range []string{"0", "1", "2"} {
			pods[0].hasLine("task " + rank + " has cleaned up")
		}
		pods[0].hasNot("not run")
	})
}

// While the command runs, it is asked for a checkpoint now and then, and the pod shows when it has written one.
func TestRunCheckpoints(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha2.Checkpoint){
		"asked":     func(c *v1alpha2.Checkpoint) { c.Command, c.Interval = "true", &metav1.Duration{Duration: time.Second} },
		"by itself": func(*v1alpha2.Checkpoint) {},
	} {
		t.Run(name, func(t *testing.T) {
			mc := again("", func(s *v1alpha2.MiniClusterSpec) {
				s.Elastic.Resize, s.Elastic.Checkpoint.Signal = "", ""
				change(s.Elastic.Checkpoint)
			})
			withFlux(t, mc, func(c *cluster) {
				pods := c.startAll()
				pods[0].probe()
				c.awaitBegun()
				for range 2 {
					before := pods[0].made("ready")
					if name == "by itself" {
						c.save("ckpt/.written", "")
					}
					pods[0].awaitAgain(before)
				}
				c.release()
				pods[0].ends(0)
			})
		})
	}
}

// A checkpoint command that fails is tried again, and its checkpoint counts once the command did well.
func TestRunCheckpointThatFails(t *testing.T) {
	mc := again("", rigidStart, func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Checkpoint.Signal = ""
		s.Elastic.Checkpoint.Command = `[[ -e $BEGUN.failed ]] || { echo >"$BEGUN.failed"; exit 1; }; echo "checkpoint after a failure"`
	})
	withFlux(t, mc, func(c *cluster) {
		pods := c.startAll()
		c.awaitBegun()
		pods[0].order("2", "2", "1 0-1")
		pods[0].awaitLine("checkpoint after a failure")
		c.release()
		pods[0].ends(0)
		pods[0].hasNot("It is not known")
	})
}

// The lead knows the end and the exit code of its command, however many signals come meanwhile.
func TestCommandEndsAmongSignals(t *testing.T) {
	t.Parallel()
	const commands, times = 20, 5000
	files, err := Files(fixture.MiniCluster("lmp").Defaulted(), 1)
	if err != nil {
		t.Fatal(err)
	}
	out := bash(t, files, fmt.Sprintf(`. "$FLUX_OPERATOR_DIR/common.sh"
. "$FLUX_OPERATOR_DIR/again.sh"
look() { :; }
fe_signals=0
trap '((fe_signals += 1))' HUP
while ((SECONDS < 120)) && kill -HUP $$; do for ((k = RANDOM %% 40; k > 0; k--)); do :; done; done &
signals=$!
declare -A codes
for ((i = 0; i < %d; i++)); do
	{ fe_pause 0.02; exit 5; } &
	fe_command=$!
	attend
	((codes[$fe_code] += 1))
done
for ((i = 0; i < %d; i++)); do # it has ended already
	attend
	((codes[$fe_code] += 1))
done
kill "$signals"
declare -p codes
`, commands, times))
	if want := fmt.Sprintf("declare -A codes=([5]=%q )\n", fmt.Sprint(commands+times)); out != want {
		t.Errorf("%s, want %s", out, want)
	}
}
