// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

func TestOrders(t *testing.T) {
	started := func(o *Observation) { o.Started = noon.Add(time.Second) }
	sinceNoon := func(o *Observation) { o.OrderedSince = noon }
	orders := func(order elastic.Order, more ...func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Order, o.Policy.Max, o.Policy.Malleable = order, 6, true
			o.Admission.Nodes = []string{"a", "b", "c", "d"}
			for _, change := range more {
				change(o)
			}
		}
	}
	rigid := func(o *Observation) { o.Policy.Malleable = false }
	untold := func(o *Observation) { o.Published, o.PublishedDrain = 0, nil }
	vacated := func(ranks ...int) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Vacated, o.PublishedDrain = ranks, ranks
			o.Admission.Quorum, o.Published = 4-len(ranks), 4-len(ranks)
		}
	}
	leaving := func(ranks ...int) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: ranks, Deadline: noon.Add(30 * time.Second)}, ranks
		}
	}
	spared := func(ranks ...int) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: ranks, At: noon}, ranks
			o.Admission.Quorum, o.Published = 4-len(ranks), 4-len(ranks)
		}
	}
	unbindable := func(rank int) func(*Observation) {
		return func(o *Observation) { o.Brokers[rank].Unbindable, o.Brokers[rank].Placed = true, noon }
	}
	taken := func(rank int, avoided ...string) func(*Observation) {
		return func(o *Observation) {
			unbindable(rank)(o)
			o.Brokers[rank].Taken, o.Avoid = true, avoided
		}
	}
	misplaced := func(rank int) func(*Observation) {
		return func(o *Observation) { o.Brokers[rank].Misplaced = true }
	}
	kept := func(rank int) func(*Observation) {
		return func(o *Observation) { o.Brokers[rank].KeptSince = noon }
	}
	cases := map[string]struct {
		states string
		change func(*Observation)
		after  time.Duration
		want   string
	}{
		"evict":                                 {"uuuu", orders(elastic.Evict{Reason: "Reclaimed", Message: "x needs it"}, started), 0, "Evict Reclaimed"},
		"evict before anything is made":         {"----", orders(elastic.Evict{Message: "x"}, func(o *Observation) { o.Workload = Absent }), 0, "Evict"},
		"one that has ended is not evicted":     {"suuu", orders(elastic.Evict{Message: "x"}, started), 0, "Finish"},
		"nor one whose end is written":          {"suuu", orders(elastic.Evict{Message: "x"}, func(o *Observation) { o.Outcome = OutcomeSucceeded }), 0, "Wait"},
		"drain under a command":                 {"uuuu", orders(elastic.Drain{Ranks: []int{3, 1, 3}}, started), 10 * time.Second, "Drain ranks [1 3] quorum 4 until 12:00:40"},
		"before the start the quorum follows":   {"uucc", orders(elastic.Drain{Ranks: []int{3}}), 10 * time.Second, "Drain ranks [3] quorum 3"},
		"not where the command may run":         {"uuuu", orders(elastic.Drain{Ranks: []int{3}}), 10 * time.Second, "Drain ranks [3] quorum 4 until 12:00:40"},
		"not where ranks belong to one job":     {"uuuu", orders(elastic.Drain{Ranks: []int{3}}, started, rigid), 0, "Wait"},
		"also if it is not known to run":        {"ruuu", orders(elastic.Drain{Ranks: []int{3}}, rigid), 0, "Start"},
		"before the start they leave there too": {"uucc", orders(elastic.Drain{Ranks: []int{3}}, rigid), 0, "Drain ranks [3] quorum 3"},
		"the lead is not drained":               {"uuuu", orders(elastic.Drain{Ranks: []int{0, 1}}, started), 0, "Wait"},
		"nor more than is above the minimum":    {"uuuu", orders(elastic.Drain{Ranks: []int{1, 2, 3}}, started), 0, "Wait"},
		"nor more than its tasks allow":         {"uucc", orders(elastic.Drain{Ranks: []int{2, 3}}, threeOrFour), 0, "Wait"},
		"nor ranks that are not there":          {"uuuu", orders(elastic.Drain{Ranks: []int{4}}, started), 0, "Wait"},
		"nor others while some leave":           {"uuuu", orders(elastic.Drain{Ranks: []int{1}}, started, leaving(3)), 0, "Wait"},
		"nor the same once more":                {"uuug", orders(elastic.Drain{Ranks: []int{3}}, started, vacated(3)), time.Minute, "Wait"},
		"who leaves is told":                    {"uuuu", orders(nil, started, leaving(3), func(o *Observation) { o.PublishedDrain = nil }), 0, "Publish ranks [3] quorum 4"},
		"until the deadline they stay":          {"uuuu", orders(nil, started, leaving(3)), 29 * time.Second, "Wait"},
		"then they give their nodes back":       {"uuuu", orders(nil, started, leaving(3)), 30 * time.Second, "Vacate ranks [3] quorum 4"},
		"also if the lead was not told":         {"uuuu", orders(nil, started, leaving(3), untold), 30 * time.Second, "Vacate ranks [3] quorum 4"},
		"an order is written before that":       {"uuuu", orders(elastic.Drain{Ranks: []int{3}}, started, untold), 10 * time.Second, "Drain ranks [3] quorum 4 until 12:00:40"},
		"a lead may never say what it does":     {"uuuu", orders(elastic.Drain{Ranks: []int{3}}, rigid, sinceNoon), 59 * time.Second, "Wait"},
		"then all leave":                        {"uuuu", orders(elastic.Drain{Ranks: []int{3}}, rigid, sinceNoon), time.Minute, "Evict"},
		"also if too few would stay":            {"uucc", orders(elastic.Drain{Ranks: []int{1, 2, 3}}, sinceNoon), time.Minute, "Evict"},
		"or when nothing of them is left":       {"uuug", orders(nil, started, leaving(3)), time.Second, "Vacate ranks [3] quorum 4"},
		"before the start they are not awaited": {"uucc", orders(nil, leaving(2, 3)), time.Minute, "Vacate ranks [2 3] quorum 2"},
		"the quorum is one that is allowed": {"uucc", orders(elastic.Drain{Ranks: []int{3}}, func(o *Observation) { o.Policy.Sizing.Operand = 2 }), 0,
			"Drain ranks [2 3] quorum 2"},
		"those leave at once that cannot be online": {"uuco", orders(nil, spared(2, 3)), time.Minute, "Vacate ranks [2] quorum 2"},
		"and those without work":                    {"uuio", orders(nil, spared(2, 3)), time.Minute, "Vacate ranks [2] quorum 2"},
		"or without a lead":                         {"cuoo", orders(nil, spared(2, 3)), 0, "Vacate ranks [2 3] quorum 2"},
		"the command may begin with the others":     {"uuoo", orders(nil, spared(2, 3)), time.Minute, "Wait"},
		"a lead that never begins is not awaited":   {"uuoo", orders(nil, spared(2, 3)), 2 * time.Minute, "Vacate ranks [2 3] quorum 2"},
		"or have begun with them":                   {"ruoo", orders(nil, spared(2, 3), started), 20 * time.Second, "Wait"},
		"after a while it has not":                  {"ruoo", orders(nil, spared(2, 3), started), 21 * time.Second, "Vacate ranks [2 3] quorum 2"},
		"those stay that it had begun with":         {"ruou", orders(nil, spared(2, 3), started), 21 * time.Second, "Keep ranks [3] quorum 3"},
		"if they stay ready": {"ruou", orders(nil, spared(2, 3), started, func(o *Observation) {
			o.Brokers[3].ReadySince = noon.Add(2 * time.Second)
		}), 21 * time.Second, "Wait"},
		"it does not grow until that is known": {"uuuo", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "e"}}}, spared(3)), 0, "Wait"},
		"their pods are evicted":               {"uuuu", orders(nil, started, vacated(3)), 0, "EvictPods ranks [3]"},
		"a budget may keep them for a while":   {"uuuu", orders(nil, started, vacated(2, 3), kept(3)), 29 * time.Second, "EvictPods ranks [2 3]"},
		"then they are deleted":                {"uuuu", orders(nil, started, vacated(2, 3), kept(3)), 30 * time.Second, "EvictPods ranks [2 3] deletes [3]"},
		"once":                                 {"uuul", orders(nil, started, vacated(3)), 0, "Wait"},
		"and not placed again":                 {"uuug", orders(nil, started, vacated(3)), 0, "Wait"},
		"nor awaited":                          {"ruu-", orders(nil, vacated(3)), 0, "Start"},
		"grow":                                 {"uuuu", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 5, Node: "f"}, {Rank: 4, Node: "e"}}}, started), 0, "Grow quorum 4 [{4 e} {5 f}]"},
		"grow before the start":                {"uucc", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "e"}}}), 0, "Grow quorum 5 [{4 e}]"},
		"a vacated rank is filled":             {"uuug", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "e"}}}, started, vacated(3)), 0, "Grow quorum 3 [{3 e}]"},
		"not before its pod is gone":           {"uuul", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "e"}}}, started, vacated(3)), 0, "Wait"},
		"no rank is left out":                  {"uuuu", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 5, Node: "f"}}}, started), 0, "Wait"},
		"not beyond its largest size":          {"uuuu", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "e"}, {Rank: 5, Node: "f"}, {Rank: 6, Node: "g"}}}, started), 0, "Wait"},
		"it does not grow twice":               {"uuuu", orders(elastic.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "d"}}}, started), 0, "Wait"},
		"a pod that cannot be bound moves":     {"uucu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}, unbindable(2)), 5 * time.Second, "Move [{2 e}]"},
		"not before kube-scheduler had a look": {"uucu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}, unbindable(2)), 4 * time.Second, "Wait"},
		"one that the kubelet refused at once": {"uufu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}, unbindable(2)), 0, "Move [{2 e}]"},
		"not to where it is":                   {"uucu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "c"}}}, unbindable(2)), 5 * time.Second, "Wait"},
		"nor one that can be bound":            {"uucu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}), 5 * time.Second, "Wait"},
		"or deleted, also the lead's":          {"cuuu", orders(nil, unbindable(0), misplaced(0), kept(0)), 30 * time.Second, "EvictPods ranks [0] deletes [0]"},
		"its pod is evicted":                   {"uucu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}, unbindable(2), misplaced(2)), time.Minute, "EvictPods ranks [2]"},
		"and placed on the new node":           {"uugu", orders(elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "e"}}}), time.Second, "Place ranks [2] quorum 4"},
		"without another node all is given up": {"uucu", orders(nil, unbindable(2)), 30 * time.Second, "GiveUp"},
		"not under a command":                  {"uucu", orders(nil, unbindable(2), started), 30 * time.Second, "Wait"},
		"a lost race is no failed attempt":     {"ucuc", orders(nil, taken(3), taken(1)), 10 * time.Second, "Withdraw avoid [b d]"},
		"a moment is waited for other nodes":   {"uucu", orders(nil, taken(2)), 9 * time.Second, "Wait"},
		"a node that was avoided counts":       {"uucu", orders(nil, taken(2, "c")), 30 * time.Second, "GiveUp"},
		"that takes longer":                    {"uucu", orders(nil, taken(2, "c")), 29 * time.Second, "Wait"},
		"that the kubelet refused a lead is no failed attempt": {"fccc", orders(nil, unbindable(0), func(o *Observation) {
			o.Workload, o.Brokers[0].ExitCode = Broken, nil
		}), 0, "Withdraw avoid [a]"},
		"but on a node that was avoided it is": {"fccc", orders(nil, taken(0, "a"), func(o *Observation) {
			o.Workload, o.Brokers[0].ExitCode = Broken, nil
		}), 0, "GiveUp"},
		"also one that was to move": {"fccc", orders(nil, unbindable(0), misplaced(0), func(o *Observation) {
			o.Workload, o.Brokers[0].ExitCode = Broken, nil
		}), 0, "Withdraw avoid []"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := order(Decide(admitted(tc.states, tc.change), noon.Add(tc.after))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// order is what a plan says about an order.
func order(p Plan) string {
	text := Name(p.Step)
	switch s := p.Step.(type) {
	case Evict:
		text += " " + s.Reason
	case Drain:
		text += fmt.Sprintf(" ranks %v quorum %d", s.Ranks, s.Quorum)
		if !s.Deadline.IsZero() {
			text += " until " + s.Deadline.Format(time.TimeOnly)
		}
	case Vacate:
		text += fmt.Sprintf(" ranks %v quorum %d", s.Ranks, s.Quorum)
	case Keep:
		text += fmt.Sprintf(" ranks %v quorum %d", s.Ranks, s.Quorum)
	case Place:
		text += fmt.Sprintf(" ranks %v quorum %d", s.Ranks, s.Quorum)
	case Publish:
		text += fmt.Sprintf(" ranks %v quorum %d", s.Leaving, s.Quorum)
	case Withdraw:
		text += fmt.Sprintf(" avoid %v", s.Avoid)
	case EvictPods:
		text += fmt.Sprintf(" ranks %v", s.Ranks)
		if len(s.Kept) > 0 {
			text += fmt.Sprintf(" deletes %v", s.Kept)
		}
	case Grow:
		text += fmt.Sprintf(" quorum %d %v", s.Quorum, s.Pods)
	case Move:
		text += fmt.Sprintf(" %v", s.Pods)
	}
	return strings.TrimSpace(text)
}

// threeOrFour allows only sizes of three and four brokers for the tasks.
func threeOrFour(o *Observation) {
	o.Policy.Sizing.Tasks, o.Policy.Sizing.SlotsPerNode = elastic.Tasks{AtSize: 17, Fixed: true}, 8
}

func TestShrinkTo(t *testing.T) {
	started := func(o *Observation) { o.Started, o.Policy.Malleable = noon, true }
	cases := map[string]struct {
		states string
		change func(*Observation)
		size   int
		want   string
	}{
		"a malleable command":              {"uuuu", started, 3, "[3] true"},
		"brokers that are not up go first": {"ucuu", started, 2, "[1 3] true"},
		"not below the minimum":            {"uuuu", started, 1, "[1 2 3] false"},
		"nor below what its tasks allow":   {"uucc", threeOrFour, 2, "[2 3] false"},
		"nor to nothing":                   {"uuuu", started, 0, "[] false"},
		"it is as small already":           {"uuuu", started, 4, "[] true"},
		"also below the minimum": {"uggg", func(o *Observation) {
			started(o)
			o.Admission.Vacated = []int{1, 2, 3}
		}, 1, "[] true"},
		"drained ranks count": {"uuuu", func(o *Observation) {
			started(o)
			o.Admission.Draining = &Draining{Ranks: []int{2}, At: noon}
		}, 2, "[3] true"},
		"a rigid command does not shrink": {"ruuu", nil, 3, "[3] false"},
		"before the start it does":        {"uucc", nil, 3, "[3] true"},
		"and waits for those that leave": {"ruuu", func(o *Observation) {
			o.Admission.Draining = &Draining{Ranks: []int{3}, At: noon}
		}, 3, "[] true"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ranks, can := admitted(c.states, c.change).ShrinkTo(c.size, noon)
			if got := fmt.Sprint(ranks, can); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
