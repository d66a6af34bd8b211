// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// buildDisplay shows the progress of builds. On a terminal it shows the program, the time and the
// package that is compiled. Elsewhere it prints a line per program.
type buildDisplay struct {
	out      io.Writer
	terminal bool
	begun    time.Time
	prefix   string
	packages int
	shown    time.Time
}

func newBuildDisplay(out *os.File) *buildDisplay {
	return &buildDisplay{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

// Step begins the build of a program.
func (d *buildDisplay) Step(step, steps int, name string) {
	if step == 1 {
		fmt.Fprintf(d.out, "Building the control plane: %d programs, once; some minutes where nothing is cached\n", steps)
	}
	d.begun, d.packages = time.Now(), 0
	d.prefix = fmt.Sprintf("[%d/%d] %s", step, steps, name)
	if !d.terminal {
		fmt.Fprintln(d.out, d.prefix)
	}
}

// Package shows the package that is compiled.
func (d *buildDisplay) Package(name string) {
	d.packages++
	if d.terminal && time.Since(d.shown) > 100*time.Millisecond {
		d.shown = time.Now()
		fmt.Fprintf(d.out, "\r\033[K%s  %s  %d packages  %.50s", d.prefix, d.elapsed(), d.packages, name)
	}
}

// Done ends the build of a program.
func (d *buildDisplay) Done(string) {
	line := fmt.Sprintf("%s  done in %s", d.prefix, d.elapsed())
	if d.terminal {
		line = "\r\033[K" + line
	}
	fmt.Fprintln(d.out, line)
}

func (d *buildDisplay) elapsed() time.Duration { return time.Since(d.begun).Round(time.Second) }
