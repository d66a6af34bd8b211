// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Fields of a line of the Standard Workload Format 2.2 (Chapin et al. 1999), from 0.
const (
	swfSubmit, swfRun, swfUsed, swfWanted, swfEstimate, swfFields = 1, 3, 4, 7, 8, 18
)

// readSWF reads a trace. Jobs without a size or a run time are left out, because they never ran.
func readSWF(in io.Reader, path string) (workload, error) {
	w := workload{name: filepath.Base(path)}
	var jobs []*job
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if header, ok := strings.CutPrefix(line, ";"); ok {
			if key, value, _ := strings.Cut(header, ":"); strings.TrimSpace(key) == "MaxNodes" || strings.TrimSpace(key) == "MaxProcs" {
				n, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					return w, fmt.Errorf("%s:%d: %s is not a number", path, number, strings.TrimSpace(value))
				}
				w.nodes = max(w.nodes, n)
			}
			continue
		}
		if line == "" {
			continue
		}
		j, err := readJob(line)
		if err != nil {
			return w, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if j != nil {
			j.number = len(jobs)
			jobs = append(jobs, j)
		}
	}
	if err := lines.Err(); err != nil {
		return w, fmt.Errorf("reading %s: %w", path, err)
	}
	return checked(w, jobs)
}

// checked is a workload of a trace that makes sense.
func checked(w workload, jobs []*job) (workload, error) {
	if len(jobs) == 0 {
		return w, fmt.Errorf("%s has no job", w.name)
	}
	if w.nodes < 1 || w.nodes > mostNodes {
		return w, fmt.Errorf("%s has to name 1 to %d processors in its header, as MaxProcs", w.name, mostNodes)
	}
	for _, j := range jobs {
		if j.size > w.nodes {
			return w, fmt.Errorf("%s has a job of %d processors, and a machine of %d", w.name, j.size, w.nodes)
		}
	}
	w.make = func(uint64) []*job { return jobs }
	return w, nil
}

// readJob is the job of a line; nil if it never ran.
func readJob(line string) (*job, error) {
	fields := strings.Fields(line)
	if len(fields) != swfFields {
		return nil, fmt.Errorf("%d fields instead of %d", len(fields), swfFields)
	}
	var numbers [swfFields]float64
	for i, field := range fields {
		var err error
		if numbers[i], err = strconv.ParseFloat(field, 64); err != nil {
			return nil, fmt.Errorf("%q is not a number", field)
		}
	}
	size := int(numbers[swfWanted])
	if size < 1 {
		size = int(numbers[swfUsed])
	}
	if size < 1 || numbers[swfRun] <= 0 {
		return nil, nil
	}
	run := max(seconds(numbers[swfRun]), time.Second)
	return &job{
		arrival: seconds(max(numbers[swfSubmit], 0)), size: size, least: size, run: run,
		estimate: max(seconds(numbers[swfEstimate]), run), queue: "default",
	}, nil
}
