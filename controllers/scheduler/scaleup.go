// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Autoscaler is asked for nodes that do not exist.
type Autoscaler interface {
	// Barred says why a provider cannot be asked; "" if it can.
	Barred(provider v1alpha2.ScaleUpProvider) string
	// Asked is what was asked for a MiniCluster; nil if nothing. problem says why asking fails; "" if it does not.
	Asked(name types.NamespacedName, uid types.UID) (asked *queue.Asked, problem string)
	// Shapes are the kinds of nodes that could come by the autoscaler's own configuration; none if that is not known.
	Shapes() []state.Shape
}

const (
	// mostAsked bounds the nodes that a queue waits for at once, whatever its spec says.
	mostAsked = 10000
	// mostSizes bounds the sizes of nodes that are told apart where nodes come in any size.
	mostSizes = 8
	// usualArrival is how long nodes are expected to take while none have come.
	usualArrival = 2 * time.Minute
)

// scaling is what the scheduler knows about nodes on demand.
type scaling struct {
	// asks are those of the last cycle, by MiniCluster, and told those of which the autoscaler was to hear.
	asks map[types.UID]*scaleup.Wish
	told map[types.UID]queue.Ask
	// arrivals are how long nodes took, by queue.
	arrivals map[string]time.Duration
}

// Asks sends the MiniClusters for which something else is to be asked.
func (s *Scheduler) Asks() <-chan event.GenericEvent { return s.mail.asked }

// Wake asks for a cycle, because the autoscaler has news. With again it tells all that is to be asked: what was told
// before may not have been heard.
func (s *Scheduler) Wake(again bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if again {
		clear(s.scaling.told)
	}
	s.due.wake()
}

// Wish is what is to be asked for a MiniCluster; nil if nothing. placed is true if it has been given nodes. known is false
// if no cycle has decided about it, or the MiniCluster is postponed: then what was asked stays.
func (s *Scheduler) Wish(name types.NamespacedName, uid types.UID) (wish *scaleup.Wish, placed, known bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.line.entries[name]
	switch {
	case e == nil || e.miniCluster.UID != uid:
		last := s.line.checked[name]
		return nil, false, last.uid == uid && !last.waits
	case e.decision.Verdict == elastic.Admitted:
		return nil, true, true
	}
	return s.scaling.asks[uid], false, e.decision.Verdict != ""
}

// step completes what the queues say about nodes that do not exist, and tells the ledger which nodes could come.
func (s *scaling) step(c *cycle) {
	could := map[string][]ledger.Could{}
	for i := range c.Queues {
		q := &c.Queues[i]
		if q.ScaleUp == nil {
			continue
		}
		made := c.seen.byName[q.Name]
		q.ScaleUp.Arrival = s.arrival(q)
		if c.Autoscaler == nil {
			q.ScaleUp.Barred = "there is no autoscaler"
			continue
		}
		if q.ScaleUp.Barred = c.Autoscaler.Barred(made.Spec.ScaleUp.Provider); q.ScaleUp.Barred != "" {
			continue
		}
		shapes, others := state.Shapes(made, c.Autoscaler.Shapes()), c.heldByOthers(q.Name)
		q.ScaleUp.More = max(min(q.ScaleUp.Limit, mostAsked)-c.ledger.Up(shapes, others), 0)
		wanted, requests := c.wantedOf(q.Name)
		for _, shape := range state.Sized(shapes, requests) {
			there := 0
			if shape.Most > 0 {
				there = c.ledger.There(&shape)
			}
			most := min(shape.MostMore(there), q.ScaleUp.More, wanted)
			could[q.Name] = append(could[q.Name], ledger.Could{Shape: shape, Nodes: most})
			q.ScaleUp.Shapes = append(q.ScaleUp.Shapes, queue.Shape{Most: most, Holds: queue.Resources(shape.Capacity)})
		}
	}
	c.ledger.CouldCome(could)
	c.noteComing()
}

// heldByOthers are the nodes of running gangs of other queues, but for those that gangs of a queue have, too.
func (c *cycle) heldByOthers(name string) map[string]bool {
	nodes := map[string]bool{}
	for _, own := range []bool{false, true} {
		for i := range c.Running {
			r := &c.Running[i]
			if promise := c.ledger.Promised(types.UID(r.ID)); promise != nil && (r.Queue == name) == own {
				for _, node := range promise.Nodes {
					nodes[node] = !own
				}
			}
		}
	}
	return nodes
}

// noteComing counts the nodes that are coming since the first MiniCluster that waits has asked.
func (c *cycle) noteComing() {
	var since time.Time
	for i := range c.Waiting {
		if asked := c.Waiting[i].Asked; asked != nil && asked.Until.IsZero() {
			since = elastic.Earliest(since, asked.At)
		}
	}
	if !since.IsZero() {
		c.Coming, c.CameLast = c.ledger.Coming(since)
	}
}

// wantedOf is how many brokers the waiting MiniClusters of a queue want, and the different requests of their pods, the
// smallest first.
func (c *cycle) wantedOf(name string) (wanted int, requests []fluxion.Resources) {
	classes := map[string]bool{}
	for i, e := range c.waiting {
		gang := &c.Waiting[i]
		if gang.Queue != name || gang.BestEffort {
			continue
		}
		wanted += gang.Sizing.Allowed().Most()
		if !classes[gang.Class] {
			classes[gang.Class] = true
			if of := e.ask.Pods.Requests; !slices.ContainsFunc(requests, func(other fluxion.Resources) bool { return maps.Equal(other, of) }) {
				requests = append(requests, of)
			}
		}
	}
	slices.SortFunc(requests, func(a, b fluxion.Resources) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a[fluxion.CPU], b[fluxion.CPU]), cmp.Compare(a[fluxion.Memory], b[fluxion.Memory]), cmp.Compare(a.String(), b.String()))
	})
	if len(requests) <= mostSizes {
		return wanted, requests
	}
	largest := fluxion.Resources{}
	for _, of := range requests[mostSizes-1:] {
		for name, amount := range of {
			largest[name] = max(largest[name], amount)
		}
	}
	return wanted, append(requests[:mostSizes-1:mostSizes-1], largest)
}

// arrival is how long nodes are expected to take that a queue asks for.
func (s *scaling) arrival(q *queue.Queue) time.Duration {
	if took, known := s.arrivals[q.Name]; known {
		return min(took, q.ScaleUp.Timeout)
	}
	return min(usualArrival, q.ScaleUp.Timeout/2)
}

// noteArrival learns how long the nodes took of a MiniCluster that gets nodes: the average of the last, of which each
// counts half as much as the next.
func (s *scaling) noteArrival(e *entry, now time.Time) {
	if e.asked == nil || !e.asked.Until.IsZero() {
		return
	}
	took := max(now.Sub(e.asked.At), time.Second)
	if before, known := s.arrivals[e.queue]; known {
		took = (before + took) / 2
	}
	s.arrivals[e.queue] = took
}

// wish keeps what a cycle wants to ask for, and returns the MiniClusters for which that is news.
func (s *scaling) wish(c *cycle, result *queue.Result) []types.NamespacedName {
	var news []types.NamespacedName
	asks, told := map[types.UID]*scaleup.Wish{}, map[types.UID]queue.Ask{}
	for _, ask := range result.Asks {
		k := c.catalog.known[types.UID(ask.Gang)]
		if k == nil || k.entry == nil {
			continue
		}
		asks[k.miniCluster.UID] = c.wishOf(k.entry, ask)
		if ask.Pause > 0 { // less of it is left in each cycle
			ask.Pause = 1
		}
		told[k.miniCluster.UID] = ask
		if before, known := s.told[k.miniCluster.UID]; !known || before != ask {
			news = append(news, client.ObjectKeyFromObject(k.miniCluster))
		}
	}
	for i := range c.Waiting {
		if gang := &c.Waiting[i]; gang.Asked != nil && asks[types.UID(gang.ID)] == nil { // also after a restart
			if k := c.catalog.known[types.UID(gang.ID)]; k != nil {
				news = append(news, client.ObjectKeyFromObject(k.miniCluster))
			}
		}
	}
	s.asks, s.told = asks, told
	return news
}

// wishOf completes what is to be asked for a MiniCluster.
func (c *cycle) wishOf(e *entry, ask queue.Ask) *scaleup.Wish {
	w := &scaleup.Wish{Ask: ask, Pod: kueue.Confine(e.pod, e.quota), Batch: c.ledger.Nodes}
	if made := c.seen.byName[e.queue]; made != nil && made.Spec.ScaleUp != nil {
		q := made.DeepCopy()
		q.Default()
		from := q.Spec.ScaleUp
		if e.ask.Arch != "" && !e.ask.Places.NamesArch {
			arch, _ := labels.SelectorFromSet(labels.Set{corev1.LabelArchStable: e.ask.Arch}).Requirements()
			w.Batch = w.Batch.Add(arch...)
		}
		w.Provider, w.Class, w.Parameters, w.Timeout, w.MaxNodes = from.Provider, from.Class, from.Parameters, from.Timeout.Duration, int(from.MaxNodes)
	}
	return w
}
