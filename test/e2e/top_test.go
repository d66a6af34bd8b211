// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// A user of one namespace watches in a terminal what runs, and what waits.
func TestTop(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	p := s.userProgram()
	watched := s.create(s.miniCluster("watched").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(watched, v1alpha2.StateRunning)
	p.expect(1, []string{"top"}, "top needs a terminal")

	terminal := harness.NewTerminal(t, p.command("top", "--interval=1s"), 30, 100)
	terminal.Await("MiniClusters of namespace "+s.namespace, "watched", "Running", "2/2", "Without the right to list queues, reservations, nodes")
	waits := s.create(s.miniCluster("waits").Size(2))
	s.awaitState(waits, v1alpha2.StateQueued)
	terminal.Await("1 Queued")
	terminal.Type("\t")
	terminal.Await("Needs room for 2 brokers")
	columns := uint16(100)
	press := func(key string, texts ...string) {
		t.Helper()
		terminal.Type(key)
		eventually(t, func() error {
			columns = 201 - columns
			terminal.Resize(30, columns)
			return terminal.Shows(texts...)
		})
	}
	press("w", "why waits", "Reason: NoRoom")
	press("q", "Needs room for 2 brokers", "Without the right to list")
	press("d", "y deletes "+s.namespace+"/waits")
	terminal.Type("y")
	s.awaitGone(waits)
	press("s", "Nobody waits.")
	terminal.Type("/")
	terminal.Await("▏")
	terminal.Type("\x03")
	if code := terminal.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
