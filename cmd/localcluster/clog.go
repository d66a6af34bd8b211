// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// clogOptions are the flags of the command clog.
type clogOptions struct {
	config     localcluster.Config
	manager    string
	sizes, min string
	seed       uint64
	runtime    time.Duration
	limit      time.Duration
	binder     string
	kueue      bool

	gangs []clog.Gang
}

func (o *clogOptions) parse(args []string) error {
	flags := newFlags("clog")
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.withKueue()
	classes, err := clog.ParseSizes(o.sizes)
	if err != nil {
		return err
	}
	for i := range classes {
		classes[i].Run = o.runtime
	}
	o.gangs, err = clog.Gangs(classes, o.min, o.seed)
	return err
}

func (o *clogOptions) bind(flags *flag.FlagSet) {
	clusterFlags(flags, &o.config)
	flags.StringVar(&o.manager, "manager", "bin/manager", "the manager to run")
	flags.StringVar(&o.sizes, "sizes", "64x6,32x10,16x20,8x20,4x20", "the gangs, SIZExCOUNT,...")
	flags.StringVar(&o.min, "min", clog.Rigid, "the gangs' minSize: "+clog.Rigid+" (all of it) or "+clog.Half)
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the order of submission")
	flags.DurationVar(&o.runtime, "run", 10*time.Second, "how long a gang runs at its full size")
	flags.DurationVar(&o.limit, "limit", 3*time.Minute, "time limit of the experiment")
	flags.StringVar(&o.binder, "binder", "auto", "the manager's --binder")
	flags.BoolVar(&o.kueue, "kueue", false, "the gangs get their quota, all nodes, from Kueue")
}

// clogging runs many gangs at once on a cluster of its own, and prints how long the phases took.
func clogging(ctx context.Context, args []string) error {
	o := clogOptions{}
	if err := o.parse(args); err != nil {
		return err
	}
	result, err := o.experiment().run(ctx)
	if err != nil {
		return err
	}
	if err := result.Print(os.Stdout); err != nil {
		return err
	}
	dir := o.config.Dir
	fmt.Printf("\nResults: %s; timeline of the nodes: %s\n", filepath.Join(dir, "result.json"), filepath.Join(dir, "timeline.svg"))
	return result.Verdict()
}

// experiment returns the experiment that the flags describe.
func (o *clogOptions) experiment() *experiment {
	return &experiment{
		Run:    bench.Run{Scheduler: bench.Scheduler{Name: "ours", Binder: o.binder}, Seed: o.seed},
		config: o.config, gangs: o.gangs, manager: o.manager, kueue: o.kueue,
		about: clog.Experiment{
			Sizes: o.sizes, Seed: o.seed, Nodes: o.config.Nodes.Count, Min: o.min, Run: o.runtime.Seconds(), Limit: o.limit.Seconds(),
			Binder: o.binder, Kueue: o.kueue, Workers: submitters,
		},
	}
}
