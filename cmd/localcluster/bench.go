// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// benchOptions are the flags of the command bench.
type benchOptions struct {
	dir, manager, table, peers string
	selection                  bench.Selection
}

func (o *benchOptions) parse(args []string) error {
	flags := newFlags("bench")
	flags.StringVar(&o.dir, "dir", ".local/bench", "directory of the results; finished runs in it are not repeated")
	flags.StringVar(&o.manager, "manager", "bin/manager", "the manager to run")
	flags.StringVar(&o.table, "table", "", "file of scenarios and schedulers, instead of dev/bench/bench.yaml")
	flags.StringVar(&o.peers, "peers", "", "directory of programs of other schedulers, such as volcano-scheduler, that are used instead of ours")
	scenarios := flags.String("scenarios", "", "names of scenarios, with commas; all if empty")
	only := flags.String("only", "", "names of schedulers, with commas; all if empty")
	seeds := flags.String("seeds", "", "seeds, with commas; those of the table if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.selection.Scenarios, o.selection.Systems = words(*scenarios), words(*only)
	for _, word := range words(*seeds) {
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return fmt.Errorf("seed %q is no number", word)
		}
		o.selection.Seeds = append(o.selection.Seeds, seed)
	}
	return nil
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// benchmark runs schedulers beside each other, and compares them. It skips runs that have finished.
func benchmark(ctx context.Context, args []string) error {
	o := benchOptions{}
	if err := o.parse(args); err != nil {
		return err
	}
	table, err := bench.Read(o.table)
	if err != nil {
		return err
	}
	runs, err := table.Runs(o.selection)
	if err != nil {
		return err
	}
	var results []*clog.Result
	for i := range runs {
		dir := filepath.Join(o.dir, filepath.FromSlash(runs[i].Dir()))
		say(fmt.Sprintf("[%d/%d] %s", i+1, len(runs), runs[i].Dir()))
		e, err := o.experiment(runs[i], dir)
		if err != nil {
			return err
		}
		result := finished(dir, e.about)
		if result == nil {
			if result, err = e.try(ctx); err != nil {
				return err
			}
		}
		say(bench.Line(result))
		results = append(results, result)
	}
	return errors.Join(writeComparison(o.dir, results), drawNodes(o.dir, runs, results))
}

// experiment returns the experiment of a run.
func (o *benchOptions) experiment(run bench.Run, dir string) (*experiment, error) {
	gangs, err := run.Gangs()
	if err != nil {
		return nil, err
	}
	e := &experiment{
		Run: run, gangs: gangs, manager: o.manager, peers: o.peers,
		config: localcluster.Config{Dir: dir, Nodes: localcluster.NodeConfig{
			Count: run.Scenario.Nodes, CPU: "8", Memory: "32Gi", Pods: 110,
		}},
		about: clog.Experiment{
			Scenario: run.Scenario.Name, What: run.Scenario.What, System: run.System(), Seed: run.Seed, Nodes: run.Scenario.Nodes, Binder: run.Scheduler.Binder,
			Limit: run.Scenario.Limit.Seconds(), Settle: run.Scenario.Settle.Seconds(), Workers: submitters,
		},
	}
	e.about.Build, err = o.build(e)
	return e, err
}

// build returns the digest of what is measured: the settings, the gangs, and our manager.
func (o *benchOptions) build(e *experiment) (string, error) {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode([]any{e.Run, e.gangs, o.peers}); err != nil {
		return "", err
	}
	if e.Scheduler.Ours() {
		program, err := os.ReadFile(o.manager)
		if err != nil {
			return "", err
		}
		hash.Write(program)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// finished returns the result of an earlier run of the experiment; nil if there is none, or if the run
// failed.
func finished(dir string, about clog.Experiment) *clog.Result {
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return nil
	}
	result := &clog.Result{}
	if json.Unmarshal(data, result) != nil || result.Experiment != about || result.Trouble != "" {
		return nil
	}
	return result
}

// try runs the experiment. If the experiment fails, the result says why. try fails only if the context
// is done.
func (e *experiment) try(ctx context.Context) (*clog.Result, error) {
	begun := time.Now()
	result, err := e.run(ctx)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted; the same command goes on")
	}
	if err != nil {
		result = &clog.Result{Experiment: e.about, Trouble: err.Error(), Gangs: len(e.gangs), Pods: clog.Pods(e.gangs)}
		err = writeResult(e.config.Dir, result)
	}
	say(fmt.Sprintf("took %.0f s", time.Since(begun).Seconds()))
	return result, err
}

// writeComparison prints the comparison of the results, and writes it as text, JSON and a drawing.
func writeComparison(dir string, results []*clog.Result) error {
	comparison := bench.Compare(results)
	data, err := json.MarshalIndent(comparison, "", "  ")
	if err != nil {
		return err
	}
	text := comparison.Markdown()
	fmt.Print("\n" + text)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "bench.json"), append(data, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "bench.md"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "bench.svg"), comparison.SVG(), 0o644),
	)
}
