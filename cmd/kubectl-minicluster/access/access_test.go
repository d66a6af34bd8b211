// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/creack/pty"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Columns are aligned whatever a cell has, and stay where they are when more rows follow.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := New(nil, &out, io.Discard).NewTable()
	table.Row("NAME", "STATE", "WHY")
	table.Row("é", lipgloss.NewStyle().Render("Queued"), "first\nsecond")
	table.Row("longer", "", "")
	want := "NAME     STATE    WHY\né        Queued   first\n                  second\nlonger   -        -\n"
	if err := table.Flush(); err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
	out.Reset()
	table.Row("x", "y", "z")
	if err := table.Flush(); err != nil || out.String() != "x        y        z\n" {
		t.Errorf("%v: %q", err, out.String())
	}
}

// States have colors on a terminal, unless NO_COLOR is set, and nowhere else.
func TestPaint(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "")
	t.Setenv("TERM", "xterm-256color")
	own, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	defer terminal.Close()
	if got := New(nil, terminal, nil).Paint(v1alpha2.StateFailed); !strings.Contains(got, "\x1b[31mFailed") {
		t.Errorf("on a terminal: %q", got)
	}
	if got := New(nil, &bytes.Buffer{}, nil).Paint(v1alpha2.StateFailed); got != "Failed" {
		t.Errorf("in a file: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := New(nil, terminal, nil).Paint(v1alpha2.StateFailed); got != "Failed" {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
