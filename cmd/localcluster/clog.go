// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

const (
	// submitters is how many gangs are submitted in parallel.
	submitters = 16
	// tidyTimeout is how long the pods of finished gangs may take to be deleted. The cost of
	// the deletion is a part of the experiment.
	tidyTimeout = 10 * time.Second
	// binderGate is the default of the manager's --binder.
	binderGate = "gate"
)

// clogOptions are the flags of the command clog.
type clogOptions struct {
	config     localcluster.Config
	manager    string
	sizes, min string
	seed       uint64
	run, limit time.Duration
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
	o.gangs, err = clog.Gangs(classes, o.min, o.seed)
	return err
}

func (o *clogOptions) bind(flags *flag.FlagSet) {
	clusterFlags(flags, &o.config)
	flags.StringVar(&o.manager, "manager", "bin/manager", "the manager to run")
	flags.StringVar(&o.sizes, "sizes", "64x6,32x10,16x20,8x20,4x20", "the gangs, SIZExCOUNT,...")
	flags.StringVar(&o.min, "min", clog.Rigid, "the gangs' minSize: "+clog.Rigid+" (all of it) or "+clog.Half)
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the order of submission")
	flags.DurationVar(&o.run, "run", 10*time.Second, "how long a gang runs at its full size")
	flags.DurationVar(&o.limit, "limit", 3*time.Minute, "time limit of the experiment")
	flags.StringVar(&o.binder, "binder", binderGate, "the manager's --binder")
	flags.BoolVar(&o.kueue, "kueue", false, "the gangs get their quota, all nodes, from Kueue")
}

// clogging runs many gangs at once on a cluster of its own, and prints how long the phases took.
func clogging(ctx context.Context, args []string) (err error) {
	o := clogOptions{}
	if err := o.parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	root, err := localcluster.Root()
	if err != nil {
		return err
	}
	machine := thisMachine() // the load before the cluster starts
	cluster, _, err := startSimulated(ctx, o.config)
	if err != nil {
		return err
	}
	defer func() {
		say("ending the cluster")
		err = errors.Join(err, localcluster.Down(context.WithoutCancel(ctx), cluster.Dir))
	}()
	var options []string
	if o.binder != binderGate {
		options = append(options, "--binder="+o.binder)
	}
	c, err := startDemo(ctx, cluster, root, o.manager, options...)
	if err != nil {
		return err
	}
	if o.kueue {
		if err := o.makeKueueQueue(ctx, c); err != nil {
			return err
		}
	}
	result, err := o.measure(ctx, cluster, c, machine)
	if err != nil {
		return err
	}
	if err := writeResult(cluster.Dir, result); err != nil {
		return err
	}
	if err := result.Print(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\nResults: %s; timeline of the nodes: %s\n", filepath.Join(cluster.Dir, "result.json"), filepath.Join(cluster.Dir, "timeline.svg"))
	return result.Verdict()
}

func writeResult(dir string, result *clog.Result) error {
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result.json"), append(data, '\n'), 0o644)
}

// measure submits the gangs, follows them to their end, and computes the result.
func (o *clogOptions) measure(ctx context.Context, cluster *localcluster.Cluster, c client.Client, machine clog.Machine) (*clog.Result, error) {
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
	w, err := newWatcher(watchCtx, config, c, &eventsv1.Event{})
	if err != nil {
		return nil, err
	}
	before, err := meters.read(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := resource.ParseQuantity(o.config.Nodes.CPU)
	if err != nil {
		return nil, err
	}
	f := &follower{watcher: w, record: clog.NewRecord(o.config.Nodes.Count, cpu.MilliValue()), events: map[string]float64{}, pods: map[types.UID]bool{}}
	say(fmt.Sprintf("submitting %d gangs of %d pods in all", len(o.gangs), clog.Pods(o.gangs)))
	if err := f.follow(ctx, o, c); err != nil {
		return nil, err
	}
	f.record.Close(time.Now())
	after, err := meters.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.draw(filepath.Join(cluster.Dir, "timeline.svg")); err != nil {
		return nil, fmt.Errorf("drawing the timeline: %w", err)
	}
	result := &clog.Result{Machine: machine, Events: f.events, Experiment: clog.Experiment{
		Sizes: o.sizes, Seed: o.seed, Nodes: o.config.Nodes.Count, Min: o.min, Run: o.run.Seconds(), Limit: o.limit.Seconds(),
		Binder: o.binder, Kueue: o.kueue, Workers: submitters,
	}}
	result.Tell(f.record)
	usage := w.recorder.Usage()
	result.Running, result.Waiting, result.Idle = usage.Running, usage.Waiting, usage.Idle
	after.tell(before, result)
	return result, nil
}

// follower records the changes that it sees.
type follower struct {
	*watcher
	record *clog.Record
	events map[string]float64 // counts, by reason
	begun  time.Time
	pods   map[types.UID]bool // the followers' pods that exist
}

// follow submits the gangs and follows them until all of them are over and their pods are deleted,
// or until the limit is over.
func (f *follower) follow(ctx context.Context, o *clogOptions, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	f.begun = time.Now()
	for _, gang := range o.gangs {
		f.record.Submitted(gang, f.begun)
	}
	go o.submit(ctx, c, fail)
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	var tidy <-chan time.Time // set when all gangs are over
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				say("the time limit is over")
				return nil
			}
			return context.Cause(ctx)
		case seen := <-f.changes:
			f.takeAll(seen)
			if tidy == nil && f.record.Over() {
				tidy = time.After(tidyTimeout)
			}
			if tidy != nil && len(f.pods) == 0 {
				return nil
			}
		case <-tidy:
			return nil
		case <-ticker.C:
			say(fmt.Sprintf("%5.0f s: %d of %d gangs finished, %d nodes held", time.Since(f.begun).Seconds(), f.record.Finished(), len(o.gangs), f.holding()))
		}
	}
}

// submit creates the MiniClusters in their order, some in parallel. It calls fail with the first
// error.
func (o *clogOptions) submit(ctx context.Context, c client.Client, fail context.CancelCauseFunc) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(submitters)
	for _, gang := range o.gangs {
		group.Go(func() error {
			if err := c.Create(groupCtx, o.miniCluster(gang)); err != nil {
				return fmt.Errorf("submitting %s: %w", gang.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		fail(err)
	}
}

// miniCluster returns the MiniCluster of a gang. It wants whole nodes and computes for a while, on
// fewer nodes for a longer time.
func (o *clogOptions) miniCluster(gang clog.Gang) *v1alpha2.MiniCluster {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: gang.Name, Namespace: corev1.NamespaceDefault}}
	if o.kueue {
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: kueueQueue}
	}
	tasks := int32(gang.Size)
	mc.Spec.Size, mc.Spec.MinSize, mc.Spec.Tasks = int32(gang.Size), int32(gang.Min), &tasks
	mc.Spec.Pod.Annotations = map[string]string{simulator.Runtime: o.run.String()}
	mc.Spec.Flux.Container.Image = "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"
	mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{
		Image: "ghcr.io/converged-computing/metric-lammps:latest", Command: "lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(o.config.Nodes.CPU)}},
	}}
	return mc
}

// takeAll adds a change to the table, the timeline and the record.
func (f *follower) takeAll(seen change) {
	f.take(seen)
	revision, _ := strconv.ParseUint(seen.object.GetResourceVersion(), 10, 64)
	switch object := seen.object.(type) {
	case *corev1.Pod:
		f.takeBroker(object, seen, revision)
	case *v1alpha2.MiniCluster:
		if seen.gone {
			return
		}
		s := clog.Status{Gang: object.Name, Created: object.CreationTimestamp.Time, Revision: revision, Started: object.Status.StartTime != nil}
		if object.Status.Admission != nil {
			s.Attempt = int(object.Status.Admission.Attempt)
			s.Nodes, _ = state.Nodes(object)
		}
		s.Finished = meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha2.ConditionFinished)
		if finished := meta.FindStatusCondition(object.Status.Conditions, v1alpha2.ConditionFinished); finished != nil {
			s.Succeeded = s.Finished && finished.Reason == v1alpha2.ReasonSucceeded
		}
		f.record.TakeStatus(s, seen.at)
	case *eventsv1.Event:
		if !seen.gone && !object.CreationTimestamp.Time.Before(f.begun.Truncate(time.Second)) {
			f.events[object.Reason]++
		}
	}
}

func (f *follower) takeBroker(pod *corev1.Pod, seen change, revision uint64) {
	rank, ok := protocol.Rank(pod)
	if !ok {
		return
	}
	if seen.gone {
		delete(f.pods, pod.UID)
	} else if rank > 0 {
		f.pods[pod.UID] = true
	}
	cpu := state.PodRequests(pod)[corev1.ResourceCPU]
	f.record.TakePod(clog.Pod{
		UID: string(pod.UID), Gang: pod.Labels[v1alpha2.MiniClusterLabel], Try: pod.Labels[jobsetapi.JobSetUIDKey], Rank: rank,
		Node: protocol.PinnedNode(pod), Bound: pod.Spec.NodeName != "", Up: pod.Status.Phase == corev1.PodRunning, Ended: seen.gone || protocol.Ended(pod),
		CPU: cpu.MilliValue(), Revision: revision,
	}, seen.at)
}
