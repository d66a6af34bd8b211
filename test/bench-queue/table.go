// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
)

// column is a column of the table: the median of a figure over the seeds.
type column struct {
	name, format string
	figure       func(figures) float64
}

var columns = []column{
	{"util %", "%.0f", func(f figures) float64 { return 100 * f.Utilisation }},
	{"wait h", "%.2f", func(f figures) float64 { return f.WaitMean / 3600 }},
	{"p95", "%.1f", func(f figures) float64 { return f.WaitP95 / 3600 }},
	{"max", "%.0f", func(f figures) float64 { return f.WaitMax / 3600 }},
	{"wide max", "%.0f", wideMax},
	{"slowdown", "%.1f", slowdown},
	{"lost h", "%.0f", func(f figures) float64 { return f.Lost }},
	{"cycle ms", "%.2f", func(f figures) float64 { return f.Cycle }},
	{"p99", "%.1f", func(f figures) float64 { return f.CycleP99 }},
}

func slowdown(f figures) float64 { return f.Slowdown }

func wideMax(f figures) float64 { return f.WideMax / 3600 }

func writeHeader(out io.Writer) {
	fmt.Fprintf(out, "%-18s %-18s", "workload", "scheduler")
	for _, c := range columns {
		fmt.Fprintf(out, " %8s", c.name)
	}
	fmt.Fprintf(out, "  %s\n", "slowdown to EASY, wide max to Conservative")
}

// writeResults writes a line for each contestant.
func writeResults(out io.Writer, workload string, all [][]figures) {
	for i, seeds := range all {
		fmt.Fprintf(out, "%-18s %-18s", workload, contestants[i].name)
		for _, c := range columns {
			fmt.Fprintf(out, " %8s", fmt.Sprintf(c.format, medianOf(seeds, c.figure)))
		}
		fmt.Fprintf(out, "  %5.2f %5.2f\n", medianRatio(seeds, all[theEASY], slowdown), medianRatio(seeds, all[theConservative], wideMax))
	}
}
