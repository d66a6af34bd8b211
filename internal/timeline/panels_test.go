// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// drawn returns a drawing of the record and a drawing with two panels of it.
func drawn(t *testing.T, r *Recorder) (alone, panels string) {
	t.Helper()
	var one, both strings.Builder
	if err := errors.Join(r.SVG(&one), Panels(&both, "both", []Panel{{"<first>", "1 & 2", r}, {"second", "", r}})); err != nil {
		t.Fatal(err)
	}
	return one.String(), both.String()
}

func TestPanels(t *testing.T) {
	_, panels := drawn(t, record())
	texts := map[string]int{}
	for _, e := range elements(t, panels) {
		texts[e.text]++
	}
	for _, want := range []string{"both", "1 & 2", "10 s", "idle"} {
		if texts[want] != 1 {
			t.Errorf("%q is there %d times", want, texts[want])
		}
	}
	// <one> holds n9, the first row, and n10 from 1 to 6, and runs from 2 to 5.
	for _, line := range []string{
		`class="held" d="M10 0h10M10 1h10M40 0h20M40 0h20M50 0h10M50 1h10"`, `class="run0" d="M20 0h30M20 1h30"`, `class="run1" d="M60 0h40M60 0h40"`,
	} {
		if strings.Count(panels, line) != 2 {
			t.Errorf("%s is not in both panels of %s", line, panels)
		}
	}
}

// A record that was written and read again is drawn as before.
func TestFile(t *testing.T) {
	text, err := json.Marshal(record())
	if err != nil {
		t.Fatal(err)
	}
	read := &Recorder{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	alone, panels := drawn(t, record())
	aloneAgain, panelsAgain := drawn(t, read)
	if alone != aloneAgain || panels != panelsAgain {
		t.Errorf("the drawing is another one: %s", panelsAgain)
	}
}

func TestPanelsOfNothing(t *testing.T) {
	for name, panels := range map[string][]Panel{"no panel": nil, "an empty one": {{"", "", NewRecorder(nil, noon)}}} {
		var out strings.Builder
		if err := Panels(&out, name, panels); err != nil {
			t.Fatal(err)
		}
		elements(t, out.String())
		if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
			t.Error(out.String())
		}
	}
}
