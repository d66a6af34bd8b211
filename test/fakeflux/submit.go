// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// submissionOptions are those of submit, run and batch; those that only one has are
// added to it.
var submissionOptions = syntax{
	"nodes,N=", "ntasks,n=", "nslots=", "cores-per-task,c=", "cores-per-slot=", "gpus-per-task,g=", "exclusive,x", "time-limit,t=",
	"setopt,o=", "setattr,S=", "env=", "env-remove=", "env-file=", "flags=", "output=", "error=", "input=", "job-name=",
	"queue,q=", "cwd=", "urgency=", "requires=", "dependency=", "unbuffered,u", "label-io,l", "verbose,v", "quiet",
}

var ownOptions = map[string]syntax{
	"submit": {"watch", "wait", "wait-event=", "progress", "jps", "cc=", "bcc=", "log="},
	"batch":  {"wrap", "broker-opts,B=", "dump"},
}

// submission is flux submit, run and batch.
func (c *call) submission(args []string) int {
	kind := c.Args[0]
	given, command, err := parse(args, slices.Concat(submissionOptions, ownOptions[kind]))
	if err != nil {
		return c.misuse(err)
	}
	spec, err := c.spec(given, command)
	if err != nil {
		return c.misuse(err)
	}
	if kind == "batch" {
		if err := c.keepScript(given, &spec); err != nil {
			return c.fail("flux-batch: ERROR: %v", err)
		}
	}
	copies, err := copiesOf(spec, given)
	if err != nil {
		return c.misuse(err)
	}
	worst := 0
	for _, j := range c.submitAll(copies) {
		if kind != "run" && !given.has("quiet") {
			c.print("%s", j.name())
		}
		worst = max(worst, c.follow(j, kind, given))
	}
	return worst
}

// copiesOf is the job as often as --cc says.
func copiesOf(spec jobspec, given options) ([]jobspec, error) {
	if !given.has("cc") {
		return []jobspec{spec}, nil
	}
	ids, err := idset.Decode(given.last("cc"), 1000)
	var copies []jobspec
	for _, id := range ids {
		copied := spec
		copied.Environment = append(slices.Clone(spec.Environment), fmt.Sprint("FLUX_JOB_CC=", id))
		copies = append(copies, copied)
	}
	return copies, err
}

func (c *call) submitAll(specs []jobspec) (jobs []*job) {
	c.change(func() {
		for _, spec := range specs {
			jobs = append(jobs, c.submit(spec))
		}
	})
	return jobs
}

// follow stays with a job for as long as the options want, and returns the exit code.
func (c *call) follow(j *job, kind string, given options) int {
	switch {
	case kind == "run":
		return c.watch(j, view{report: true, label: given.label("")})
	case given.has("watch"):
		return c.watch(j, view{held: true, label: given.label(j.name() + ": ")})
	case given.has("wait"):
		c.await(c.context, func() bool { return !j.isActive() })
		return j.code
	}
	return 0
}

func (c *call) spec(given options, command []string) (jobspec, error) {
	spec := jobspec{
		Command: command, Directory: c.Directory, Output: given.last("output"), Error: given.last("error"),
		Waitable: slices.Contains(given.list("flags"), "waitable"), Environment: slices.Clone(c.Environment), Inside: c.batch(),
		Label: given.has("label-io"),
	}
	if len(command) == 0 {
		return spec, fmt.Errorf("error: job command and arguments are missing")
	}
	var problem error
	for option, to := range map[string]*int{
		"nodes": &spec.Nodes, "ntasks": &spec.Tasks, "nslots": &spec.Tasks, "cores-per-task": &spec.Cores, "cores-per-slot": &spec.Cores,
	} {
		n, err := given.number(option)
		if err != nil {
			problem = err
		}
		*to = max(*to, n)
	}
	spec.Cores = max(spec.Cores, 1)
	if text, ranks := strings.CutPrefix(given.last("requires"), "rank:"); ranks {
		spec.Ranks = text
		_, problem = idset.Parse(text)
	}
	if problem == nil && spec.Tasks > 0 && spec.Tasks < spec.Nodes {
		problem = fmt.Errorf("error: node count must not be greater than task count")
	}
	for _, text := range given["env"] {
		if strings.Contains(text, "=") {
			spec.Environment = append(spec.Environment, text)
		}
	}
	if dir := given.last("cwd"); dir != "" {
		spec.Directory = dir
	}
	return spec, problem
}

// keepScript keeps the script of a batch job as it is now.
func (c *call) keepScript(given options, spec *jobspec) error {
	spec.Batch = true
	if spec.Output == "" {
		spec.Output = "flux-{{id}}.out"
	}
	if given.has("wrap") {
		spec.Command = []string{"/bin/sh", "-c", strings.Join(spec.Command, " ")}
		return nil
	}
	path := spec.Command[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Directory, path)
	}
	script, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(script), "#!") {
		return fmt.Errorf("%s does not appear to start with '#!'", spec.Command[0])
	}
	file, err := os.CreateTemp(c.attributes["rundir"], "script-")
	if err != nil {
		return err
	}
	defer file.Close()
	spec.Command = append([]string{file.Name()}, spec.Command[1:]...)
	if err := file.Chmod(0o700); err != nil {
		return err
	}
	_, err = file.Write(script)
	return err
}
