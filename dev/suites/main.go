// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/clock"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

func main() {
	p := &program{clock: clock.RealClock{}, out: os.Stdout, log: os.Stderr}
	if err := p.run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

type program struct {
	root    string // of the checkout
	records records
	clock   clock.PassiveClock
	// out is for what other programs read, and log for people.
	out, log io.Writer
}

func (p *program) run(ctx context.Context, args []string) (err error) {
	if p.root, err = localcluster.Root(); err != nil {
		return err
	}
	cache, err := localcluster.CacheDir()
	if err != nil {
		return err
	}
	p.records.dir = filepath.Join(cache, "suites")
	switch {
	case len(args) == 1 && args[0] == "due":
		return p.due(ctx)
	case len(args) == 2 && args[0] == "begin":
		return p.begin(ctx, args[1])
	case len(args) == 2 && args[0] == "passed":
		return p.passed(ctx, args[1])
	}
	return errors.New("usage: suites due | begin TARGET | passed TARGET")
}

// due prints the suites that have to run. If something cannot be found out about a suite, the suite runs.
func (p *program) due(ctx context.Context) error {
	var targets []string
	for i := range suites {
		s := &suites[i]
		due, why := true, ""
		now, err := inputsOf(ctx, p.root, s)
		if err == nil {
			due, why, err = p.records.verdict(s.target, now)
		}
		if err != nil {
			due, why = true, err.Error()
		}
		if due {
			targets = append(targets, s.target)
			fmt.Fprintf(p.log, "%s runs: %s\n", s.target, why)
		} else {
			fmt.Fprintf(p.log, "%s is left out: %s\n", s.target, why)
		}
	}
	_, err := fmt.Fprintln(p.out, strings.Join(targets, " "))
	return err
}

// begun is the file with what a suite that runs in this checkout depends on.
func (p *program) begun(target string) string {
	return filepath.Join(p.root, ".local", "suites", target+".json")
}

func (p *program) begin(ctx context.Context, target string) error {
	s, err := find(target)
	if err != nil {
		return err
	}
	in, err := inputsOf(ctx, p.root, s)
	if err != nil {
		return err
	}
	return write(p.begun(target), in)
}

func (p *program) passed(ctx context.Context, target string) error {
	s, err := find(target)
	if err != nil {
		return err
	}
	var before inputs
	if err := read(p.begun(target), &before); err != nil {
		return err
	}
	now, err := inputsOf(ctx, p.root, s)
	if err != nil {
		return err
	}
	if changed := before.differs(now); len(changed) > 0 {
		fmt.Fprintf(p.log, "%s passed, but %s changed meanwhile: there is no record\n", target, strings.Join(changed, ", "))
		return nil
	}
	return p.records.add(&record{Suite: target, At: p.clock.Now().UTC(), Revision: p.revision(ctx), Inputs: now})
}

// revision is the one that is checked out, with a mark if files differ from it.
func (p *program) revision(ctx context.Context) string {
	return said(ctx, p.root, []string{"git", "describe", "--always", "--dirty", "--exclude=*"})
}

func find(target string) (*suite, error) {
	for i := range suites {
		if suites[i].target == target {
			return &suites[i], nil
		}
	}
	return nil, fmt.Errorf("there is no suite %q", target)
}
