// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

// row is one MiniCluster of the table.
type row struct {
	state, reason       string
	size, wanted, nodes int
	ended               time.Time
	told                story.Story // by its status
}

// table shows MiniClusters. On a terminal it redraws a table. Elsewhere it prints a line for each
// change of a state.
type table struct {
	out      io.Writer
	terminal *os.File // nil if out is no terminal
	begun    time.Time
	drawn    int               // lines on the screen
	shown    map[string]string // the last state that was printed, by name
}

func newTable(out *os.File) *table {
	t := &table{out: out, begun: time.Now(), shown: map[string]string{}}
	if term.IsTerminal(int(out.Fd())) {
		t.terminal = out
	}
	return t
}

// stateOrder is the order of the states in the table: states that change soon are at the top.
var stateOrder = []string{
	v1alpha2.StateFailed, v1alpha2.StateRejected, v1alpha2.StateStarting, v1alpha2.StateRunning, v1alpha2.StateReleasing,
	v1alpha2.StateBackingOff, v1alpha2.StateQueued, v1alpha2.StateSuspended, v1alpha2.StateSucceeded,
}

func (t *table) show(rows map[string]*row, now time.Time) {
	sorted := make([]*row, 0, len(rows))
	for _, r := range rows {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *row) int { return strings.Compare(a.told.Name, b.told.Name) })
	if t.terminal == nil {
		t.log(sorted, now)
		return
	}
	slices.SortStableFunc(sorted, func(a, b *row) int {
		return cmp.Compare(slices.Index(stateOrder, a.state), slices.Index(stateOrder, b.state))
	})
	t.draw(sorted, now)
}

// log prints a line for each MiniCluster whose state is new.
func (t *table) log(rows []*row, now time.Time) {
	for _, r := range rows {
		if r.state == "" || t.shown[r.told.Name] == r.state {
			continue
		}
		t.shown[r.told.Name] = r.state
		fmt.Fprintf(t.out, "%6.1fs  %-10s %-10s %3d/%-3d %4d tasks %3d nodes  %s\n",
			now.Sub(t.begun).Seconds(), r.told.Name, r.state, r.size, r.wanted, r.told.Tasks, r.nodes, r.reason)
	}
}

// draw draws the table over the last one.
func (t *table) draw(rows []*row, now time.Time) {
	width, height, err := term.GetSize(int(t.terminal.Fd()))
	if err != nil {
		width, height = 120, 40
	}
	lines := format(rows, now)
	if most := max(height-3, 5); len(lines) > most {
		hidden := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("... and %d more", hidden))
	}
	lines = append(lines, "", t.totals(rows, now))
	var screen bytes.Buffer
	if t.drawn > 0 {
		fmt.Fprintf(&screen, "\033[%dA", t.drawn)
	}
	for _, line := range lines {
		if runes := []rune(line); len(runes) > width-1 {
			line = string(runes[:max(width-2, 0)]) + "…"
		}
		fmt.Fprintf(&screen, "\033[K%s\n", line)
	}
	screen.WriteString("\033[J")
	t.drawn = len(lines)
	_, _ = t.out.Write(screen.Bytes())
}

// close leaves the table on the screen.
func (t *table) close() { t.drawn = 0 }

func format(rows []*row, now time.Time) []string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tSIZE\tTASKS\tNODES\tAGE\tREASON")
	for _, r := range rows {
		until := now
		if !r.ended.IsZero() {
			until = r.ended
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d\t%d\t%s\t%s\n", r.told.Name, r.state, r.size, r.wanted, r.told.Tasks, r.nodes,
			until.Sub(r.told.Submitted).Round(time.Second), r.reason)
	}
	_ = w.Flush()
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// totals returns the line under the table.
func (t *table) totals(rows []*row, now time.Time) string {
	counts := map[string]int{}
	nodes := 0
	for _, r := range rows {
		counts[r.state]++
		nodes += r.nodes
	}
	parts := []string{fmt.Sprintf("%.0f s", now.Sub(t.begun).Seconds())}
	for _, state := range stateOrder {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], strings.ToLower(state)))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%d nodes held", nodes)), ", ")
}
