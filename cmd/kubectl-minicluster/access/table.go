// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"io"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Table aligns columns. A row is one line, and empty cells are "-". Rows that follow a Flush have the widths of those
// before it, or larger ones.
type Table struct {
	out    io.Writer
	rows   [][]string
	widths []int
	most   int // the width of a row; 0 if there is no limit
}

// NewTable returns a table for the output of the session.
func (s *Session) NewTable() *Table { return &Table{out: s.Out} }

// Fit cuts rows off at a width, in characters. 0 cuts nothing.
func (t *Table) Fit(width int) { t.most = width }

// Row adds a row.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = PlainLine(cmp.Or(cell, "-"))
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], lipgloss.Width(row[i]))
	}
	t.rows = append(t.rows, row)
}

// columnGap is between two columns.
const columnGap = 3

// Flush writes the rows.
func (t *Table) Flush() error {
	var out strings.Builder
	for _, row := range t.rows {
		last := len(row) - 1
		line := ""
		for i, cell := range row[:last] {
			line += cell + strings.Repeat(" ", t.widths[i]-lipgloss.Width(cell)+columnGap)
		}
		if line += row[last]; t.most > 0 {
			line = ansi.Truncate(line, t.most, "…")
		}
		out.WriteString(line + "\n")
	}
	t.rows = nil
	_, err := io.WriteString(t.out, out.String())
	return err
}

// HasColors reports whether the output is a terminal with colors, and the user wants them.
func (s *Session) HasColors() bool {
	return s.IsTerminal() && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Paint returns a state in its color, if there are colors.
func (s *Session) Paint(state string) string {
	if !s.HasColors() {
		return state
	}
	return StateStyle(state).Render(state)
}

// StateStyle is the color of a state that users see, from the terminal's palette.
func StateStyle(state string) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch state {
	case v1alpha2.StateRunning, v1alpha2.StateSucceeded:
		return style.Foreground(lipgloss.Green)
	case v1alpha2.StateFailed, v1alpha2.StateRejected:
		return style.Foreground(lipgloss.Red)
	case v1alpha2.StateQueued, v1alpha2.StateBackingOff:
		return style.Foreground(lipgloss.Yellow)
	}
	return style
}
