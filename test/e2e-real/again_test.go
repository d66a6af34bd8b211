// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// halo runs the MPI program, which waits before its last step. Of the double, whose tasks are all in the lead's pod, the
// first starts MPI.
const halo = `export HALO_GATE=/gate/end; halo="halo 60 2000 50"
if flux version | grep -q fakeflux; then
  [[ $FLUX_TASK_RANK == 0 ]] || exit 0
  halo="mpiexec -n $FLUX_MINICLUSTER_TASKS $halo"
fi
exec $halo`

// testAgain: whatever happens to an MPI program that writes checkpoints, its result is that of a program that runs alone.
func testAgain(c *cluster) {
	c.must("create", "priorityclass", "urgent", "--value=100")
	c.Cleanup(func() {
		_, _ = c.kubectlIn(context.WithoutCancel(c.Context()), "delete", "priorityclass", "urgent")
	})
	alone := c.make("alone", mpi, command(halo), "size: 1, tasks: 1")
	alone.open("end")
	alone.awaitEnd(v1alpha2.ReasonSucceeded)
	right := checksum.FindString(alone.log())
	for name, part := range map[string]func(c *cluster) *miniCluster{
		"scaled": (*cluster).scaled, "shared": (*cluster).shared, "evicted": (*cluster).evicted,
		"node": (*cluster).losesNode, "never": (*cluster).neverSaves,
	} {
		c.T.Run(name, func(t *testing.T) {
			m := part(c.in(t))
			m.open("end")
			m.awaitEnd(v1alpha2.ReasonSucceeded)
			if got := checksum.FindString(m.log()); got != right || right == "" {
				m.Errorf("its result has %s, and alone it has %s", got, right)
			}
			for _, run := range m.get().Status.Restarts {
				m.Logf("from %d to %d brokers in %d s: %s", run.From, run.To, *run.Seconds, run.Reason)
			}
		})
	}
}

var checksum = regexp.MustCompile(`checksum \w+: right`)

// begun matches what the program prints when it begins, and captures the step and the number of ranks.
var begun = regexp.MustCompile(`halo: goes on with step (\d+), with (\d+) ranks`)

// onSignal says how the program writes a checkpoint.
const onSignal = "signal: SIGUSR1, wait: 1m"

// saving makes a MiniCluster of four brokers on four nodes, whose program writes checkpoints.
func (c *cluster) saving(spec, checkpoint string) *miniCluster {
	c.Helper()
	return c.make("halo", mpi, wholeNode(c)+", "+command(halo), "size: 4, tasks: 4, "+spec+", checkpoint: {path: /gate, "+checkpoint+"}}")
}

// computes waits until the program has begun for the n-th time, and the manager knows that it runs. It returns the step
// from which the program goes on.
func (m *miniCluster) computes(n, ranks int) (step int) {
	m.Helper()
	asked := machineClock.Now()
	eventually(m.T, fmt.Sprintf("%s computes with %d ranks", m.name, ranks), func() error {
		lead := m.pod(0)
		if lead.DeletionTimestamp != nil {
			return errors.New("its last lead is there")
		}
		log, err := m.logOf(lead)
		runs := begun.FindAllStringSubmatch(log, -1)
		if err != nil || len(runs) < n {
			return errors.Join(fmt.Errorf("it has begun %d times", len(runs)), err)
		}
		last := runs[len(runs)-1]
		step, err = strconv.Atoi(last[1])
		return errorUnless(last[2] == strconv.Itoa(ranks), last[0], err)
	})
	m.Logf("it computes with %d ranks after %s", ranks, machineClock.Since(asked))
	m.is("runs again", func(mc *v1alpha2.MiniCluster) bool {
		a := mc.Status.Admission
		asAsked := a != nil && a.Restart == nil && int(a.Quorum) == ranks && int(mc.Status.Size) == ranks
		return asAsked && strings.HasPrefix(m.state(mc), v1alpha2.StateRunning+":")
	})
	return step
}

// scaled: the program is where the user wants it, also if the user changes that while it is run again.
func (c *cluster) scaled() *miniCluster {
	m := c.saving("minSize: 1, elastic: {resize: Restart", onSignal)
	m.computes(1, 4)
	scale := func(n int) { c.must("scale", "minicluster", m.name, "--replicas="+strconv.Itoa(n)) }
	scale(2)
	step := m.computes(2, 2)
	scale(4)
	if next := m.computes(3, 4); next < step || next == 0 {
		c.Errorf("it goes on from step %d, and from step %d later", step, next)
	}
	scale(3)
	m.is("is run again", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission.Restart != nil || mc.Status.Admission.Quorum == 3
	})
	scale(1)
	m.computes(4, 1)
	return m
}

// shared: a more urgent one gets the brokers above the minimum, and gives them back.
func (c *cluster) shared() *miniCluster {
	m := c.saving("minSize: 2, elastic: {resize: Restart", onSignal)
	m.computes(1, 4)
	other := c.urgent(2)
	other.awaitRunning()
	m.computes(2, 2)
	other.open("go")
	if step := m.computes(3, 4); step == 0 {
		c.Error("it began anew")
	}
	return m
}

// evicted: a more urgent one needs all nodes, and has them once the checkpoint is written.
func (c *cluster) evicted() *miniCluster {
	m := c.saving("elastic: {onLoss: Recreate", onSignal)
	m.computes(1, 4)
	other := c.urgent(4)
	other.awaitRunning()
	if said := m.told("Warned"); !strings.Contains(said, "urgent") {
		c.Errorf("it was told %q", said)
	}
	other.open("go")
	if step := m.computes(1, 4); step == 0 {
		c.Error("it began anew")
	}
	m.is("has begun twice", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Runs == 2 && mc.Status.CheckpointTime != nil })
	return m
}

// urgent makes a MiniCluster that goes before others, and runs until it may go.
func (c *cluster) urgent(size int) *miniCluster {
	c.Helper()
	return c.make("urgent", double, wholeNode(c)+", "+command(until("go")), fmt.Sprintf("size: %d, priorityClassName: urgent", size))
}

// losesNode: the program goes on without a node that loses its power, and with another one.
func (c *cluster) losesNode() *miniCluster {
	m := c.make("halo", mpi, wholeNode(c)+", "+command(halo), "size: 3, tasks: 3, minSize: 2, elastic: {resize: Restart, checkpoint: {path: /gate, wait: 20s}}")
	m.computes(1, 3)
	if _, err := m.exec(0, processes("halo", "kill -USR1")); err != nil {
		c.Fatal(err)
	}
	m.says("halo: checkpoint at step ")
	m.is("has a checkpoint", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.CheckpointTime != nil })
	node := m.pod(2).Spec.NodeName
	if err := c.Kill(c.Context(), node); err != nil {
		c.Fatal(err)
	}
	c.startAgain(node)
	m.is("has lost it", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Runs > 1 })
	if step := m.computes(2, 3); step == 0 {
		c.Error("it began anew")
	}
	if mc := m.get(); len(mc.Status.Attempts) > 0 {
		c.Errorf("its attempts are %+v", mc.Status.Attempts)
	}
	return m
}

// neverSaves: a program that does not heed the signal is ended after its time, and begins anew.
func (c *cluster) neverSaves() *miniCluster {
	m := c.saving("minSize: 1, elastic: {resize: Restart", "signal: SIGURG, wait: 20s")
	m.computes(1, 4)
	c.must("scale", "minicluster", m.name, "--replicas=2")
	if step := m.computes(2, 2); step != 0 {
		c.Errorf("it goes on from step %d", step)
	}
	m.says("It is not known whether the command has written a checkpoint")
	return m
}
