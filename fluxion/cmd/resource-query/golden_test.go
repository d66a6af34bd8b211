// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what comes out into the sessions")

// testdata has graphs, jobspecs and resource sets, and sessions that use them. A session is a file
// with these lines:
//
//	# a comment
//	$ resource-query and its options
//	> a command
//	the output of the command
//	! an error of the command
//
// To add a session, write it without output and errors, run the test with -update, and review the
// file. Then run the test with RESOURCE_QUERY set to the resource-query of flux-sched, whose
// output has to be the same. Errors are not compared. If the output differs, a comment before the
// "$" that begins with "differs" has to say why.
const testdata = "testdata"

const differs = "# differs"

// golden is one run of resource-query in a session.
type golden struct {
	// before are the comments before the "$", and options the rest of its line.
	before   []string
	options  []string
	commands []goldenCommand
}

type goldenCommand struct {
	before          []string
	line            string
	output, trouble string
}

// readSession returns the runs of a session.
func readSession(t *testing.T, text string) []golden {
	t.Helper()
	var runs []golden
	var comments []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		last := len(runs) - 1
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			comments = append(comments, line)
			continue
		case strings.HasPrefix(line, "$ resource-query "):
			runs = append(runs, golden{before: comments, options: splitOptions(line)[2:]})
		case strings.HasPrefix(line, "> "):
			runs[last].commands = append(runs[last].commands, goldenCommand{before: comments, line: line[2:]})
		case strings.HasPrefix(line, "! "):
			runs[last].commands[len(runs[last].commands)-1].trouble += line[2:] + "\n"
		default:
			runs[last].commands[len(runs[last].commands)-1].output += line + "\n"
		}
		comments = nil
	}
	return runs
}

// splitOptions splits a line at blanks that are not in quotes.
func splitOptions(line string) []string {
	var words []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// text returns the lines of a run in a session.
func (g *golden) text() string {
	out := &strings.Builder{}
	for _, line := range g.before {
		out.WriteString(line + "\n")
	}
	out.WriteString("$ resource-query")
	for _, option := range g.options {
		if strings.Contains(option, " ") {
			option = `"` + option + `"`
		}
		out.WriteString(" " + option)
	}
	out.WriteString("\n")
	for _, c := range g.commands {
		for _, line := range c.before {
			out.WriteString(line + "\n")
		}
		out.WriteString("> " + c.line + "\n" + c.output)
		for line := range strings.Lines(c.trouble) {
			out.WriteString("! " + line)
		}
	}
	return out.String()
}

// play runs the commands with our resource-query, and returns the run with its output.
func (g *golden) play(t *testing.T) golden {
	t.Helper()
	o, err := parseOptions(g.options)
	if err != nil {
		t.Fatal(err)
	}
	stderr := &bytes.Buffer{}
	s, err := newSession(o, io.Discard, stderr)
	if err != nil {
		t.Fatal(err)
	}
	played := golden{before: g.before, options: g.options}
	for _, c := range g.commands {
		out := &bytes.Buffer{}
		s.out = out
		s.execute(strings.Fields(c.line))
		played.commands = append(played.commands, goldenCommand{c.before, c.line, out.String(), stderr.String()})
		stderr.Reset()
	}
	return played
}

// script returns the commands as input of resource-query.
func (g *golden) script() string {
	out := &strings.Builder{}
	for _, c := range g.commands {
		out.WriteString(c.line + "\n")
	}
	return out.String() + "quit\n"
}

// output returns the output of all commands.
func (g *golden) output() string {
	out := &strings.Builder{}
	for _, c := range g.commands {
		out.WriteString(c.output)
	}
	return out.String()
}

func TestSessions(t *testing.T) {
	t.Chdir(testdata)
	files, err := filepath.Glob("sessions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("There are no sessions in %s (%v)", testdata, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, run := range readSession(t, string(text)) {
				played := run.play(t)
				got += played.text()
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("Session (-want, +got):\n%s", diff)
			}
		})
	}
}

// TestSessionsWithFluxion plays the sessions with the resource-query of flux-sched.
func TestSessionsWithFluxion(t *testing.T) {
	query := os.Getenv("RESOURCE_QUERY")
	if query == "" {
		t.Skip("RESOURCE_QUERY names no resource-query of flux-sched")
	}
	t.Chdir(testdata)
	files, err := filepath.Glob("sessions/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range readSession(t, string(text)) {
				diff := cmp.Diff(run.output(), playFluxion(t, query, &run))
				known := strings.Contains(strings.Join(run.before, "\n"), differs)
				if (diff != "") != known {
					t.Errorf("%s\nflux-sched (-ours, +theirs):\n%s", run.text(), diff)
				}
			}
		})
	}
}

// playFluxion returns the results of flux-sched's resource-query for a run.
func playFluxion(t *testing.T, query string, run *golden) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := filepath.Join(t.TempDir(), "out")
	command := exec.CommandContext(ctx, query, append(run.options, "-t", out)...)
	command.Stdin = strings.NewReader(run.script())
	if told, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, told)
	}
	result, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(result)
}
