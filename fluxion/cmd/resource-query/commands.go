// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// command is a command at the prompt.
type command struct {
	name, alias, usage, help string
	// min and max are the numbers of arguments; max is -1 for any number.
	min, max int
	run      func(*session, []string) error
}

// commands is a function and no variable, because the command help lists all commands.
func commands() []command {
	return []command{
		{"match", "m", "OPERATION JOBSPEC", "find resources for a jobspec; operations: " + operationNames, 2, 2, (*session).matchOne},
		{"multi-match", "M", "OPERATION JOBSPEC JOBSPEC...", "match jobspecs, up to the first that gets nothing", 3, -1, (*session).matchMany},
		{"update", "u", "allocate|reserve jgf|jgf_shorthand|rv1exec FILE JOBID AT DURATION", "give a job the resources of a file, as after an earlier match", 6, 6, (*session).update},
		{"cancel", "c", "JOBID [stats]", "free the resources of a job", 1, 2, (*session).cancel},
		{"partial-cancel", "pc", "JOBID jgf|rv1exec FILE [stats]", "free the resources of a job that a file names", 3, 4, (*session).partialCancel},
		{"find", "f", "EXPRESSION", "find vertices: status=up|down, sched-now=allocated|free, sched-future=reserved|free, names=HOSTLIST, property=NAME, " +
			"agfilter=true, jobid-alloc=, jobid-reserved=, jobid-span=, jobid-tag=JOBID, with and, or and parentheses", 1, -1, (*session).find},
		{"info", "i", "JOBID", "show a job", 1, 1, (*session).info},
		{"list", "l", "", "list all jobs", 0, -1, (*session).list},
		{"stat", "s", "", "show how many matches there were, and how long they took", 0, 0, (*session).stat},
		{"set-status", "t", "PATH up|down", "mark a vertex up or down", 2, 2, (*session).setStatus},
		{"get-status", "e", "PATH", "show whether a vertex is up", 1, 1, (*session).getStatus},
		{"set-property", "p", "PATH NAME=VALUE", "give a vertex a property", 2, 2, (*session).setProperty},
		{"get-property", "g", "PATH", "show the properties of a vertex", 1, 1, (*session).getProperty},
		{"attach", "j", "FILE", "add the resources of a file in JGF", 1, 1, (*session).attach},
		{"remove", "r", "PATH true | RANKS false", "remove the resources of a path, or of ranks with what jobs hold there", 2, 2, (*session).remove},
		{"cat", "a", "FILE", "show a file", 1, 1, (*session).cat},
		{"help", "h", "[COMMAND]", "show this help", 0, -1, (*session).help},
		{"quit", "q", "", "quit", 0, -1, func(*session, []string) error { return errQuit }},
	}
}

// findCommand returns the command with a name or alias, or nil if there is none.
func findCommand(name string) *command {
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == name || c.alias == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

var operations = map[string]traverser.Op{
	"allocate":                     traverser.Allocate,
	"allocate_with_satisfiability": traverser.AllocateWithSatisfiability,
	"allocate_orelse_reserve":      traverser.AllocateOrElseReserve,
	"satisfiability":               traverser.Satisfiability,
	"without_allocating":           traverser.WithoutAllocating,
	"without_allocating_future":    traverser.WithoutAllocatingFuture,
}

var operationNames = strings.Join(slices.Sorted(maps.Keys(operations)), ", ")

func operation(name string) (traverser.Op, error) {
	op, known := operations[name]
	if !known {
		return 0, fmt.Errorf("ERROR: unknown subcmd %s", name)
	}
	return op, nil
}

func (s *session) matchOne(args []string) error {
	op, err := operation(args[0])
	if err != nil {
		return err
	}
	_, err = s.match(op, args[1])
	return err
}

func (s *session) matchMany(args []string) error {
	op, err := operation(args[0])
	if err != nil {
		return err
	}
	for _, file := range args[1:] {
		matched, err := s.match(op, file)
		if err != nil {
			fmt.Fprintln(s.stderr, err)
		}
		if !matched {
			break
		}
	}
	return nil
}

func jobID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("ERROR: %q is no job id", text)
	}
	return id, nil
}

func (s *session) update(args []string) error {
	if args[0] != "allocate" && args[0] != "reserve" {
		return fmt.Errorf("ERROR: unknown subcmd %s", args[0])
	}
	format, file := args[1], args[2]
	if !slices.Contains([]string{"jgf", "jgf_shorthand", "rv1exec"}, format) {
		return fmt.Errorf("ERROR: unsupported reader %s", format)
	}
	data, err := readFile(file)
	if err != nil {
		return err
	}
	id, err := jobID(args[3])
	if err != nil {
		return err
	}
	if _, err := s.matcher.IsReserved(id); err == nil {
		return fmt.Errorf("ERROR: existing job %d", id)
	}
	at, atErr := strconv.ParseInt(args[4], 10, 64)
	duration, durationErr := strconv.ParseInt(args[5], 10, 64)
	if atErr != nil || durationErr != nil || at < 0 || duration <= 0 {
		return fmt.Errorf("ERROR: invalid time (%s, %s)", args[4], args[5])
	}
	return s.updateJob(id, format, file, string(data), at, duration)
}

// updateJob gives a job resources, and prints them. The next job gets the next id.
func (s *session) updateJob(id uint64, format, file, r string, at, duration int64) error {
	start := time.Now()
	m, err := s.matcher.Update(id, format, r, at, duration)
	if err == nil {
		var text string
		text, err = m.Encode(s.format)
		fmt.Fprint(s.out, text)
	}
	took := time.Since(start)
	s.times.add(took)
	s.nextID = id
	if err == nil {
		s.jobs[id] = job{state: state(at), file: file, at: at, took: took}
	}
	s.printMatch(traverser.Allocate, m, err, took)
	for used := true; used; _, used = s.jobs[s.nextID] {
		s.nextID++
	}
	if err != nil {
		return fmt.Errorf("ERROR: %w", err)
	}
	return nil
}

func (s *session) cancel(args []string) error {
	id, err := jobID(args[0])
	if err != nil {
		return err
	}
	switch err := s.matcher.Cancel(id); {
	case errors.Is(err, traverser.ErrNotFound):
		return fmt.Errorf("cancel: ERROR: nonexistent job %d", id)
	case err != nil:
		return fmt.Errorf("cancel: ERROR: %w", err)
	}
	s.cancelled(id)
	s.printStats(args[1:], "CANCEL")
	return nil
}

func (s *session) cancelled(id uint64) {
	if j, known := s.jobs[id]; known {
		j.state = "CANCELED"
		s.jobs[id] = j
	}
}

// printStats prints the visits of an operation, if the arguments ask for them.
func (s *session) printStats(args []string, what string) {
	if !slices.Equal(args, []string{"stats"}) {
		return
	}
	pre, post := s.matcher.Visits()
	fmt.Fprintf(s.out, "%s\nINFO: %s PREORDER COUNT=\"%d\"\nINFO: %[2]s POSTORDER COUNT=\"%[4]d\"\n%[1]s\n", bar, what, pre, post)
}

func (s *session) partialCancel(args []string) error {
	format := args[1]
	if format != "jgf" && format != "rv1exec" {
		return fmt.Errorf("ERROR: unsupported reader %s", format)
	}
	data, err := readFile(args[2])
	if err != nil {
		return err
	}
	id, err := jobID(args[0])
	if err != nil {
		return err
	}
	switch reserved, err := s.matcher.IsReserved(id); {
	case err != nil:
		return fmt.Errorf("ERROR: nonexistent job %d", id)
	case reserved:
		return errors.New("ERROR: reservations not currently supported by partial cancel")
	}
	full, err := s.matcher.PartialCancel(id, format, string(data))
	if full {
		s.cancelled(id)
	}
	s.printStats(args[3:], "PARTIAL CANCEL")
	if err != nil {
		fmt.Fprintln(s.stdout, err)
		return fmt.Errorf("ERROR: error encountered while removing job %d", id)
	}
	return nil
}

func (s *session) find(args []string) error {
	expression := strings.Join(args, " ")
	text, err := s.matcher.Find(expression, s.format)
	if err != nil {
		return fmt.Errorf("ERROR: invalid criteria: %w", err)
	}
	fmt.Fprintf(s.out, "%s%s\nINFO: EXPRESSION=\"%s\"\n%[2]s\n", text, bar, expression)
	return nil
}

func (s *session) info(args []string) error {
	id, err := jobID(args[0])
	if err != nil {
		return err
	}
	if _, known := s.jobs[id]; !known {
		return fmt.Errorf("info: ERROR: nonexistent job %d", id)
	}
	s.printJob(id)
	return nil
}

func (s *session) list([]string) error {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		s.printJob(id)
	}
	return nil
}

func (s *session) printJob(id uint64) {
	j := s.jobs[id]
	fmt.Fprintf(s.stdout, "INFO: %d, %s, %d, %s, %g\n", id, j.state, j.at, j.file, j.took.Seconds())
}

func (s *session) stat([]string) error {
	t := s.times
	average := t.sum / time.Duration(max(t.count, 1))
	fmt.Fprintf(s.stdout, "INFO: Num. of Jobs Matched: %d\nINFO: Min. Match Time: %g\nINFO: Max. Match Time: %g\nINFO: Avg. Match Time: %g\n",
		len(s.jobs), t.min.Seconds(), t.max.Seconds(), average.Seconds())
	return nil
}

func (s *session) setStatus(args []string) error {
	path, status := args[0], args[1]
	_, err := s.matcher.Vertices(path)
	switch {
	case errors.Is(err, traverser.ErrNotFound):
		fmt.Fprintf(s.out, "Could not find path %s in resource graph.\n", path)
		return nil
	case status != "up" && status != "down":
		return errors.New("ERROR: unrecognized status")
	}
	return s.matcher.SetStatus(path, status == "up")
}

func (s *session) getStatus(args []string) error {
	vertices, err := s.matcher.Vertices(args[0])
	if err != nil {
		fmt.Fprintf(s.out, "Could not find path %s in resource graph.\n", args[0])
	}
	for _, v := range vertices {
		status := "down"
		if v.Up {
			status = "up"
		}
		fmt.Fprintln(s.out, args[0], "is", status)
	}
	return nil
}

func (s *session) setProperty(args []string) error {
	key, value, _ := strings.Cut(args[1], "=")
	if key == "" || value == "" {
		fmt.Fprint(s.out, "Incorrect input format. \nPlease use `set-property <resource> PROPERTY=VALUE`.\n")
		return nil
	}
	if err := s.matcher.SetProperty(args[0], key, value); err != nil {
		fmt.Fprintf(s.out, "Couldn't find path %s in resource graph.\n", args[0])
	}
	return nil
}

func (s *session) getProperty(args []string) error {
	vertices, err := s.matcher.Vertices(args[0])
	if err != nil {
		fmt.Fprintf(s.out, "Could not find path %s in resource graph.\n", args[0])
	}
	for _, v := range vertices {
		if len(v.Properties) == 0 {
			fmt.Fprintf(s.out, "No properties were found for %s (vtx's uniq_id=%d).\n", args[0], v.UniqID)
		}
		for _, key := range slices.Sorted(maps.Keys(v.Properties)) {
			fmt.Fprintf(s.out, "%s=%s\n", key, v.Properties[key])
		}
	}
	return nil
}

func (s *session) attach(args []string) error {
	data, err := readFile(args[0])
	if err != nil {
		return err
	}
	if err := s.matcher.Attach(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("ERROR: can't attach JGF subgraph: %w", err)
	}
	return nil
}

// maxRanks bounds the ranks that can be removed at a time.
const maxRanks = 1 << 24

func (s *session) remove(args []string) error {
	var err error
	switch args[1] {
	case "true":
		err = s.matcher.Remove(args[0])
	case "false":
		var ranks []int64
		if ranks, err = idset.Decode(args[0], maxRanks); err == nil {
			err = s.matcher.RemoveRanks(ranks)
		}
	default:
		return fmt.Errorf("ERROR: is %s a path, true or false?", args[0])
	}
	if err != nil {
		return fmt.Errorf("ERROR: can't remove subgraph: %w", err)
	}
	return nil
}

func (s *session) cat(args []string) error {
	data, err := readFile(args[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "%sINFO: Jobspec in %s\n", data, args[0])
	return nil
}

func (s *session) help(args []string) error {
	for _, c := range commands() {
		if len(args) == 0 || c.name == args[0] || c.alias == args[0] {
			fmt.Fprintf(s.stdout, "%s (%s) %s\n    %s\n", c.name, c.alias, c.usage, c.help)
		}
	}
	if len(args) > 0 && findCommand(args[0]) == nil {
		return fmt.Errorf("ERROR: unknown command: %s", args[0])
	}
	return nil
}
