// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// commands are those that the instance carries out.
var commands = map[string]func(*call, []string) int{
	"submit": (*call).submission, "run": (*call).submission, "batch": (*call).submission,
	"jobs": (*call).listJobs, "job": (*call).job, "cancel": (*call).cancelJobs, "queue": (*call).queue,
	"resource": (*call).resource, "module": (*call).module, "getattr": (*call).getattr, "dump": (*call).dump,
	"exec": (*call).exec, "overlay": (*call).overlay,
}

func (c *call) run() int {
	if len(c.Args) == 0 || commands[c.Args[0]] == nil {
		return c.fail("flux: no such command")
	}
	return commands[c.Args[0]](c, c.Args[1:])
}

// overlay prints the state of each broker.
func (c *call) overlay(args []string) int {
	if strings.Join(args, " ") != "status --no-pretty" {
		return c.fail("flux-overlay: fakeflux has status --no-pretty alone")
	}
	c.Lock()
	defer c.Unlock()
	for rank, host := range c.hosts {
		state := "offline"
		switch {
		case c.lost[rank]:
			state = "lost lost connection"
		case c.isUp(rank):
			state = "full"
		}
		c.print("%d %s: %s", rank, host, state)
	}
	return 0
}

// misuse is the exit code of a command that is used wrongly.
func (c *call) misuse(err error) int {
	c.fail("flux %s: %v", c.Args[0], err)
	return 2
}

// find is the job of an id.
func (c *call) find(id string) *job {
	c.Lock()
	defer c.Unlock()
	n, err := strconv.Atoi(strings.TrimPrefix(id, "ƒ"))
	if err != nil || n < 1 || n > len(c.jobs) {
		c.fail("flux-%s: invalid job id: %s", c.Args[0], id)
		return nil
	}
	return c.jobs[n-1]
}

func (c *call) job(args []string) int {
	switch {
	case len(args) == 2 && args[0] == "wait" && (args[1] == "--all" || args[1] == "-a"):
		return c.waitForAll()
	case len(args) == 2 && args[0] == "wait":
		if j := c.find(args[1]); j != nil && j.Waitable {
			return c.wait(j)
		}
		c.fail("flux-job: invalid job id, or job may be inactive and not waitable")
		return 2
	case len(args) > 1 && args[0] == "attach":
		return c.attach(args[1:])
	case len(args) > 0 && args[0] == "killall":
		return c.killAll(args[1:])
	}
	return c.fail("flux-job: fakeflux has wait [--all], attach and killall alone")
}

// signals are those that killall knows, by name.
var signals = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2,
}

// killAll sends a signal to the tasks of all running jobs.
func (c *call) killAll(args []string) int {
	given, rest, err := parse(args, syntax{"force,f", "signal,s="})
	number, known := signals[given.last("signal")]
	if err != nil || len(rest) > 0 || !given.has("force") || !known {
		return c.fail("flux-job: fakeflux has killall --force --signal=SIG")
	}
	c.Lock()
	defer c.Unlock()
	for _, j := range c.jobs {
		if j.isRunning() {
			for _, process := range j.processes {
				signalGroup(process, number)
			}
		}
	}
	return 0
}

func (c *call) attach(args []string) int {
	given, ids, err := parse(args, syntax{"read-only,r", "label-io,l", "quiet,q", "verbose,v", "show-events,E", "show-exec,X"})
	if err != nil || len(ids) != 1 {
		return c.fail("Usage: flux-job attach [OPTIONS...] id")
	}
	j := c.find(ids[0])
	if j == nil {
		return 1
	}
	return c.watch(j, view{report: true, label: given.label("")})
}

func (c *call) waitForAll() int {
	c.Lock()
	jobs := c.seen()
	c.Unlock()
	worst := 0
	for _, j := range jobs {
		if j.Waitable && !j.reaped && c.wait(j) != 0 {
			worst = 1
		}
	}
	return worst
}

// wait is for one that has not been waited for.
func (c *call) wait(j *job) int {
	c.await(c.context, func() bool { return !j.isActive() })
	c.Lock()
	defer c.Unlock()
	j.reaped = true
	if j.code != 0 {
		return c.fail("%s: task(s) exited with exit code %d", j.name(), j.code)
	}
	return 0
}

func (c *call) cancelJobs(args []string) int {
	given, ids, err := parse(args, syntax{"all", "quiet,q", "user,u=", "states,S=", "message,m="})
	if err != nil {
		return c.misuse(err)
	}
	var chosen []*job
	for _, id := range ids {
		j := c.find(id)
		if j == nil {
			return 1
		}
		chosen = append(chosen, j)
	}
	c.change(func() {
		if given.has("all") {
			chosen = c.jobs
		}
		for _, j := range chosen {
			if j.state == pending {
				c.instance.fail(j, "job.exception: type=cancel severity=0", 1)
			}
			j.cancel()
		}
		c.save()
	})
	return 0
}

func (c *call) listJobs(args []string) int {
	given, _, err := parse(args, syntax{"a", "no-header,n", "format,o=", "filter,f=", "user,u=", "count,c="})
	if err != nil {
		return c.misuse(err)
	}
	format := given.last("format")
	if format == "" {
		format = "{id:>12} {status_abbrev:<2} {ntasks:>6} {nnodes:>6} {name} {nodelist}"
	}
	if !given.has("no-header") {
		c.print("%12s %-2s %6s %6s %s %s", "JOBID", "ST", "NTASKS", "NNODES", "NAME", "NODELIST")
	}
	c.Lock()
	defer c.Unlock()
	for _, j := range slices.Backward(c.seen()) {
		if !j.isActive() && !given.has("a") {
			continue
		}
		if err := c.row(format, c.fields(j)); err != nil {
			return c.misuse(err)
		}
	}
	return 0
}

var statuses = map[string]string{pending: "SCHED", running: "RUN", completed: "COMPLETED", failed: "FAILED"}

func (c *call) fields(j *job) map[string]string {
	ranks := slices.Compact(slices.Sorted(slices.Values(j.tasks)))
	code := ""
	if !j.isActive() {
		code = strconv.Itoa(j.code)
	}
	name := ""
	if len(j.Command) > 0 {
		name = filepath.Base(j.Command[0])
	}
	return map[string]string{
		"id": j.name(), "status_abbrev": j.state, "status": statuses[j.state], "name": name, "returncode": code,
		"ntasks": strconv.Itoa(max(j.Tasks, j.Nodes, 1)), "nnodes": strconv.Itoa(max(len(ranks), j.Nodes)),
		"nodelist": c.nodelist(ranks), "ranks": rankset(ranks),
	}
}

func (c *call) nodelist(ranks []int) string {
	var hosts []string
	for _, rank := range ranks {
		hosts = append(hosts, c.hosts[rank])
	}
	return hostlist.Encode(hosts)
}

func rankset(ranks []int) string {
	var ids []int64
	for _, rank := range ranks {
		ids = append(ids, int64(rank))
	}
	return idset.Encode(ids)
}

var field = regexp.MustCompile(`\{([a-z_]+)(:[^}]*)?\}`)

// row prints a line with the values of the fields that the format has. How wide they
// are to be is left out.
func (c *call) row(format string, values map[string]string) error {
	var unknown error
	line := field.ReplaceAllStringFunc(format, func(text string) string {
		name := field.FindStringSubmatch(text)[1]
		value, ok := values[name]
		if !ok {
			unknown = fmt.Errorf("error: unknown format field: %s", name)
		}
		return value
	})
	if unknown == nil {
		c.print("%s", line)
	}
	return unknown
}

// queue waits: for no job that runs, or for no job at all.
func (c *call) queue(args []string) int {
	var busy func(*job) bool
	switch {
	case len(args) > 0 && args[0] == "idle":
		busy = (*job).isRunning
	case len(args) > 0 && args[0] == "drain":
		busy = (*job).isActive
	default:
		return c.fail("flux-queue: fakeflux has idle and drain alone")
	}
	if _, _, err := parse(args[1:], syntax{"quiet,q"}); err != nil {
		return c.misuse(err)
	}
	if !c.await(c.context, func() bool { return !slices.ContainsFunc(c.seen(), busy) }) {
		return 1
	}
	return 0
}

func (c *call) getattr(args []string) int {
	if len(args) != 1 {
		return c.misuse(fmt.Errorf("usage: flux getattr NAME"))
	}
	value, ok := c.attributes[args[0]]
	if !ok {
		return c.fail("flux-getattr: %s: No such file or directory", args[0])
	}
	c.print("%s", value)
	return 0
}

// exec runs a command on the brokers of the ranks, one after the other. Those that are
// down it says, and leaves out.
func (c *call) exec(args []string) int {
	given, command, err := parse(args, syntax{"rank,r=", "noinput,n", "dir,d=", "quiet,q"})
	if err != nil || len(command) == 0 {
		return c.misuse(fmt.Errorf("usage: flux exec [OPTIONS] COMMAND"))
	}
	ranks, err := c.targets(given.last("rank"))
	if err != nil {
		return c.fail("flux-exec: %v", err)
	}
	worst := 0
	for _, rank := range ranks {
		out, code := c.execOn(rank, command, given.last("dir"))
		_ = c.encoder.Encode(message{Stdout: out})
		worst = max(worst, code)
	}
	return worst
}

func (c *call) execOn(rank int, command []string, dir string) (out []byte, code int) {
	if rank == 0 {
		return c.runHere(c.context, command, dir, c.Environment)
	}
	answer, ok := c.runOn(c.context, rank, message{Args: command, Directory: dir, Environment: c.Environment})
	if !ok {
		return nil, max(unreached, c.fail("flux-exec: Error: rank %d: %s: No route to host", rank, command[0]))
	}
	return answer.Stdout, *answer.Exit
}

// unreached is the exit code of flux exec where a rank is down.
const unreached = 68

func (c *call) module(args []string) int {
	if len(args) == 1 && args[0] == "list" {
		c.Lock()
		defer c.Unlock()
		c.print("Module\n%s", strings.Join(c.modules, "\n"))
		return 0
	}
	if len(args) < 2 || args[0] != "load" && args[0] != "remove" {
		return c.fail("flux-module: fakeflux has list, load and remove alone")
	}
	code, verb, name := 0, args[0], args[1]
	c.change(func() {
		at := slices.Index(c.modules, name)
		switch {
		case verb == "load" && at >= 0:
			code = c.fail("flux-module: load %s: File exists", name)
		case verb == "load":
			c.modules = append(c.modules, name)
		case at < 0:
			code = c.fail("flux-module: remove %s: No such file or directory", name)
		default:
			c.modules = slices.Delete(c.modules, at, at+1)
		}
	})
	return code
}

// dump writes a file that is no archive, but says whose it is.
func (c *call) dump(args []string) int {
	_, files, err := parse(args, syntax{"quiet,q", "verbose,v", "checkpoint", "no-cache", "ignore-failed-read", "size-limit=", "sd-notify"})
	if err != nil || len(files) != 1 {
		return c.misuse(fmt.Errorf("usage: flux dump OUTFILE"))
	}
	path := files[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Directory, path)
	}
	text := fmt.Sprintf("fakeflux dump of %s\n", slices.Sorted(maps.Keys(c.attributes)))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return c.fail("flux-dump: %v", err)
	}
	return 0
}
