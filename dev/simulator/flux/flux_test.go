// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// The settings are those of the lead's script, from the same files. Half the tasks take
// twice as long.
func TestSettings(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(8).MinSize(2).Tasks(64).Defaulted()
	files, err := broker.Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadSettings(files)
	if err != nil {
		t.Fatal(err)
	}
	if s.Sizing.Min != 2 || s.Sizing.Size != 8 || s.Sizing.Tasks.AtSize != 64 || s.QuorumTimeout != 2*time.Minute {
		t.Errorf("settings %+v", s)
	}
	for nodes, want := range map[int]time.Duration{8: 10 * time.Second, 4: 20 * time.Second, 2: 40 * time.Second} {
		if got := s.stretch(10*time.Second, nodes); got != want {
			t.Errorf("on %d nodes it runs for %s, want %s", nodes, got, want)
		}
	}
	s.Sizing.Tasks.AtSize = 0 // Flux chooses: a task per node
	if got := s.stretch(10*time.Second, 2); got != 40*time.Second {
		t.Errorf("a task per node, on a quarter of the nodes it runs for %s", got)
	}
	if _, err := ReadSettings(map[string]string{"settings.sh": "SIZE='x'\n"}); err == nil || !strings.Contains(err.Error(), "setting SIZE") {
		t.Errorf("error %v", err)
	}
}

// The brokers that are online share the rest of the work.
func TestShare(t *testing.T) {
	at := fixture.Noon
	l := &Lead{work: func(runtime time.Duration) time.Duration { return 4 * runtime }, at: at}
	for _, step := range []struct {
		after time.Duration
		hands int
		end   time.Duration
	}{{0, 4, 10 * time.Second}, {5 * time.Second, 2, 15 * time.Second}, {10 * time.Second, 5, 12 * time.Second}, {12 * time.Second, 5, 12 * time.Second}} {
		l.share(step.hands, 10*time.Second, at.Add(step.after))
		if got := l.end.Sub(at); got != step.end {
			t.Errorf("with %d after %s it ends after %s, want %s", step.hands, step.after, got, step.end)
		}
	}
}
