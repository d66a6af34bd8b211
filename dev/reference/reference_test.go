// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const root = "../.."

// What make generate would write is there.
func TestFilesAreNew(t *testing.T) {
	t.Parallel()
	for name, file := range files {
		want, err := file(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is old: run make generate: %s", name, diff)
		}
	}
}

// The reference describes every step, in the order of life.Steps, and names its event.
func TestSteps(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Steps\n")
	section, _, _ = strings.Cut(section, "\n## ")
	described := map[string]string{}
	for _, match := range regexp.MustCompile(`(?ms)^- \*\*(\w+)\*\*: (.*?)(\n- |\n\n|\z)`).FindAllStringSubmatch(strings.ReplaceAll(section, "\n- ", "\n\n- "), -1) {
		described[match[1]] = match[2]
	}
	for _, step := range life.Steps {
		name := life.Name(step.Step)
		if !strings.Contains(described[name], "`"+step.Event+"`") && (described[name] == "" || step.Event != "") {
			t.Errorf("step %s with event %q is described as %q", name, step.Event, described[name])
		}
		delete(described, name)
	}
	if len(described) > 0 {
		t.Errorf("there are no such steps: %v", described)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30) + "`code that stays on one line` end"
	lines := strings.Split(strings.TrimSuffix(wrap(long, "  "), "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[1], "  word") || !strings.HasSuffix(lines[1], "`code that stays on one line` end") {
		t.Errorf("wrapped to %q", lines)
	}
	if slices.ContainsFunc(lines, func(line string) bool { return len(line) > 120 }) {
		t.Errorf("a line is too long: %q", lines)
	}
	if got, want := prose("a <b> `c<d>`  * e"), `a \<b> `+"`c<d>`"+` \* e`; got != want {
		t.Errorf("prose is %q, want %q", got, want)
	}
}
