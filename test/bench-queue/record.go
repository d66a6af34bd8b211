// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// record is a page with a table that has a row for each workload.
type record struct {
	path  string
	lines []string
}

func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &record{path: path, lines: strings.Split(string(text), "\n")}, nil
}

func (r *record) write() error {
	return os.WriteFile(r.path, []byte(strings.Join(r.lines, "\n")), 0o644)
}

// row is the row of a workload in the table. The workload's name ends with its load.
func row(w string, all [][]figures) string {
	cut := strings.LastIndexByte(w, ' ')
	ratio := func(i int) string { return fmt.Sprintf("%.2f", medianRatio(all[i], all[theEASY], slowdown)) }
	wide := func(i int) string { return fmt.Sprintf("%.2f", medianRatio(all[i], all[theConservative], wideMax)) }
	used := func(i int) string { return fmt.Sprintf("%.0f", medianOf(all[i], columns[0].figure)) }
	each := func(f func(int) string) string {
		return f(oursEASY) + ", " + f(oursConservative) + ", " + f(oursSlowdown)
	}
	cells := []string{
		w[:cut], w[cut+1:], fmt.Sprintf("%.1f", medianOf(all[theEASY], slowdown)), ratio(theFirstFit), ratio(theConservative),
		ratio(oursEASY), ratio(oursConservative), ratio(oursSlowdown), used(theEASY) + ", " + used(theConservative),
		each(used), wide(theEASY), each(wide),
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// compared are the cells of a row, from 1, of which smaller figures are better and that must not get worse.
var compared = map[int]string{6: "slowdown with EASY", 7: "slowdown with Conservative", 8: "slowdown with Slowdown", 12: "longest wide wait"}

// put replaces the row of a workload, and returns what is worse in the new one.
func (r *record) put(row string) (worse []string, err error) {
	cells := strings.Split(row, " | ")
	at := slices.IndexFunc(r.lines, func(line string) bool { return strings.HasPrefix(line, cells[0]+" | "+cells[1]+" | ") })
	if at < 0 {
		return nil, fmt.Errorf("%s has no row %s", r.path, strings.Join(cells[:2], " | "))
	}
	before := strings.Split(r.lines[at], " | ")
	for i, name := range compared {
		was, err := numbers(before, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		is, _ := numbers(cells, i)
		for j := range min(len(was), len(is)) {
			if is[j] > was[j] {
				worse = append(worse, fmt.Sprintf("%s, load %s: %s is %.2f, recorded is %.2f", strings.TrimPrefix(cells[0], "| "), cells[1], name, is[j], was[j]))
			}
		}
	}
	slices.Sort(worse)
	r.lines[at] = row
	return worse, nil
}

// numbers are those of a cell, from 1.
func numbers(cells []string, i int) (all []float64, err error) {
	if i > len(cells) {
		return nil, fmt.Errorf("the row %s has no column %d", strings.Join(cells, " | "), i)
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(cells[i-1], " |"), ", ") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
