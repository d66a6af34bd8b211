// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// change is a new state of an object that is watched. If the object is gone, it is the last state.
type change struct {
	object client.Object
	gone   bool
	at     time.Time
}

// watcher follows MiniClusters, or Jobs that are gangs, and their pods, for the table and the timeline.
type watcher struct {
	changes chan change
	record  *clog.Record
	nodes   []string
	begun   time.Time
	rows    map[string]*row
	held    map[string]bool // pods that hold a node
}

// newWatcher watches pods and some other kinds of objects.
func newWatcher(ctx context.Context, config *rest.Config, c client.Client, also ...client.Object) (*watcher, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, err
	}
	var names []string
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	w := &watcher{
		changes: make(chan change, 1024), rows: map[string]*row{}, held: map[string]bool{},
		record: clog.NewRecord(len(names), 0), nodes: names, begun: time.Now(),
	}
	informers, err := cache.New(config, cache.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	for _, kind := range append([]client.Object{&corev1.Pod{}}, also...) {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(w.handler(ctx)); err != nil {
			return nil, err
		}
	}
	go func() { _ = informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		return nil, errors.New("watching pods: no answer")
	}
	return w, nil
}

func (w *watcher) handler(ctx context.Context) toolscache.ResourceEventHandler {
	send := func(object any, gone bool) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		select {
		case w.changes <- change{object.(client.Object), gone, time.Now()}:
		case <-ctx.Done():
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object, false) },
		UpdateFunc: func(_, object any) { send(object, false) },
		DeleteFunc: func(object any) { send(object, true) },
	}
}

// until takes changes and shows them until a condition holds.
func (w *watcher) until(ctx context.Context, display *table, condition func() bool) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if condition() {
			display.show(w.rows, time.Now())
			return nil
		}
		select {
		case <-ctx.Done():
			display.close()
			return context.Cause(ctx)
		case seen := <-w.changes:
			w.take(seen)
		case now := <-ticker.C:
			display.show(w.rows, now)
		}
	}
}

func (w *watcher) take(seen change) {
	switch object := seen.object.(type) {
	case *corev1.Pod:
		w.takePod(object, seen.gone, seen.at)
	case *v1alpha2.MiniCluster:
		if !seen.gone {
			w.takeMiniCluster(object, seen.at)
		}
	}
}

func (w *watcher) takePod(pod *corev1.Pod, gone bool, now time.Time) {
	m, ok := memberOf(pod)
	node, ended := protocol.PinnedNode(pod), gone || protocol.Ended(pod)
	if !ok {
		return
	}
	cpu := state.PodRequests(pod)[corev1.ResourceCPU]
	w.record.TakePod(clog.Pod{
		UID: string(pod.UID), Gang: m.gang, Try: m.try, Rank: m.rank,
		Node: node, Bound: pod.Spec.NodeName != "", Up: pod.Status.Phase == corev1.PodRunning,
		Ready: isReady(pod), Succeeded: pod.Status.Phase == corev1.PodSucceeded, Ended: ended,
		CPU: cpu.MilliValue(), Revision: revisionOf(pod),
	}, now)
	if node == "" {
		return
	}
	name := string(pod.UID)
	if w.held[name] = true; ended {
		delete(w.held, name)
	}
}

// revisionOf is the cluster's revision of an object.
func revisionOf(object client.Object) uint64 {
	revision, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return revision
}

// member says what a pod is in its gang.
type member struct {
	gang string // the name of the MiniCluster, or of the Job
	try  string // the UID of the JobSet, or of the Job
	rank int
}

// memberOf returns what a pod is in its gang, which is a MiniCluster or a Job.
func memberOf(pod *corev1.Pod) (m member, ok bool) {
	if job, _ := simulator.GangOf(pod); job != "" {
		index, err := strconv.Atoi(pod.Labels[batchv1.JobCompletionIndexAnnotation])
		return member{gang: pod.Labels[batchv1.JobNameLabel], try: string(job), rank: index}, err == nil
	}
	rank, ok := protocol.Rank(pod)
	return member{gang: pod.Labels[v1alpha2.MiniClusterLabel], try: pod.Labels[jobsetapi.JobSetUIDKey], rank: rank}, ok
}

func (w *watcher) takeMiniCluster(mc *v1alpha2.MiniCluster, now time.Time) {
	r := w.rows[mc.Name]
	if r == nil {
		r = &row{}
		w.rows[mc.Name] = r
		w.record.Submitted(clog.Gang{Name: mc.Name, Size: int(mc.Spec.Size), Min: max(int(mc.Spec.MinSize), 1)}, now)
	}
	r.wanted, r.nodes = int(mc.Spec.Size), int(mc.Status.Nodes)
	r.size = int(mc.Status.Size)
	if ready := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionReady); ready != nil {
		r.state, r.reason = ready.Reason, ready.Message
	}
	finished := meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
	if finished && r.ended.IsZero() {
		r.ended = now
	}
	r.told = story.Of(mc)
	w.record.TakeStatus(statusOf(mc, revisionOf(mc)), now)
}

func (w *watcher) finished() int {
	n := 0
	for _, r := range w.rows {
		if !r.ended.IsZero() {
			n++
		}
	}
	return n
}

// holding returns the number of pods that still hold a node.
func (w *watcher) holding() int { return len(w.held) }

// timeline is what was seen until now.
func (w *watcher) timeline() *timeline.Record {
	stories := w.record.Stories()
	for i := range stories {
		s := &stories[i]
		if r := w.rows[s.Name]; r != nil {
			s.Size, s.Wanted, s.Tasks, s.State = r.told.Size, r.told.Wanted, r.told.Tasks, r.told.State
		}
	}
	return timeline.NewRecord(w.nodes, stories, w.begun, time.Now())
}

func (w *watcher) draw(path string) error {
	return os.WriteFile(path, w.timeline().Plot().File(), 0o644)
}

// save writes the record of the timeline.
func (w *watcher) save(path string) error {
	data, err := json.Marshal(w.timeline())
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func (w *watcher) summary(out io.Writer, svg string) {
	usage := w.timeline().Usage()
	fmt.Fprintf(out, "\n%d MiniClusters, %d succeeded, in %.1f s; nodes were running commands %.0f %% of the time, starting or ending %.0f %%, idle %.0f %%\n",
		len(w.rows), w.succeeded(), usage.Makespan.Seconds(), usage.Running*100, usage.Waiting*100, usage.Idle*100)
	for _, name := range slices.Sorted(maps.Keys(w.rows)) {
		s := w.rows[name].told
		if started := s.Started(); s.Size > 0 && s.Size < s.Wanted && !started.IsZero() {
			fmt.Fprintf(out, "%s wanted %d nodes, and ran after %.0f s on %d, with %d tasks\n", s.Name, s.Wanted, started.Sub(s.Submitted).Seconds(), s.Size, s.Tasks)
		}
	}
	fmt.Fprintf(out, "Which node ran what: %s\n\n", svg)
}

func (w *watcher) succeeded() int {
	n := 0
	for _, r := range w.rows {
		if r.state == v1alpha2.StateSucceeded {
			n++
		}
	}
	return n
}

// verdict returns an error unless all MiniClusters succeeded.
func (w *watcher) verdict(submitted int) error {
	if n := w.succeeded(); n != submitted {
		return fmt.Errorf("%d of %d MiniClusters did not succeed", submitted-n, submitted)
	}
	return nil
}
