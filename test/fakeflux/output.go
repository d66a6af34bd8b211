// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// chunk is what a task has written: one or more lines, or the end of its output.
type chunk struct {
	task   int
	stderr bool
	data   []byte
}

// labelled is the data with a label before each line.
func labelled(label string, data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		out = fmt.Appendf(out, "%s: %s", label, line)
	}
	return out
}

// lines passes on what a task writes in whole lines, as Flux does, and the rest when it is
// closed.
type lines struct {
	pass func([]byte)
	rest []byte
	file *os.File // closed with it; nil for none
}

func (l *lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	if end := bytes.LastIndexByte(l.rest, '\n') + 1; end > 0 {
		l.pass(l.rest[:end])
		l.rest = slices.Clone(l.rest[end:])
	}
	return len(data), nil
}

func (l *lines) Close() error {
	if len(l.rest) > 0 {
		l.pass(l.rest)
		l.rest = nil
	}
	return l.file.Close() // an error for none, which nobody reads
}

// redirect says where the output of a task goes.
func (i *instance) redirect(j *job, rank int, cmd *exec.Cmd) error {
	keep := func(stderr bool) *lines {
		return &lines{pass: func(data []byte) {
			i.change(func() { j.output = append(j.output, chunk{rank, stderr, slices.Clone(data)}) })
		}}
	}
	out, err := j.file(j.Output, rank)
	if err != nil {
		return err
	}
	if out == nil {
		cmd.Stdout, cmd.Stderr = keep(false), keep(true)
	} else {
		cmd.Stdout, cmd.Stderr = out, out
	}
	if out, err = j.file(j.Error, rank); out != nil {
		cmd.Stderr = out
	}
	return err
}

// file opens one for the output of a task; nil for none.
func (j *job) file(name string, rank int) (io.WriteCloser, error) {
	if name == "" || name == "kvs" {
		return nil, nil
	}
	name = strings.NewReplacer("{{id}}", j.name(), "{{jobid}}", j.name()).Replace(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(j.Directory, name)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil || !j.Label {
		return file, err
	}
	return &lines{file: file, pass: func(data []byte) { _, _ = file.Write(labelled(fmt.Sprint(rank), data)) }}, nil
}

// block is how much flux submit --watch holds back of what goes to standard output.
const block = 8192

// view is how a client sees the output of a job.
type view struct {
	held   bool             // as flux submit --watch prints it: in blocks, and at the end
	label  func(int) string // of the lines of a task; nil for none
	report bool             // says that the job failed
}

// watch passes the output on until the job has ended, and returns its exit code.
func (c *call) watch(j *job, v view) int {
	var held []byte
	for sent := 0; ; {
		ok := c.await(c.context, func() bool { return len(j.output) > sent || !j.isActive() })
		if !ok {
			return 1
		}
		c.Lock()
		output, ended := j.output[sent:], !j.isActive()
		c.Unlock()
		for _, o := range output {
			held = c.show(o, v, held)
		}
		sent += len(output)
		if ended {
			break
		}
	}
	_ = c.encoder.Encode(message{Stdout: held})
	if j.exception != "" {
		c.fail("%s", j.exception)
	}
	if v.report && j.code > 0 {
		c.fail("flux-job: task(s) exited with exit code %d", j.code)
	}
	return j.code
}

// show passes a chunk on, and returns what is held back.
func (c *call) show(o chunk, v view, held []byte) []byte {
	data := o.data
	if v.label != nil {
		data = labelled(v.label(o.task), data)
	}
	if o.stderr {
		_ = c.encoder.Encode(message{Stderr: data})
		return held
	}
	held = append(held, data...)
	if !v.held || len(held) >= block {
		_ = c.encoder.Encode(message{Stdout: held})
		return nil
	}
	return held
}
