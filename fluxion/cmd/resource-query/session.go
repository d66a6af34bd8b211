// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

// session is the state that commands use.
type session struct {
	matcher *traverser.Matcher
	format  traverser.Format
	// Results go to out, messages and times to stdout, and errors to stderr.
	out, stdout, stderr io.Writer
	interactive, elapse bool
	// nextID is the id of the next job.
	nextID uint64
	jobs   map[uint64]job
	times  times
}

// job is what the commands info and list print of a job, even after it was cancelled.
type job struct {
	state, file string
	at          int64
	took        time.Duration
}

// times are statistics of how long matches took.
type times struct {
	count         int64
	sum, min, max time.Duration
}

func (t *times) add(took time.Duration) {
	if t.count == 0 || took < t.min {
		t.min = took
	}
	t.count, t.sum, t.max = t.count+1, t.sum+took, max(t.max, took)
}

// errQuit ends the session.
var errQuit = errors.New("quit")

// loop carries out commands until the last one or quit.
func (s *session) loop(stdin io.Reader) error {
	lines := bufio.NewReader(stdin)
	for {
		if s.interactive {
			fmt.Fprint(s.stdout, "resource-query> ")
		}
		line, err := lines.ReadString('\n')
		if quit := s.execute(strings.Fields(line)); quit || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// execute carries out a command. A line that begins with # is a comment. A command that
// fails does not end the session.
func (s *session) execute(words []string) (quit bool) {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return false
	}
	c := findCommand(words[0])
	if c == nil {
		fmt.Fprintf(s.stderr, "ERROR: unknown command: %s; try help\n", words[0])
		return false
	}
	args := words[1:]
	if len(args) < c.min || c.max >= 0 && len(args) > c.max {
		fmt.Fprintln(s.stderr, "ERROR: malformed command")
		if s.interactive {
			fmt.Fprintf(s.stderr, "usage: %s %s\n", c.name, c.usage)
		}
		return false
	}
	err := c.run(s, args)
	if err != nil && !errors.Is(err, errQuit) {
		fmt.Fprintln(s.stderr, err)
	}
	return errors.Is(err, errQuit)
}

const bar = "INFO: ============================="

// readFile reads a file that a command names.
func readFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("ERROR: can't open %s", name)
	}
	return data, nil
}

// parseJobspec reads a jobspec in JSON or YAML.
func parseJobspec(data []byte) (*jobspec.Jobspec, error) {
	if !json.Valid(data) {
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil, err
		}
		data = converted
	}
	return jobspec.Parse(data)
}

// match carries out a match operation for the jobspec in a file, and prints the result. A
// match without a result is no error.
func (s *session) match(op traverser.Op, file string) (matched bool, err error) {
	data, err := readFile(file)
	if err != nil {
		return true, err // as if the command did not exist
	}
	start := time.Now()
	m, text, err := s.tryMatch(op, data)
	took := time.Since(start)
	s.times.add(took)
	fmt.Fprint(s.out, text)
	if op == traverser.Satisfiability {
		s.printSatisfiability(!never(err), took)
	} else {
		s.printMatch(op, m, err, took)
	}
	if givesID(op) && m != nil {
		s.jobs[s.nextID] = job{state: state(m.At), file: file, at: m.At, took: took}
	}
	refused := errors.Is(err, traverser.ErrBusy) || never(err)
	if givesID(op) && (m != nil || refused) {
		s.nextID++
	}
	if refused {
		return false, nil
	}
	return m != nil, err
}

// tryMatch matches a jobspec, and writes the resources as text.
func (s *session) tryMatch(op traverser.Op, data []byte) (*traverser.Match, string, error) {
	spec, err := parseJobspec(data)
	if err != nil {
		return nil, "", fmt.Errorf("match_allocate: ERROR: Jobspec error for %d: %w", s.nextID, err)
	}
	m, err := s.matcher.Match(op, spec, s.nextID, 0)
	switch {
	case errors.Is(err, traverser.ErrInvalid):
		return nil, "", fmt.Errorf("match_allocate: ERROR: Jobspec error for %d: %w", s.nextID, err)
	case err != nil:
		return nil, "", fmt.Errorf("match_allocate: ERROR: %w", err)
	}
	text, err := m.Encode(s.format)
	if err != nil {
		if givesID(op) {
			err = errors.Join(err, s.matcher.Cancel(s.nextID)) // since nobody learns which resources the job has
		}
		return nil, "", fmt.Errorf("match_allocate: ERROR: %w", err)
	}
	return m, text, nil
}

// never reports whether an error means that a request is unsatisfiable. An invalid request
// is unsatisfiable, too, but as with flux-sched it is reported as invalid only.
func never(err error) bool {
	return errors.Is(err, traverser.ErrUnsatisfiable) && !errors.Is(err, traverser.ErrInvalid)
}

// givesID reports whether an operation makes a job, which gets an id.
func givesID(op traverser.Op) bool {
	return op == traverser.Allocate || op == traverser.AllocateWithSatisfiability || op == traverser.AllocateOrElseReserve
}

// state is the state of a job that starts at a time.
func state(at int64) string {
	if at == 0 {
		return "ALLOCATED"
	}
	return "RESERVED"
}

func (s *session) printSatisfiability(satisfiable bool, took time.Duration) {
	word := "Unsatisfiable"
	if satisfiable {
		word = "Satisfiable"
	}
	fmt.Fprintf(s.out, "%s\nINFO: %s request\n%[1]s\n", bar, word)
	s.printEffort(took)
}

// printMatch prints the result of a match or an update; m is nil if there is none.
func (s *session) printMatch(op traverser.Op, m *traverser.Match, err error, took time.Duration) {
	fmt.Fprintln(s.out, bar)
	if m != nil {
		mode, at := "MATCHED", "Now"
		if givesID(op) {
			mode = state(m.At)
		}
		if m.At != 0 {
			at = fmt.Sprint(m.At)
		}
		fmt.Fprintf(s.out, "INFO: JOBID=%d\nINFO: RESOURCES=%s\nINFO: SCHEDULED AT=%s\n", s.nextID, mode, at)
	} else {
		fmt.Fprintln(s.out, "INFO: No matching resources found")
		if never(err) {
			fmt.Fprintln(s.out, "INFO: Unsatisfiable request")
		}
		fmt.Fprintf(s.out, "INFO: JOBID=%d\n", s.nextID)
	}
	s.printEffort(took)
	fmt.Fprintln(s.out, bar)
}

// printEffort prints how long a match took and what it visited, if the user asked for that.
func (s *session) printEffort(took time.Duration) {
	if !s.elapse {
		return
	}
	pre, post := s.matcher.Visits()
	fmt.Fprintf(s.stdout, "INFO: ELAPSE=%f\nINFO: PREORDER VISIT COUNT=%d\nINFO: POSTORDER VISIT COUNT=%d\n", took.Seconds(), pre, post)
}
