// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPanels(t *testing.T) {
	svg := string(Panels("both", []Panel{{"<first>", "1 & 2", record()}, {"second", "", record()}}).File())
	texts := map[string]int{}
	for _, e := range elements(t, svg) {
		texts[e.text]++
	}
	for _, want := range []string{"both", "1 & 2", "<first>", "second", "10", "idle"} {
		if texts[want] != 1 {
			t.Errorf("%q is there %d times", want, texts[want])
		}
	}
	// <one> and two hold in each panel, <one> has the first shade, and two the second one.
	for class, want := range map[string]int{`rect class="c1" x`: 2*5 + 1, `rect class="c0" x`: 2*2 + 1, `rect class="c0 tint1" x`: 2} {
		if got := strings.Count(svg, class); got != want {
			t.Errorf("%d times %s, want %d, in %s", got, class, want, svg)
		}
	}
}

// A record that was written and read again is drawn as before.
func TestFile(t *testing.T) {
	text, err := json.Marshal(record())
	if err != nil {
		t.Fatal(err)
	}
	read := &Record{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	if want, got := string(record().Plot().File()), string(read.Plot().File()); got != want {
		t.Errorf("the drawing is another one: %s", got)
	}
}

func TestPanelsOfNothing(t *testing.T) {
	for name, panels := range map[string][]Panel{"no panel": nil, "an empty one": {{"", "", NewRecord(nil, nil, noon, noon)}}} {
		svg := string(Panels(name, panels).File())
		elements(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Error(svg)
		}
	}
}
