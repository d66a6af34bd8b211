// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

const (
	// submitters is how many gangs are submitted in parallel.
	submitters = 16
	// tidyTimeout is how long the pods of finished gangs may take to be deleted. The cost of
	// the deletion is a part of the experiment.
	tidyTimeout = 10 * time.Second
)

// experiment is one run of a scheduler on a cluster of its own.
type experiment struct {
	bench.Run
	config  localcluster.Config
	gangs   []clog.Gang
	about   clog.Experiment
	manager string
	kueue   bool   // MiniClusters get their quota, all nodes, from Kueue
	peers   string // directory of programs of other schedulers that are used instead of ours; "" for none

	cpu resource.Quantity // of a node
}

// run starts the cluster, runs the gangs, ends the cluster, and writes the result and a timeline.
func (e *experiment) run(ctx context.Context) (result *clog.Result, err error) {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	machine := thisMachine() // the load before the cluster starts
	if e.cpu, err = resource.ParseQuantity(e.config.Nodes.CPU); err != nil {
		return nil, err
	}
	if e.config.Dir, err = filepath.Abs(e.config.Dir); err != nil {
		return nil, err
	}
	defer func() {
		say("ending the cluster")
		err = errors.Join(err, localcluster.Down(context.WithoutCancel(ctx), e.config.Dir))
	}()
	cluster, c, err := e.start(ctx)
	if err != nil {
		return nil, err
	}
	result, err = e.measure(ctx, cluster, c)
	if err != nil {
		return nil, err
	}
	result.Machine.Cores, result.Machine.CPU, result.Machine.Load = machine.Cores, machine.CPU, machine.Load
	return result, writeResult(e.config.Dir, result)
}

func writeResult(dir string, result *clog.Result) error {
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result.json"), append(data, '\n'), 0o644)
}

// measure submits the gangs, follows them to their end, and computes the result.
func (e *experiment) measure(ctx context.Context, cluster *localcluster.Cluster, c client.Client) (*clog.Result, error) {
	meters, err := newMeters(ctx, cluster)
	if err != nil {
		return nil, err
	}
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	kinds, record := []client.Object{&eventsv1.Event{}}, clog.NewJobRecord
	if e.Scheduler.Ours() {
		kinds, record = append(kinds, &v1alpha2.MiniCluster{}), clog.NewRecord
	}
	w, err := newWatcher(watchCtx, config, c, kinds...)
	if err != nil {
		return nil, err
	}
	before, err := meters.read(ctx)
	if err != nil {
		return nil, err
	}
	w.record = record(e.config.Nodes.Count, e.cpu.MilliValue())
	f := &follower{
		watcher: w, jobs: !e.Scheduler.Ours(),
		events: map[string]float64{}, pods: map[types.UID]bool{}, sizes: map[string]int{},
	}
	say(fmt.Sprintf("submitting %d gangs of %d pods in all", len(e.gangs), clog.Pods(e.gangs)))
	if err := f.follow(ctx, e, c); err != nil {
		return nil, err
	}
	f.record.Close(time.Now())
	if err := crashed(ctx, cluster); err != nil {
		return nil, err
	}
	after, err := meters.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.draw(filepath.Join(cluster.Dir, "timeline.svg")), w.save(filepath.Join(cluster.Dir, timelineFile))); err != nil {
		return nil, fmt.Errorf("drawing the timeline: %w", err)
	}
	result := &clog.Result{Events: f.events, Experiment: e.about}
	result.Tell(f.record)
	usage := w.timeline().Usage()
	result.Running, result.Waiting, result.Idle = usage.Running, usage.Waiting, usage.Idle
	after.tell(before, result)
	return result, nil
}

// crashed returns an error if a program of the cluster has ended.
func crashed(ctx context.Context, cluster *localcluster.Cluster) error {
	status, err := localcluster.GetStatus(ctx, cluster.Dir)
	if err != nil {
		return err
	}
	for _, p := range status.Processes {
		if !p.Alive {
			return fmt.Errorf("%s ended: see %s", p.Name, p.Log)
		}
	}
	return nil
}

// submit creates the gangs in their order and at their times, some in parallel. It calls fail with the
// first error.
func (e *experiment) submit(ctx context.Context, c client.Client, begun time.Time, fail context.CancelCauseFunc) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(submitters)
	for _, gang := range e.gangs {
		if wait := time.Until(begun.Add(gang.At)); wait > 0 {
			select {
			case <-groupCtx.Done():
			case <-time.After(wait):
			}
		}
		group.Go(func() error { return e.create(groupCtx, c, gang) })
	}
	if err := group.Wait(); err != nil {
		fail(err)
	}
}

// create creates the objects of a gang.
func (e *experiment) create(ctx context.Context, c client.Client, gang clog.Gang) error {
	objects, err := e.objects(gang)
	if err != nil {
		return err
	}
	var owner []metav1.OwnerReference // the Job
	for _, object := range objects {
		object.SetOwnerReferences(owner)
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("submitting %s: %w", gang.Name, err)
		}
		if kind := object.GetObjectKind().GroupVersionKind(); kind == batchv1.SchemeGroupVersion.WithKind("Job") {
			owner = []metav1.OwnerReference{*metav1.NewControllerRef(object, kind)}
		}
	}
	return nil
}
