// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// shown is what a display prints in a minute, in which a run ends.
func shown(width int) string {
	var out bytes.Buffer
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &display{out: &out, width: func() int { return width }}
	counts := core.Counts{Pending: 7, Waiting: 1, Running: 2}
	d.begin(counts, now)
	d.progress(counts, "", now)
	counts.Running, counts.Recorded = 1, 1
	d.ended(&core.Record{Name: "a-1", State: v1alpha2.StateSucceeded}, &core.Definition{}, counts)
	d.progress(counts, "3 of the runs did not succeed", now.Add(time.Minute))
	d.end("the end")
	return out.String()
}

// On a terminal, a line below all others changes. It is never longer than the terminal is wide.
func TestDisplay(t *testing.T) {
	want := "0 of 10 runs done, 0 failed, 2 running, 1 waiting"
	if got := shown(200); !strings.Contains(got, "\r\x1b[K"+want) || !strings.Contains(got, "\r\x1b[K 1/10 a-1 Succeeded\n"+want) || !strings.HasSuffix(got, "9m0s left; no more are submitted: 3 of the runs did not succeed\r\x1b[Kthe end\n") {
		t.Errorf("on a terminal: %q", got)
	}
	for part := range strings.SplitSeq(shown(30), "\r\x1b[K") {
		if last := part[strings.LastIndex(part, "\n")+1:]; lipgloss.Width(last) >= 30 {
			t.Errorf("%q changes, and is too long", last)
		}
	}
	got := shown(0)
	if wanted := " 1/10 a-1 Succeeded\n1 of 10 runs done, 0 failed, 1 running, 1 waiting; 1 a minute, 9m0s left; no more are submitted: 3 of the runs did not succeed\nthe end\n"; got != "0 of 10 runs are recorded, and 3 are in the cluster\n"+wanted {
		t.Errorf("without a terminal: %q", got)
	}
}
