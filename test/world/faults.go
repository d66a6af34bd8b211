// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// requestFault befalls one request of a manager.
type requestFault struct {
	what    string
	verdict verdict
	kills   bool
}

// requestFaults are what may befall a request. Kills befall writes alone.
var requestFaults = []requestFault{
	{" -> killed before", die, true},
	{" -> killed after", swallow, true},
	{" -> killed before", die, true},
	{" -> killed after", swallow, true},
	{" -> refused", refuse, false},
	{" -> no answer", swallow, false},
	{" -> error", fail, false},
	{" -> busy", busy, false},
}

// fault is a kind of fault.
type fault struct {
	name   string
	chance int // of a hundred
	plan   func(w *World, r *rand.Rand, at time.Time) part
}

var faults = []fault{
	{"request", 45, (*World).planRequestFault},
	{"stale", 15, (*World).planStale},
	{"expire", 5, (*World).planExpire},
	{"halt", 5, (*World).planHalt},
	{"remove", 20, (*World).planRemoval},
	{"node", 20, (*World).planNodeFault},
	{"pod", 15, (*World).planPodFault},
	{"start", 5, (*World).planStartFault},
	{"node deletion", 5, (*World).planNodeDeletion},
	{"quota", 5, (*World).planQuota},
	{"queue", 5, (*World).planQueue},
	{"model", 5, (*World).planPause},
	{"absence", 15, (*World).planAbsence},
	{"Kueue", 10, (*World).planKueue},
	{"clock", 5, (*World).planClock},
	{"out of service", 5, (*World).planOutOfService},
	{"namespace", 3, (*World).planNamespace},
}

// planFaults makes up the faults of the world: some for each life.
func (w *World) planFaults() {
	for i := range w.MiniClusters {
		r := rand.New(rand.NewPCG(w.Seed, uint64(1_000_000+i)))
		for _, f := range faults {
			if r.IntN(100) >= f.chance {
				continue
			}
			at := w.began.Add(time.Duration(r.Int64N(int64(w.busy + w.busy/4))))
			p := f.plan(w, r, at)
			p.name = "fault: " + p.name
			w.plan(p)
		}
	}
}

// planRequestFault befalls one of the requests, which are counted.
func (w *World) planRequestFault(r *rand.Rand, _ time.Time) part {
	f := requestFaults[r.IntN(len(requestFaults))]
	if !f.kills && r.IntN(3) == 0 {
		n := r.IntN(w.MiniClusters * 20)
		return part{name: fmt.Sprintf("read %d%s", n, f.what), begin: func() { w.atRead[n] = f }}
	}
	n := r.IntN(w.MiniClusters * 30)
	return part{name: fmt.Sprintf("write %d%s", n, f.what), begin: func() { w.atWrite[n] = f }}
}

// faultOf is what befalls a request, and what the trace says of it. Writes of the lease do not count.
func (w *World) faultOf(waiter *waiter) (verdict, string) {
	var f requestFault
	switch {
	case strings.Contains(waiter.what, "/leases/"):
		if waiter.write { // a manager that waits for the lease reads it
			w.renewed = waiter.manager
		}
	case waiter.write:
		w.result.Writes++
		f = w.atWrite[w.result.Writes]
	default:
		w.reads++
		f = w.atRead[w.reads]
	}
	if f.what == "" {
		return goOn, ""
	}
	w.result.Faults++
	if f.kills {
		manager := w.managers[waiter.manager]
		w.later(0, "kill "+waiter.manager, func() { w.kill(manager) })
	}
	return f.verdict, f.what
}

// planStale holds the events of one kind back for a while.
func (w *World) planStale(r *rand.Rand, at time.Time) part {
	kinds := []string{"Pod", "MiniCluster", "JobSet", "Job", "Node"}
	kind, lasts := kinds[r.IntN(len(kinds))], time.Duration(1+r.IntN(20))*time.Second
	what := fmt.Sprintf("no events of kind %s for %s", kind, lasts)
	return part{name: what, deeds: []deed{{at, what, func() {
		for name := range w.managers {
			w.staleUntil[name+" "+kind] = time.Now().Add(lasts)
		}
	}}}}
}

// planExpire ends a watch: it has to list again.
func (w *World) planExpire(r *rand.Rand, at time.Time) part {
	n, expire := r.IntN(1000), r.IntN(2) == 0
	what := fmt.Sprintf("watch %d ends, and has expired: %v", n, expire)
	return part{name: what, deeds: []deed{{at, what, func() {
		streams := w.server.Streams()
		if len(streams) == 0 {
			return
		}
		stream := streams[n%len(streams)]
		w.trace("  " + w.nameOf(stream))
		if expire {
			stream.Expire()
		} else {
			_ = stream.Close()
		}
	}}}}
}

// planHalt halts the machine of a manager that leads for longer than its lease.
func (w *World) planHalt(r *rand.Rand, at time.Time) part {
	lasts := time.Duration(5+r.IntN(60)) * time.Second
	what := fmt.Sprintf("halt a manager for %s", lasts)
	return part{name: what, deeds: []deed{{at, what, func() {
		if m := w.leader(); m != nil {
			w.halt(m, lasts)
		}
	}}}}
}

// planClock lets the clock of a manager that leads be wrong for a while.
func (w *World) planClock(r *rand.Rand, at time.Time) part {
	before, lasts := time.Duration(r.IntN(121)-60)*time.Second, time.Duration(1+r.IntN(120))*time.Second
	what := fmt.Sprintf("the clock of a manager is %s before others for %s", before, lasts)
	return part{name: what, deeds: []deed{{at, what, func() {
		if m := w.leader(); m != nil {
			m.clock.before.Store(int64(before))
			w.later(lasts, "the clock of "+m.manager+" is right", func() { m.clock.before.Store(0) })
		}
	}}}}
}

// planRemoval deletes one object by hand.
func (w *World) planRemoval(r *rand.Rand, at time.Time) part {
	kinds := removals()
	i, n, how := r.IntN(len(kinds)), r.IntN(1000), propagations[r.IntN(len(propagations))]
	if _, isJob := kinds[i].(*batchv1.JobList); isJob && how == metav1.DeletePropagationOrphan {
		how = metav1.DeletePropagationForeground // the API server refuses to leave pods (config/limits)
	}
	what := fmt.Sprintf("delete %T %d with %s", kinds[i], n, how)
	return part{name: what, deeds: []deed{{at, what, func() { w.remove(kinds[i], n, how, r.IntN(3) == 0) }}}}
}

// planAbsence leaves the cluster without a manager for a while, in which somebody deletes a lead: its pod, its Job, or its
// JobSet.
func (w *World) planAbsence(r *rand.Rand, at time.Time) part {
	kinds := []client.ObjectList{&corev1.PodList{}, &batchv1.JobList{}, &jobsetapi.JobSetList{}}
	i, n, how, lasts := r.IntN(len(kinds)), r.IntN(1000), propagations[r.IntN(len(propagations))], time.Duration(1+r.IntN(180))*time.Second
	if i == 1 && how == metav1.DeletePropagationOrphan {
		how = metav1.DeletePropagationBackground // the API server refuses to leave pods (config/limits)
	}
	lead := client.MatchingLabels{jobsetapi.ReplicatedJobNameKey: v1alpha2.LeadJob}
	if i == 2 {
		lead = nil
	}
	what := fmt.Sprintf("without a manager for %s, delete %T %d of a lead with %s", lasts, kinds[i], n, how)
	return part{name: what, deeds: []deed{
		{at, what, func() {
			for _, name := range w.names() {
				if m := w.managers[name]; m.works.Load() {
					m.kill()
					w.bury(m, lasts)
				}
			}
		}},
		{at.Add(time.Duration(r.Int64N(int64(lasts)))), what + ", now", func() { w.remove(kinds[i], n, how, false, lead) }},
	}}
}

// removals are the kinds of which objects are deleted by hand.
func removals() []client.ObjectList {
	return []client.ObjectList{
		&corev1.PodList{}, &corev1.PodList{}, &corev1.PodList{}, &batchv1.JobList{}, &jobsetapi.JobSetList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceList{},
	}
}

// remove deletes the n-th object of a kind that belongs to a MiniCluster, or to all of a namespace.
func (w *World) remove(list client.ObjectList, n int, how metav1.DeletionPropagation, atOnce bool, of ...client.ListOption) {
	if _, all := list.(*corev1.ConfigMapList); !all {
		of = append(of, client.HasLabels{v1alpha2.MiniClusterLabel})
	}
	objects := w.objects(list, of...)
	if len(objects) == 0 {
		return
	}
	object := objects[n%len(objects)]
	w.trace("  " + object.GetNamespace() + "/" + object.GetName())
	options := []client.DeleteOption{client.PropagationPolicy(how)}
	if pod, ok := object.(*corev1.Pod); ok && atOnce {
		w.excuse(pod)
		options = append(options, client.GracePeriodSeconds(0))
	}
	if w.mayRefuse(object.GetName(), w.user.Delete(w.ctx, object, options...)) && w.managers[w.renewed] == nil && hidesEnd(object, how) {
		w.forget(object.GetNamespace(), object.GetLabels()[v1alpha2.MiniClusterLabel])
	}
}

// hidesEnd reports whether nobody can learn any more how a lead ended when an object is deleted before a manager has seen that:
// the pod of a lead beside a container of others, which may have failed, so that the Job does not know it, or the Job.
func hidesEnd(object client.Object, how metav1.DeletionPropagation) bool {
	if pod, ok := object.(*corev1.Pod); ok {
		return pod.Labels[jobsetapi.ReplicatedJobNameKey] == v1alpha2.LeadJob && pod.Labels[fixture.InjectLabel] != ""
	}
	switch object.(type) {
	case *batchv1.Job, *jobsetapi.JobSet:
		return how != metav1.DeletePropagationOrphan
	}
	return false
}
