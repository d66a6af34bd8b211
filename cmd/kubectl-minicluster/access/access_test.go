// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/creack/pty"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Columns are aligned whatever a cell has, a row is one line, and columns stay where they are when more rows follow.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := New(nil, &out, io.Discard).NewTable()
	table.Row("NAME", "STATE", "WHY")
	table.Row("é", lipgloss.NewStyle().Render("Queued"), "first\nsecond")
	table.Row("longer", "", "")
	want := "NAME     STATE    WHY\né        Queued   first second\nlonger   -        -\n"
	if err := table.Flush(); err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
	out.Reset()
	table.Row("x", "y", "z")
	if err := table.Flush(); err != nil || out.String() != "x        y        z\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	out.Reset()
	table.Fit(12)
	table.Row("x", "y", "z")
	table.Row("x", "", "")
	if err := table.Flush(); err != nil || out.String() != "x        y …\nx        - …\n" {
		t.Errorf("cut off: %v: %q", err, out.String())
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

// A user's text shows, and does nothing else to the terminal of who reads it. In a table it makes no row of its own.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc é 世":                          "a\tb\nc é 世",
		"\x1b[31mFailed\x1b[m":                 "\x1b[31mFailed\x1b[m",
		"x\x1b]52;c;cm0gLXJmIH4K\x07\x1b[2J":   "x\ufffd]52;c;cm0gLXJmIH4K\ufffd\ufffd[2J",
		"\x1b[1;4mup\x1b[m\x1b[7mno":           "\x1b[1;4mup\x1b[m\ufffd[7mno",
		"\x1b[1;92mok\x1b[0m\x1b[8mno\x1b[40m": "\x1b[1;92mok\x1b[0m\ufffd[8mno\ufffd[40m",
		"\r\x1b[K fine \x7f\u009b31m":          "\ufffd\ufffd[K fine \ufffd\ufffd31m",
		"abc\u202edef\u061c":                   "abc\ufffddef\ufffd",
		"a\x9b31mb":                            "a\ufffd31mb",
	} {
		var out, errs bytes.Buffer
		s := New(nil, &out, &errs)
		table := s.NewTable()
		table.Row("x", text)
		cell := strings.NewReplacer("\t", " ", "\n", " ").Replace(want)
		if strings.Contains(cell, "\x1b") && !strings.HasSuffix(cell, "\x1b[m") {
			cell += "\x1b[m" // its colors end with it
		}
		if err := table.Flush(); err != nil || out.String() != "x   "+cell+"\n" {
			t.Errorf("%v: a table has %q, want %q", err, out.String(), cell)
		}
		out.Reset()
		if n, err := io.WriteString(s.Out, text); err != nil || n != len(text) || out.String() != want {
			t.Errorf("%v: wrote %d bytes, %q, want %q", err, n, out.String(), want)
		}
		Report(errors.New(text), &errs)
		if !strings.Contains(errs.String(), want) {
			t.Errorf("an error is %q, want %q", errs.String(), want)
		}
	}
}
