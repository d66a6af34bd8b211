// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// reservedLives are MiniClusters that come, run, change their nodes and end, while nodes are reserved.
type reservedLives struct {
	*toy
	random *rand.Rand
	gangs  []*reservedGang
	// counts is since when each node of each reservation counts.
	counts map[[2]string]time.Time
	made   int
	// early counts nodes of others before a reservation begins, and inside those of its queue in it.
	early, inside int
}

// reservedGang is a MiniCluster that waits or runs.
type reservedGang struct {
	*fixture.MiniClusterWrapper
	queue          string
	starts, ends   time.Time
	startTime      time.Duration
	limit, runtime time.Duration
	// nodes are by rank, with the time since when it has them; "" for a rank that has left.
	nodes []string
	since []time.Time
}

// Nothing of others is on reserved nodes while a reservation is active, unless it was there before the
// nodes were reserved: if it ends by its limit, and also if it grows or moves.
func TestReservedNodesAreClear(t *testing.T) {
	early, inside := 0, 0
	for seed := range uint64(12) {
		names := make([]string, 12)
		for i := range names {
			names[i] = fmt.Sprintf("n%02d", i)
		}
		l := &reservedLives{toy: newQueue(t, names...), random: rand.New(rand.NewPCG(seed, 3)), counts: map[[2]string]time.Time{}}
		for _, name := range []string{"default", "course"} {
			l.seen.queues = append(l.seen.queues, fixture.Queue(name).Backfill(v1alpha2.BackfillEASY).Patience(time.Minute).Obj())
		}
		l.seen.queues = l.seen.queues[2:]
		for range 240 {
			l.now = l.now.Add(time.Duration(20+l.random.IntN(100)) * time.Second)
			l.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		early, inside = early+l.early, inside+l.inside
	}
	if t.Logf("others had %d nodes before, and its queue %d meanwhile", early, inside); early == 0 || inside == 0 {
		t.Error("nobody used reserved nodes")
	}
}

func (l *reservedLives) step() {
	l.end()
	if len(l.gangs) < 10 {
		l.come()
	}
	if len(l.seen.reservations) < 6 && l.random.IntN(20) == 0 {
		l.reserveSome()
	}
	for _, g := range l.gangs {
		var displaced []int
		if g.nodes == nil {
			l.offer(g.MiniClusterWrapper)
		} else if rank := l.random.IntN(len(g.nodes)); l.random.IntN(8) == 0 && g.nodes[rank] != "" {
			displaced = []int{rank}
		}
		if g.nodes != nil {
			l.Order(g.Obj(), wholeNode, displaced)
		}
	}
	l.cycle()
	for _, g := range l.gangs {
		if g.nodes == nil {
			l.admit(g)
		} else {
			l.obey(g)
		}
		l.show(g.MiniClusterWrapper)
	}
	for _, r := range l.seen.reservations {
		for _, node := range decode(l.record(r).Nodes) {
			if key := [2]string{r.Name, node}; l.counts[key].IsZero() {
				l.counts[key] = l.now
			}
		}
	}
	l.check()
}

// come makes a MiniCluster.
func (l *reservedLives) come() {
	l.made++
	minutes := func(least, most int) time.Duration {
		return time.Duration(least*60+l.random.IntN((most-least)*60)) * time.Second
	}
	g := &reservedGang{queue: []string{"default", "course"}[l.random.IntN(2)], startTime: minutes(1, 5), limit: minutes(1, 40)}
	size := int32(1 + l.random.IntN(5))
	g.MiniClusterWrapper = fixture.MiniCluster(fmt.Sprint("mc", l.made)).Size(size).MinSize(1).Queue(g.queue).Created(l.now).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.StartTimeout = &metav1.Duration{Duration: g.startTime}
	})
	if g.runtime = g.limit; l.random.IntN(4) > 0 {
		g.Deadline(int64(g.limit.Seconds()))
		g.limit = g.limit.Truncate(time.Second)
	} else {
		g.limit = 0
	}
	if l.random.IntN(2) == 0 {
		g.Launcher().MaxSize(size + 4)
	}
	l.gangs = append(l.gangs, g)
}

// reserveSome makes a reservation.
func (l *reservedLives) reserveSome() {
	w := l.reservation(fmt.Sprint("r", len(l.seen.reservations)), l.random.IntN(50))
	if l.random.IntN(2) == 0 {
		w.Queue("course")
	}
	switch l.random.IntN(3) {
	case 0:
		w.Count(int32(1 + l.random.IntN(12)))
	case 1:
		w.Nodes("n03", "n04", "n05", "n06")
	default:
		w.Select("kubernetes.io/hostname", fmt.Sprintf("n%02d", l.random.IntN(12)))
	}
	made := w.Obj()
	made.CreationTimestamp = metav1.NewTime(l.now)
	l.seen.reservations = append(l.seen.reservations, made)
}

// admit gives a MiniCluster the nodes that it is offered. It starts and ends as late as it may.
func (l *reservedLives) admit(g *reservedGang) {
	offer := l.offer(g.MiniClusterWrapper)
	if offer.Nodes == nil {
		return
	}
	g.nodes, g.since = slices.Clone(offer.Nodes), slices.Repeat([]time.Time{l.now}, len(offer.Nodes))
	g.starts = l.now.Add(g.startTime - time.Second*time.Duration(l.random.IntN(2)*30))
	g.ends = g.starts.Add(g.runtime)
	if g.limit > 0 {
		g.ends = g.starts.Add(g.limit + time.Minute - time.Second)
	}
	g.Status(func(s *v1alpha2.MiniClusterStatus) {
		s.MaximumSize, s.Queue = max(g.Obj().Spec.MaxSize, g.Obj().Spec.Size), g.queue
	})
	g.Admitted(1, int32(len(g.nodes)), hostlist.Encode(g.nodes)).Status(func(s *v1alpha2.MiniClusterStatus) { s.Admission.Time = metav1.NewTime(l.now) })
}

// obey carries out an order. An eviction is an end.
func (l *reservedLives) obey(g *reservedGang) {
	if !l.now.Before(g.starts) {
		g.Status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime = &metav1.Time{Time: g.starts} })
	}
	var pods []elastic.Pod
	mc := g.Obj()
	order, _ := l.ledger.OrderOf(mc.UID)
	switch o := order.(type) {
	case elastic.Evict:
		g.ends = l.now
	case elastic.Drain:
		for _, rank := range o.Ranks {
			g.nodes[rank] = ""
		}
	case elastic.Grow:
		pods = o.Pods
	case elastic.Move:
		pods = o.Pods
	}
	for _, pod := range pods {
		for len(g.nodes) <= pod.Rank {
			g.nodes, g.since = append(g.nodes, ""), append(g.since, time.Time{})
		}
		g.nodes[pod.Rank], g.since[pod.Rank] = pod.Node, l.now
	}
	names, vacated := slices.Clone(g.nodes), []int64{}
	for rank, node := range names {
		if node == "" {
			names[rank], vacated = "gone", append(vacated, int64(rank))
		}
	}
	g.Vacated(idset.Encode(vacated)).Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Size, s.Admission.Nodes = int32(len(names)), hostlist.Encode(names)
	})
}

// end removes the MiniClusters that are over.
func (l *reservedLives) end() {
	l.gangs = slices.DeleteFunc(l.gangs, func(g *reservedGang) bool {
		if g.nodes == nil || l.now.Before(g.ends) {
			return false
		}
		name := g.Obj().Name
		l.seen.miniClusters = slices.DeleteFunc(l.seen.miniClusters, func(mc *v1alpha2.MiniCluster) bool { return mc.Name == name })
		l.Forget(client.ObjectKeyFromObject(g.Obj()))
		return true
	})
}

// check finds nodes of MiniClusters that others have reserved.
func (l *reservedLives) check() {
	for _, r := range l.seen.reservations {
		nodes := decode(r.Status.Nodes)
		for _, g := range l.gangs {
			for rank, node := range g.nodes {
				switch late := !l.now.Before(r.Spec.From.Time); {
				case !slices.Contains(nodes, node) || !l.now.Before(r.Spec.Until.Time) || g.since[rank].Before(l.counts[[2]string{r.Name, node}]):
				case g.queue == r.Spec.Queue && late:
					l.inside++
				case g.queue != r.Spec.Queue && !late:
					l.early++
				case g.queue != r.Spec.Queue:
					l.t.Errorf("at %s rank %d of %s, on %s since %s, with the limit %s, is where %s is reserved from %s for %q", l.now.Format(time.TimeOnly), rank, g.Obj().Name, node,
						g.since[rank].Format(time.TimeOnly), g.limit, r.Name, r.Spec.From.UTC().Format(time.TimeOnly), r.Spec.Queue)
				}
			}
		}
	}
}

func decode(nodes string) []string {
	out, _ := hostlist.Decode(nodes, mostReserved)
	return out
}
