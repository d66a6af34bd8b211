// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// workers is how many requests of each kind are made at once.
const workers = 8

// runner carries out an experiment. One goroutine has the sweep and the results; others make requests, and send back
// what they found as functions for it.
type runner struct {
	*results
	cluster *cluster
	sweep   *core.Sweep
	clock   clock.WithTicker
	show    *display
	bounds  bounds

	news                         chan func() error
	submitting, ending, deleting pool
	busy                         sync.WaitGroup
}

// pool are requests of one kind. They begin in their order.
type pool struct {
	busy    int
	waiting []func() func() error
}

func newRunner(r *results, c *cluster, clock clock.WithTicker, show *display) (*runner, error) {
	sweep, err := core.NewSweep(r.definition, r.runs, r.records, r.identity.Began)
	return &runner{results: r, cluster: c, sweep: sweep, clock: clock, show: show, bounds: usual, news: make(chan func() error)}, err
}

// run runs the experiment to its end, or until the context ends.
func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.busy.Wait()
	defer cancel()
	if err := r.follow(ctx); err != nil {
		return err
	}
	r.show.begin(r.sweep.Counts(), r.clock.Now())
	for {
		now := r.clock.Now()
		step := r.sweep.Next(now)
		r.start(ctx, &step)
		r.show.progress(r.sweep.Counts(), step.Stopped, now)
		if step.Done {
			return nil
		}
		pause := time.Second
		if !step.Wake.IsZero() {
			pause = min(pause, step.Wake.Sub(now))
		}
		if err := r.await(ctx, pause); err != nil {
			return err
		}
	}
}

// await waits for news, or for a pause.
func (r *runner) await(ctx context.Context, pause time.Duration) error {
	timer := r.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case tell := <-r.news:
		return tell()
	case <-timer.C():
		return nil
	}
}

// follow tells the sweep of all MiniClusters that are there, and from then on of changes.
func (r *runner) follow(ctx context.Context) error {
	if _, err := r.cluster.list(ctx); err != nil { // an informer repeats a request that is forbidden, and says nothing
		return err
	}
	informer := r.cluster.informer()
	tell := func(object any, do func(mc *v1alpha2.MiniCluster)) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if mc, ok := object.(*v1alpha2.MiniCluster); ok {
			r.send(ctx, func() error { do(mc); return nil })
		}
	}
	seen := func(object any) { tell(object, r.sweep.Seen) }
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			tell(object, func(mc *v1alpha2.MiniCluster) { r.sweep.Gone(mc.Name) })
		},
	})
	if err != nil {
		return err
	}
	r.busy.Go(func() { informer.RunWithContext(ctx) })
	for !handler.HasSynced() {
		if err := r.await(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// send gives a function to the goroutine of the sweep.
func (r *runner) send(ctx context.Context, tell func() error) {
	select {
	case <-ctx.Done():
	case r.news <- tell:
	}
}

// start begins the requests of a step.
func (r *runner) start(ctx context.Context, step *core.Step) {
	for _, run := range step.Submit {
		r.work(ctx, &r.submitting, func() func() error {
			mc, err := r.cluster.submit(ctx, r.definition, run)
			return func() error {
				if err != nil {
					return fmt.Errorf("submitting %s: %w", run.Name, err)
				}
				r.sweep.Submitted(mc)
				return nil
			}
		})
	}
	for _, ending := range step.Record {
		r.work(ctx, &r.ending, func() func() error {
			record, err := r.record(ctx, ending)
			return func() error {
				if err == nil {
					err = r.append(record)
				}
				if err == nil {
					r.sweep.Recorded(record)
					r.show.ended(record, r.definition, r.sweep.Counts())
				}
				return err
			}
		})
	}
	for _, name := range step.Delete {
		r.work(ctx, &r.deleting, func() func() error {
			err := r.cluster.delete(ctx, name)
			return func() error {
				if err != nil {
					return fmt.Errorf("deleting %s: %w", name, err)
				}
				return nil
			}
		})
	}
}

// work makes a request in a goroutine, as soon as the pool has a worker for it.
func (r *runner) work(ctx context.Context, p *pool, request func() func() error) {
	p.waiting = append(p.waiting, request)
	r.pump(ctx, p)
}

func (r *runner) pump(ctx context.Context, p *pool) {
	for p.busy < workers && len(p.waiting) > 0 {
		request := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.busy++
		r.busy.Go(func() {
			tell := request()
			r.send(ctx, func() error {
				p.busy--
				r.pump(ctx, p)
				return tell()
			})
		})
	}
}

// record keeps the log of a run that has ended, and returns its record.
func (r *runner) record(ctx context.Context, ending core.Ending) (*core.Record, error) {
	record := core.NewRecord(ending.Run, ending.MiniCluster, ending.End)
	if !r.definition.KeepsLogs() || ending.End == core.Deleted {
		return record, nil
	}
	text, err := r.cluster.log(ctx, ending.MiniCluster)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		record.LogError = err.Error()
		record.Kept = ending.End == "" && !hasNoLog(err) // one that has not ended by itself holds nodes
		return record, nil
	}
	record.Log = filepath.Join(logsDir, record.Name+".log")
	path := filepath.Join(r.dir, record.Log)
	if err := writeFile(path, text); err != nil {
		return nil, fmt.Errorf("writing a log: %w", err)
	}
	if int64(len(text)) == r.cluster.mostLog {
		record.LogError = fmt.Sprintf("only the first %d bytes of the log were kept, and no figures are read from them", len(text))
		return record, nil
	}
	if record.Figures, err = figures(ctx, r.definition.Figures, path, r.bounds); err != nil {
		record.LogError = err.Error()
	}
	return record, ctx.Err()
}
