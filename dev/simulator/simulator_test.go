// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

func TestReadPlay(t *testing.T) {
	ordinary := play{runtime: 10 * time.Second, failsAfter: time.Second, loseAfter: time.Second}
	with := func(change func(*play)) play {
		p := ordinary
		change(&p)
		return p
	}
	ranks, err := idset.Parse("1,3")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        play
		complaint   string
	}{
		"nothing said": {nil, ordinary, ""},
		"all said": {map[string]string{
			Runtime: "90s", ExitCode: "3", Busy: "2s", LeadFails: PhaseRunning, FailsAfter: "5s",
			LoseRanks: "1,3", LoseAfter: "0s", HangsOnLoss: "true",
		}, play{
			runtime: 90 * time.Second, exitCode: 3, busy: 2 * time.Second, fails: PhaseRunning, failsAfter: 5 * time.Second,
			lose: ranks, hangs: true,
		}, ""},
		"over at once":         {map[string]string{Runtime: "0s"}, with(func(p *play) { p.runtime = 0 }), ""},
		"hangs not":            {map[string]string{HangsOnLoss: "false"}, ordinary, ""},
		"no duration":          {map[string]string{Runtime: "soon"}, play{}, `annotation sim.flux-framework.org/runtime of pod lead: "soon" is not a valid duration`},
		"a negative duration":  {map[string]string{Runtime: "-1s"}, play{}, "is not a valid duration"},
		"no number":            {map[string]string{ExitCode: "bad"}, play{}, `annotation sim.flux-framework.org/exit-code of pod lead: "bad" is not a valid number`},
		"too large for a code": {map[string]string{ExitCode: "99999999999"}, play{}, "is not a valid number"},
		"no phase":             {map[string]string{LeadFails: "later"}, play{}, `annotation sim.flux-framework.org/lead-fails of pod lead: "later" is not a valid phase`},
		"no ranks":             {map[string]string{LoseRanks: "*"}, play{}, "is not a valid set of ranks"},
		"no truth":             {map[string]string{HangsOnLoss: "often"}, play{}, "is not a valid truth value"},
		"two mistakes":         {map[string]string{Runtime: "soon", HangsOnLoss: "often"}, play{}, `runtime of pod lead: "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readPlay(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lead", Annotations: tc.annotations}})
			if (err == nil) != (tc.complaint == "") || (err != nil && !strings.Contains(err.Error(), tc.complaint)) {
				t.Fatalf("error %v, want %q", err, tc.complaint)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The simulator reads the same settings as the lead's script, from the same files. Half the tasks take
// twice as long.
func TestSettings(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(8).MinSize(2).Tasks(64).Defaulted()
	files, err := broker.Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseSettings(broker.ParseSettings(files), false)
	if err != nil {
		t.Fatal(err)
	}
	if s.sizing.Min != 2 || s.sizing.Size != 8 || s.sizing.Tasks.AtSize != 64 || s.quorumTimeout != 2*time.Minute || s.retries != 0 {
		t.Errorf("settings %+v", s)
	}
	for nodes, want := range map[int]time.Duration{8: 10 * time.Second, 4: 20 * time.Second, 2: 40 * time.Second} {
		if got := s.stretch(10*time.Second, nodes); got != want {
			t.Errorf("on %d nodes it runs for %s, want %s", nodes, got, want)
		}
	}
	s.sizing.Tasks.AtSize = 0 // Flux chooses: a task per node
	if got := s.stretch(10*time.Second, 2); got != 40*time.Second {
		t.Errorf("a task per node, on a quarter of the nodes it runs for %s", got)
	}
	if _, err := parseSettings(map[string]string{"SIZE": "x"}, false); err == nil || !strings.Contains(err.Error(), "setting SIZE") {
		t.Errorf("error %v", err)
	}
}

// The brokers that are online share the rest of the work.
func TestShare(t *testing.T) {
	at := fixture.Noon
	r := &run{work: func(runtime time.Duration) time.Duration { return 4 * runtime }, at: at}
	for _, step := range []struct {
		after time.Duration
		hands int
		end   time.Duration
	}{{0, 4, 10 * time.Second}, {5 * time.Second, 2, 15 * time.Second}, {10 * time.Second, 5, 12 * time.Second}, {12 * time.Second, 5, 12 * time.Second}} {
		r.share(step.hands, 10*time.Second, at.Add(step.after))
		if got := r.end.Sub(at); got != step.end {
			t.Errorf("with %d after %s it ends after %s, want %s", step.hands, step.after, got, step.end)
		}
	}
}
