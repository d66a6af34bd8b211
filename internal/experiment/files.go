// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Line returns a record as a line of JSON.
func (r *Record) Line() ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// ParseLines reads records, one on each line. whole is the length of what was read: a last line without an end was not
// written to its end, and is not read.
func ParseLines(data []byte) (records []*Record, whole int, err error) {
	seen := map[string]bool{}
	for n := 1; ; n++ {
		line, rest, ended := bytes.Cut(data[whole:], []byte("\n"))
		if !ended {
			return records, whole, nil
		}
		whole = len(data) - len(rest)
		r := &Record{}
		if err := json.Unmarshal(line, r); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if seen[r.Name] {
			return nil, 0, fmt.Errorf("line %d: the run %s is there twice", n, r.Name)
		}
		seen[r.Name] = true
		records = append(records, r)
	}
}

// column is a column of the table of records.
type column struct {
	name string
	of   func(*Record) string
}

var columns = []column{
	{"name", func(r *Record) string { return r.Name }},
	{"case", func(r *Record) string { return strconv.Itoa(r.Case) }},
	{"repetition", func(r *Record) string { return strconv.Itoa(r.Repetition) }},
	{"state", func(r *Record) string { return r.State }},
	{"reason", func(r *Record) string { return r.Reason }},
	{"message", func(r *Record) string { return r.Message }},
	{"submitted", func(r *Record) string { return timeText(r.Submitted) }},
	{"admitted", func(r *Record) string { return timeText(r.Admitted) }},
	{"started", func(r *Record) string { return timeText(r.Started) }},
	{"finished", func(r *Record) string { return timeText(r.Finished) }},
	{"waitSeconds", func(r *Record) string { return number(r.Wait()) }},
	{"runSeconds", func(r *Record) string { return number(r.RunTime()) }},
	{"wanted", func(r *Record) string { return strconv.Itoa(int(r.Wanted)) }},
	{"size", func(r *Record) string { return strconv.Itoa(int(r.Size)) }},
	{"tasks", func(r *Record) string { return strconv.Itoa(int(r.Tasks)) }},
	{"nodes", func(r *Record) string { return r.Nodes }},
	{"queue", func(r *Record) string { return r.Queue }},
	{"givenUp", func(r *Record) string { return strconv.Itoa(len(r.GivenUp)) }},
	{"givenUpReasons", func(r *Record) string {
		var reasons []string
		for i := range r.GivenUp {
			reasons = append(reasons, r.GivenUp[i].Reason)
		}
		return strings.Join(reasons, " ")
	}},
	{"exitCode", func(r *Record) string {
		if r.ExitCode == nil {
			return ""
		}
		return strconv.Itoa(int(*r.ExitCode))
	}},
	{"usefulNodeSeconds", func(r *Record) string { return strconv.FormatInt(r.UsefulNodeSeconds, 10) }},
	{"lostNodeSeconds", func(r *Record) string { return strconv.FormatInt(r.LostNodeSeconds, 10) }},
	{"hostageNodeSeconds", func(r *Record) string { return number(r.HostageTime()) }},
	{"log", func(r *Record) string { return r.Log }},
	{"logError", func(r *Record) string { return r.LogError }},
}

// WriteCSV writes records as a table with a header: a column for each field, each parameter and each figure.
func WriteCSV(w io.Writer, records []*Record) error {
	parameters, figures := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		for name := range r.Parameters {
			parameters[name] = true
		}
		for name := range r.Figures {
			figures[name] = true
		}
	}
	all := slices.Clone(columns)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		all = append(all, column{"parameter." + name, func(r *Record) string { return r.Parameters[name] }})
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		all = append(all, column{"figure." + name, func(r *Record) string { value, ok := r.Figures[name]; return number(value, ok) }})
	}
	out := csv.NewWriter(w)
	row := make([]string, len(all))
	for i, c := range all {
		row[i] = c.name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for _, r := range records {
		for i, c := range all {
			row[i] = c.of(r)
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func timeText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func number(value float64, ok bool) string {
	if !ok {
		return ""
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}
