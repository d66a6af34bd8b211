// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// A user with the role edit in one namespace draws what ran there.
func TestTimelineOfUser(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	p := s.userProgram()
	c := s.impersonate(p.user)
	running := s.createAs(c, s.miniCluster("runs").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(running, v1alpha2.StateRunning)
	waiting := s.createAs(c, s.miniCluster("waits").Size(2))
	s.awaitState(waiting, v1alpha2.StateQueued)

	path := filepath.Join(t.TempDir(), "nodes.svg")
	code, _, text := p.run("", "timeline", path)
	if code != 0 || !strings.Contains(text, "you may not list nodes") || strings.Contains(text, "events") {
		t.Fatalf("exit code %d, and it says %q", code, text)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"runs, ranks 0-1 on " + hostlist.Encode(s.nodes[:2]), "waits waited from"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("without %q: %s", want, svg)
		}
	}
}
