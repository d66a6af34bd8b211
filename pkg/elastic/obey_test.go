// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"testing"
	"time"
)

func TestOrders(t *testing.T) {
	started := func(o *Observation) { o.Started = noon.Add(time.Second) }
	orders := func(order Order, more ...func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Order, o.Policy.Max, o.Policy.BearsChange = &order, 6, true
			o.Admission.Nodes = []string{"a", "b", "c", "d"}
			for _, change := range more {
				change(o)
			}
		}
	}
	rigid := func(o *Observation) { o.Policy.BearsChange = false }
	vacated := func(rank int) func(*Observation) {
		return func(o *Observation) {
			o.Brokers[rank].Vacated, o.Admission.Quorum, o.Published, o.PublishedDrain = true, 3, 3, []int{rank}
		}
	}
	leaving := func(ranks ...int) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: ranks, Deadline: noon.Add(30 * time.Second)}, ranks
		}
	}
	spared := func(ranks ...int) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: ranks}, ranks
			o.Admission.Quorum, o.Published = 4-len(ranks), 4-len(ranks)
		}
	}
	unbindable := func(rank int) func(*Observation) {
		return func(o *Observation) { o.Brokers[rank].Unbindable, o.Brokers[rank].Placed = true, noon }
	}
	misplaced := func(rank int) func(*Observation) {
		return func(o *Observation) { o.Brokers[rank].Misplaced = true }
	}
	cases := map[string]struct {
		states string
		change func(*Observation)
		after  time.Duration
		want   string
	}{
		"evict":                                 {"uuuu", orders(Order{Evict: "x needs it", EvictReason: "Reclaimed"}, started), 0, "Evict Reclaimed"},
		"evict before anything is made":         {"----", orders(Order{Evict: "x"}, func(o *Observation) { o.Workload = Absent }), 0, "Evict"},
		"one that has ended is not evicted":     {"suuu", orders(Order{Evict: "x"}, started), 0, "Finish"},
		"nor one whose end is written":          {"suuu", orders(Order{Evict: "x"}, func(o *Observation) { o.Outcome = OutcomeSucceeded }), 0, "Wait"},
		"drain under a command":                 {"uuuu", orders(Order{Drain: []int{3, 1, 3}}, started), 10 * time.Second, "Drain ranks [1 3] quorum 4 until 12:00:40"},
		"before the start the quorum follows":   {"uucc", orders(Order{Drain: []int{3}}), 10 * time.Second, "Drain ranks [3] quorum 3"},
		"not where the command may run":         {"uuuu", orders(Order{Drain: []int{3}}), 10 * time.Second, "Drain ranks [3] quorum 4 until 12:00:40"},
		"not where ranks belong to one job":     {"uuuu", orders(Order{Drain: []int{3}}, started, rigid), 0, "Wait"},
		"also if it is not known to run":        {"ruuu", orders(Order{Drain: []int{3}}, rigid), 0, "Start"},
		"before the start they leave there too": {"uucc", orders(Order{Drain: []int{3}}, rigid), 0, "Drain ranks [3] quorum 3"},
		"the lead is not drained":               {"uuuu", orders(Order{Drain: []int{0, 1}}, started), 0, "Wait"},
		"nor more than is above the minimum":    {"uuuu", orders(Order{Drain: []int{1, 2, 3}}, started), 0, "Wait"},
		"nor ranks that are not there":          {"uuuu", orders(Order{Drain: []int{4}}, started), 0, "Wait"},
		"nor others while some leave":           {"uuuu", orders(Order{Drain: []int{1}}, started, leaving(3)), 0, "Wait"},
		"nor the same once more":                {"uuug", orders(Order{Drain: []int{3}}, started, vacated(3)), time.Minute, "Wait"},
		"who leaves is told":                    {"uuuu", orders(Order{}, started, leaving(3), func(o *Observation) { o.PublishedDrain = nil }), 0, "Publish ranks [3] quorum 4"},
		"until the deadline they stay":          {"uuuu", orders(Order{}, started, leaving(3)), 29 * time.Second, "Wait"},
		"then they give their nodes back":       {"uuuu", orders(Order{}, started, leaving(3)), 30 * time.Second, "Vacate ranks [3] quorum 4"},
		"or when nothing of them is left":       {"uuug", orders(Order{}, started, leaving(3)), time.Second, "Vacate ranks [3] quorum 4"},
		"before the start they are not awaited": {"uucc", orders(Order{}, leaving(2, 3)), time.Minute, "Vacate ranks [2 3] quorum 2"},
		"the quorum is one that is allowed": {"uucc", orders(Order{Drain: []int{3}}, func(o *Observation) { o.Policy.Sizing.Operand = 2 }), 0,
			"Drain ranks [2 3] quorum 2"},
		"those leave at once that cannot be online": {"uuco", orders(Order{}, spared(2, 3)), time.Minute, "Vacate ranks [2] quorum 2"},
		"and those without work":                    {"uuio", orders(Order{}, spared(2, 3)), time.Minute, "Vacate ranks [2] quorum 2"},
		"or without a lead":                         {"cuoo", orders(Order{}, spared(2, 3)), 0, "Vacate ranks [2 3] quorum 2"},
		"the command may begin with the others":     {"uuoo", orders(Order{}, spared(2, 3)), time.Minute, "Wait"},
		"or have begun with them":                   {"ruoo", orders(Order{}, spared(2, 3), started), 15 * time.Second, "Wait"},
		"after a while it has not":                  {"ruoo", orders(Order{}, spared(2, 3), started), 16 * time.Second, "Vacate ranks [2 3] quorum 2"},
		"those stay that it had begun with":         {"ruou", orders(Order{}, spared(2, 3), started), 16 * time.Second, "Keep ranks [3] quorum 3"},
		"if they stay ready": {"ruou", orders(Order{}, spared(2, 3), started, func(o *Observation) {
			o.Brokers[3].ReadySince = noon.Add(2 * time.Second)
		}), 16 * time.Second, "Wait"},
		"it does not grow until that is known": {"uuuo", orders(Order{Grow: []Pod{{4, "e"}}}, spared(3)), 0, "Wait"},
		"their pods are evicted":               {"uuuu", orders(Order{}, started, vacated(3)), 0, "EvictRanks ranks [3] quorum 0"},
		"once":                                 {"uuul", orders(Order{}, started, vacated(3)), 0, "Wait"},
		"and not placed again":                 {"uuug", orders(Order{}, started, vacated(3)), 0, "Wait"},
		"nor awaited":                          {"ruu-", orders(Order{}, vacated(3)), 0, "Start"},
		"grow":                                 {"uuuu", orders(Order{Grow: []Pod{{5, "f"}, {4, "e"}}}, started), 0, "Grow quorum 4 [{4 e} {5 f}]"},
		"grow before the start":                {"uucc", orders(Order{Grow: []Pod{{4, "e"}}}), 0, "Grow quorum 5 [{4 e}]"},
		"a vacated rank is filled":             {"uuug", orders(Order{Grow: []Pod{{3, "e"}}}, started, vacated(3)), 0, "Grow quorum 3 [{3 e}]"},
		"not before its pod is gone":           {"uuul", orders(Order{Grow: []Pod{{3, "e"}}}, started, vacated(3)), 0, "Wait"},
		"no rank is left out":                  {"uuuu", orders(Order{Grow: []Pod{{5, "f"}}}, started), 0, "Wait"},
		"not beyond its largest size":          {"uuuu", orders(Order{Grow: []Pod{{4, "e"}, {5, "f"}, {6, "g"}}}, started), 0, "Wait"},
		"it does not grow twice":               {"uuuu", orders(Order{Grow: []Pod{{3, "d"}}}, started), 0, "Wait"},
		"a pod that cannot be bound moves":     {"uucu", orders(Order{Move: []Pod{{2, "e"}}}, unbindable(2)), 5 * time.Second, "Move quorum 0 [{2 e}]"},
		"not before kube-scheduler had a look": {"uucu", orders(Order{Move: []Pod{{2, "e"}}}, unbindable(2)), 4 * time.Second, "Wait"},
		"one that the kubelet refused at once": {"uufu", orders(Order{Move: []Pod{{2, "e"}}}, unbindable(2)), 0, "Move quorum 0 [{2 e}]"},
		"not to where it is":                   {"uucu", orders(Order{Move: []Pod{{2, "c"}}}, unbindable(2)), 5 * time.Second, "Wait"},
		"nor one that can be bound":            {"uucu", orders(Order{Move: []Pod{{2, "e"}}}), 5 * time.Second, "Wait"},
		"its pod is evicted":                   {"uucu", orders(Order{Move: []Pod{{2, "e"}}}, unbindable(2), misplaced(2)), time.Minute, "EvictRanks ranks [2] quorum 0"},
		"and placed on the new node":           {"uugu", orders(Order{Move: []Pod{{2, "e"}}}), time.Second, "Place ranks [2] quorum 4"},
		"without another node all is given up": {"uucu", orders(Order{}, unbindable(2)), 30 * time.Second, "GiveUp"},
		"not under a command":                  {"uucu", orders(Order{}, unbindable(2), started), 30 * time.Second, "Wait"},
		"a lead that was refused is tried again": {"fccc", orders(Order{}, unbindable(0), func(o *Observation) {
			o.Workload, o.Brokers[0].ExitCode = Broken, nil
		}), 0, "GiveUp"},
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
	text := string(p.Step)
	if p.Reason != "" {
		text += " " + p.Reason
	}
	if len(p.Ranks) > 0 {
		text += fmt.Sprint(" ranks ", p.Ranks)
	}
	if len(p.Ranks) > 0 || len(p.Pods) > 0 {
		text += fmt.Sprint(" quorum ", p.Quorum)
	}
	if len(p.Pods) > 0 {
		text += fmt.Sprint(" ", p.Pods)
	}
	if !p.Deadline.IsZero() {
		text += " until " + p.Deadline.Format(time.TimeOnly)
	}
	return text
}
