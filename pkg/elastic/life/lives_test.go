// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

var update = flag.Bool("update", false, "write the golden narratives")

// world is a toy cluster with one MiniCluster in it. It does what the API server,
// JobSet, the scheduler and kubelets do, at random speed, and what the controller
// does with a plan.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	log    strings.Builder
	said   string

	// Record is what is written in the MiniCluster's status.
	Record
	removed bool

	// What is in the cluster.
	policy    Policy
	bad       map[string]bool // nodes on which pods do not start
	quorumBy  time.Time       // until when the lead waits for its quorum
	stopped   bool            // the lead was told to end the command
	asked     bool            // and the command has ended since
	toldAgain Again           // the restart that the lead was told
	toldAt    time.Time
	command   command
	hangs     bool                // the command does not end by itself when it lost a broker
	joined    map[int]bool        // ranks that the lead sees, ready or not
	began     map[int]bool        // those that the command began with; nil if it did not
	atLeast   time.Duration       // for which the command runs
	incident  func(pods []Broker) // happens once, when the command has run for a while
	workload  Workload
	pods      []Broker
	stuck     map[int]bool // ranks whose pods never start
	published int
	told      []int
	least     int            // brokers that it may have in this attempt: its minimum, unless the user goes below
	at        map[int]string // the nodes that pods were let go to
	// orders are the scheduler's; nil for none. standing is the last of them.
	orders   func(*Observation) elastic.Order
	standing elastic.Order
	// quota is what another system says that grants quota.
	quota QuotaState
	steps map[string]int // by name
	full  bool           // the scheduler has all it wants

	faults faults
	starts int // in this attempt
}

// faults are what goes wrong, as chances of one in so many; 0 is never.
type faults struct {
	neverStarts, nodeGoes, evicted, fails, stuckPods, unbindable, crashes, hangs, resizes, ignores, away int

	taken bool // pods are unbindable because others took their nodes
}

func (w *world) chance(oneIn int) bool { return oneIn > 0 && w.random.IntN(oneIn) == 0 }

// nodeGoes reports whether a node goes now. Nodes go for an hour at most: while
// they do, a MiniCluster may be placed again and again.
func (w *world) nodeGoes() bool { return w.now.Sub(noon) < time.Hour && w.chance(w.faults.nodeGoes) }

func (w *world) observe() *Observation {
	o := &Observation{
		Policy: w.policy, Record: w.Record, Workload: w.workload, Jitter: w.random.Float64(), Quota: w.quota,
	}
	o.Policy.Sizing.Most = w.Most
	switch {
	case w.Admission != nil:
		o.Published, o.PublishedDrain, o.PublishedRestarts, o.Stopped = w.published, w.told, w.toldAgain.Number, w.stopped
		o.LeadDownSince = w.command.down
		o.Brokers = make([]Broker, len(w.Admission.Nodes))
		copy(o.Brokers, w.pods)
		if w.workload == Active && o.Brokers[0].State != Missing {
			o.Lead = fmt.Sprint("of attempt ", w.Admission.Attempt)
		}
		o.ToldBegan = w.asked && o.Brokers[0].State != Missing
		o.ToldAsked = o.ToldBegan
		o.LeadGone = w.Admission.Lead != "" && o.Brokers[0].State == Missing
		for rank := range o.Brokers {
			o.Brokers[rank].Misplaced = o.Brokers[rank].holdsNode() && w.at[rank] != w.Admission.Nodes[rank]
		}
	case w.random.IntN(3) > 0:
		o.Offer.Verdict = elastic.NoRoom
	default:
		o.Offer.Nodes = w.free()[:w.policy.Sizing.Min+w.random.IntN(w.policy.Sizing.Size-w.policy.Sizing.Min+1)]
		if w.full {
			o.Offer.Nodes = w.free()[:w.policy.Sizing.Size]
		}
	}
	if w.workload == Stale || w.workload == Deleting {
		o.Brokers = make([]Broker, len(o.Brokers))
	}
	for _, pod := range w.pods {
		if pod.holdsNode() {
			o.Occupied++
		}
	}
	if w.workload == Absent {
		o.Leftover = len(w.pods)
	}
	if w.orders != nil && w.Admission != nil && w.Outcome == "" {
		o.Order = w.orders(o)
	}
	return o
}

// carryOut does what the controller does, and checks what must hold of every plan.
func (w *world) carryOut(o *Observation, plan Plan) {
	w.check(o, plan)
	w.steps[Name(plan.Step)]++
	w.Record = plan.Apply(w.Record, w.now)
	switch s := plan.Step.(type) {
	case Admit:
		w.policy.Want, w.least, w.starts = 0, w.policy.Sizing.Min, 0
		w.quota = min(w.quota, QuotaReserved) // it admits each attempt anew
	case Start:
		w.starts++
	case Vacate:
		if len(s.Avoid) > 0 { // brokers that were not there anyway
			w.least = min(w.least, o.members()-len(s.Ranks))
		}
	case Grow:
		w.moveTo(s.Pods)
	case Move:
		w.moveTo(s.Pods)
	case Stop:
		w.stopped = true
	case GiveUp, Withdraw, Evict:
		w.withdraw()
	case Make:
		w.workload, w.pods, w.published, w.told, w.at = Active, nil, 0, nil, map[int]string{}
		w.toldAgain, w.asked, w.command = Again{}, false, command{}
		w.stopped, w.hangs, w.quorumBy = false, w.chance(w.faults.hangs), time.Time{}
		w.joined, w.began = map[int]bool{}, nil
		w.stuck = map[int]bool{}
		for rank := range o.Admission.Nodes {
			w.stuck[rank] = w.chance(w.faults.neverStarts)
		}
	case Place:
		w.place(s)
	case Publish:
		w.published, w.told, w.toldAgain, w.toldAt = s.Quorum, s.Leaving, s.Again, w.now
	case EvictPods:
		for _, rank := range s.Ranks {
			w.pods[rank] = Broker{State: Leaving}
		}
	case Release:
		w.workload = Deleting
	case Remove:
		w.removed = true
	}
}

// place lets pods go to their nodes.
func (w *world) place(s Place) {
	for _, rank := range s.Ranks {
		w.pods[rank].State, w.pods[rank].Placed, w.at[rank] = Coming, w.now, w.Admission.Nodes[rank]
		w.pods[rank].Unbindable = w.now.Sub(noon) < time.Hour && w.chance(w.faults.unbindable)
		w.pods[rank].Taken = w.pods[rank].Unbindable && w.faults.taken
		if w.bad[w.at[rank]] && !w.pods[rank].Unbindable {
			w.pods[rank].Trouble, w.pods[rank].TroubleSince = "ErrImagePull", w.now
		}
		if rank == 0 {
			w.published, w.toldAgain = s.Quorum, s.Again
		}
	}
}

func (w *world) withdraw() {
	w.standing = nil
	if w.workload != Absent && w.workload != Deleting {
		w.workload = Stale
	}
}

// check asserts what must hold at every step.
func (w *world) check(o *Observation, plan Plan) {
	w.t.Helper()
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s: %s\nplan %s\n%s", w.now.Format(time.TimeOnly), fmt.Sprintf(format, args...), show(plan), w.end())
	}
	switch s := plan.Step.(type) {
	case Admit:
		if o.Occupied > 0 || o.Leftover > 0 {
			fail("admitted over %d pods of an earlier attempt", o.Occupied)
		}
	case Start:
		lead := o.Brokers[0]
		if w.starts > 0 || s.Quorum > o.Admission.Quorum || (!lead.Ready && lead.State != Succeeded && o.Workload != Completed && !o.inDoubt(w.now)) {
			fail("started for the %d. time with %d up, quorum %d, lead %d", w.starts+1, o.Up(), s.Quorum, lead.State)
		}
	case LowerQuorum:
		if s.Quorum < min(w.policy.Sizing.Min, o.members()) || s.Quorum >= o.members() || o.Up() < s.Quorum || o.Brokers[0].Ready {
			fail("starts with %d of %d, %d are up", s.Quorum, o.members(), o.Up())
		}
	case Keep:
		for _, rank := range s.Ranks {
			if !w.began[rank] && !w.command.isDown {
				fail("kept rank %d, which has no part in the command", rank)
			}
		}
	case Restart, Restarted, Checkpointed, Warn:
		w.checkRestart(o, plan, fail)
	case EvictPods:
		for _, rank := range s.Ranks {
			if w.began[rank] && w.joined[rank] && !w.policy.Malleable && !w.Admission.Has(rank) && o.Brokers[0].State == Up {
				fail("took rank %d from the command", rank)
			}
			if w.Admission.Has(rank) && w.at[rank] == o.Admission.Nodes[rank] {
				fail("evicted rank %d from its node", rank)
			}
		}
	case Lose:
		if !o.begun() || o.Policy.OnLoss == LossContinue || (o.Admission.Loss != nil && len(less(s.Ranks, o.Admission.Loss.Ranks)) == 0) {
			fail("lost brokers that do not matter")
		}
	case Stop:
		if (o.Outcome == "" && o.Admission.Eviction == nil) || w.stopped {
			fail("stopped what goes on")
		}
	case Place:
		w.checkPlace(o, s, fail)
	case GiveUp:
		if w.GivenUp >= w.policy.RecreateLimit || !s.NotBefore.After(w.now) {
			fail("gave up for the %d. time of %d", w.GivenUp+1, w.policy.RecreateLimit)
		}
	case Make:
		if w.workload != Absent {
			fail("made what is there")
		}
	}
	w.checkNodes(o, fail)
	if o.Outcome != "" && !slices.Contains([]Step{Wait{}, Release{}, Remove{}, Stop{Reason: string(o.Outcome), Grace: killGrace}}, plan.Step) {
		fail("did something after the end")
	}
	if again := Decide(o, w.now); !reflect.DeepEqual(again, plan) {
		fail("decided otherwise the second time: %s", show(again))
	}
}

// live lets the cluster do something.
func (w *world) live() {
	w.now = w.now.Add(time.Duration(1+w.random.IntN(5)) * time.Second)
	if w.quota == QuotaReserved && w.random.IntN(20) == 0 {
		w.quota = QuotaAdmitted
	}
	switch w.workload {
	case Deleting:
		if len(w.pods) > 0 {
			w.pods = w.pods[:len(w.pods)-1]
		} else {
			w.workload = Absent
		}
	case Completed, Broken: // JobSet ends what is left, but for the lead's pod
		for i := range w.pods {
			if w.pods[i].State != Succeeded && w.pods[i].State != Failed {
				w.pods[i] = Broker{}
			}
		}
	case Active:
		w.livePods()
	}
	if w.incident != nil && w.workload == Active && !w.Started.IsZero() && w.now.Sub(w.Started) > 10*time.Second {
		w.incident(w.pods)
		w.incident = nil
	}
	if w.Admission != nil && w.Outcome == "" && w.chance(w.faults.resizes) && w.now.Sub(noon) < time.Hour {
		w.policy.Want = 1 + w.random.IntN(w.policy.Max)
		w.least = min(w.least, w.policy.Want)
	}
}

func (w *world) livePods() {
	for len(w.pods) < len(w.Admission.Nodes) {
		w.pods = append(w.pods, Broker{})
	}
	for rank := range w.pods {
		w.livePod(rank)
	}
	w.liveLead()
	switch w.pods[0].State {
	case Succeeded:
		w.workload = Completed
	case Failed:
		w.workload = Broken
	}
}

func (w *world) livePod(rank int) {
	pod := &w.pods[rank]
	needless := slices.Contains(w.told, rank) && (w.policy.Malleable || !w.began[rank])
	if pod.State != Coming && pod.State != Up {
		delete(w.joined, rank)
	}
	switch pod.State {
	case Missing:
		if w.random.IntN(2) == 0 && !w.chance(w.faults.stuckPods) {
			pod.State = Gated
		}
	case Coming:
		switch {
		case w.nodeGoes():
			pod.State, pod.NodeGone = Leaving, true
		case w.policy.Restarts && pod.Idle && !slices.Contains(w.told, rank): // it may stay after all
			pod.State, pod.Idle, pod.Ready, pod.ReadySince = Up, false, true, w.now
		case w.joined[rank] && !pod.Idle && (!needless || w.random.IntN(2) == 0): // and is seen to be ready a moment later
			*pod = Broker{State: Up, Ready: rank > 0, ReadySince: w.now, Placed: pod.Placed, Since: pod.Since}
		case !w.stuck[rank] && !pod.Unbindable && pod.Trouble == "" && !pod.Idle && (rank == 0 || w.pods[0].State == Up) && w.random.IntN(3) == 0:
			if pod.Since.IsZero() {
				pod.Since = w.now
			}
			w.joined[rank] = true
		}
	case Up:
		switch {
		case w.chance(w.faults.evicted):
			*pod = Broker{State: Leaving}
		case w.nodeGoes():
			*pod = Broker{State: Leaving, NodeGone: true}
		case rank > 0 && w.chance(w.faults.crashes):
			*pod = Broker{State: Failed, ExitCode: new(137), EndedAt: w.now}
		case needless && (!w.began[rank] || w.random.IntN(3) == 0):
			*pod = Broker{State: Coming, Idle: true, Placed: pod.Placed, Since: pod.Since}
		}
	case Failed:
		if rank > 0 {
			*pod = Broker{}
		}
	case Leaving:
		*pod = Broker{NodeGone: pod.NodeGone}
		if rank == 0 { // its Job makes no other pod
			w.workload = Broken
		}
	}
}

// liveLead is what the lead's script and Flux do.
func (w *world) liveLead() {
	lead := &w.pods[0]
	if lead.State != Up {
		return
	}
	if w.quorumBy.IsZero() {
		w.quorumBy = w.now.Add(w.policy.QuorumTimeout + 5*time.Second)
	}
	up, lost := map[int]bool{}, false
	for rank, pod := range w.pods {
		if w.joined[rank] && !slices.Contains(w.told, rank) {
			up[rank] = true
		}
		lost = lost || (pod.replaced() && w.Admission.Has(rank) && (!w.policy.Restarts || w.began[rank]))
	}
	switch {
	case w.stopped && !w.chance(w.faults.ignores):
		*lead = Broker{State: Failed, ExitCode: new(143), EndedAt: w.now}
		w.asked = true
	case w.stopped:
	case w.policy.Restarts && w.liveCommand(lead, up):
	case !lead.Ready:
		lead.Ready = w.published > 0 && len(up) >= w.published || (!w.now.Before(w.quorumBy) && len(up) >= w.policy.Sizing.Min)
		if lead.Ready {
			w.began, lead.ReadySince, w.command.runs = up, w.now, w.toldAgain.Number
		}
	case lost && !w.policy.Malleable && !w.hangs && w.random.IntN(4) == 0:
		*lead = Broker{State: Failed, ExitCode: new(1), EndedAt: w.now}
	case lost && !w.policy.Malleable && w.hangs:
	case w.Started.IsZero() || w.now.Sub(w.Started) < w.atLeast:
	case w.random.IntN(12) == 0:
		w.followersEnd()
	case w.pods[len(w.pods)-1].State == Succeeded:
		*lead = Broker{State: Succeeded, EndedAt: w.now}
		if w.chance(w.faults.fails) {
			*lead = Broker{State: Failed, ExitCode: new(1), EndedAt: w.now}
		}
	}
}

// followersEnd ends followers with the instance, before the lead ends.
func (w *world) followersEnd() {
	for rank := range w.pods {
		if rank > 0 && (w.pods[rank].State == Up || rank == len(w.pods)-1) {
			w.pods[rank] = Broker{State: Succeeded, EndedAt: w.now}
		}
	}
}

// narrate writes down what is new.
func (w *world) narrate(plan Plan) {
	line := fmt.Sprintf("%-11s %-10s %s", Name(plan.Step), plan.State, plan.Message)
	if end, over := plan.Step.(Finish); over {
		line += fmt.Sprintf(" [%s]", end.Outcome)
	}
	if line != w.said {
		fmt.Fprintf(&w.log, "%s  %s\n", w.now.Format(time.TimeOnly), strings.TrimSpace(line))
		w.said = line
	}
}

// end is the end of the narrative.
func (w *world) end() string {
	lines := strings.Split(w.log.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// run lives a whole life.
func (w *world) run() {
	w.t.Helper()
	for range 20000 {
		o := w.observe()
		plan := Decide(o, w.now)
		w.narrate(plan)
		w.carryOut(o, plan)
		if w.random.IntN(3) > 0 {
			w.live()
		}
		if a := w.Admission; a != nil && (a.Restart != nil || a.Draining != nil) && w.chance(w.faults.away) {
			for until := w.now.Add(time.Duration(w.random.IntN(300)) * time.Second); w.now.Before(until); {
				w.live()
			}
		}
		if w.removed || (w.Outcome != "" && w.policy.TTL == nil && plan.Step == Wait{} && o.Occupied == 0) {
			return
		}
	}
	w.t.Fatalf("it did not end:\n%s", w.end())
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 4)), now: noon, policy: policy4, steps: map[string]int{}}
	w.policy.Deadline = 2 * time.Minute
	w.policy.Max = w.policy.Sizing.Size + 2
	w.policy.Malleable = seed%2 == 0
	w.policy.OnLoss = LossFail
	if w.policy.Malleable {
		w.policy.OnLoss = LossContinue
	}
	return w
}

// Lives with all kinds of faults: each comes to an end, holds nothing after it, and
// breaks no rule on the way.
func TestLives(t *testing.T) {
	outcomes, kept := map[Outcome]int{}, 0
	for seed := range uint64(3000) {
		w := newWorld(t, seed)
		if seed%2 == 0 {
			w.policy.TTL = new(time.Duration(seed%3) * time.Minute)
		}
		w.policy.OnLoss = []LossPolicy{LossFail, LossContinue, LossRecreate}[seed%3]
		w.policy.QuorumTimeout = time.Duration(10+seed%4*5) * time.Second
		w.policy.Shrink, w.atLeast = seed%4 == 0, time.Duration(seed%7/5)*2*time.Minute
		w.bad = map[string]bool{"n1": seed%5 == 0, "n3": seed%5 < 2}
		w.policy.Sizing.Size = 2 + int(seed%5)
		if seed%4 == 3 {
			w.quota = QuotaReserved
		}
		w.faults = faults{
			neverStarts: w.random.IntN(12), nodeGoes: w.random.IntN(300), evicted: w.random.IntN(300),
			fails: w.random.IntN(4), stuckPods: w.random.IntN(3), crashes: w.random.IntN(200), hangs: w.random.IntN(4),
			resizes: w.random.IntN(30),
		}
		w.run()
		for rank, pod := range w.pods {
			if pod.holdsNode() {
				t.Fatalf("seed %d: rank %d still holds a node after the end:\n%s", seed, rank, w.end())
			}
		}
		outcomes[w.Outcome]++
		kept += w.steps["Keep"]
	}
	if kept < 3 {
		t.Errorf("only %d times brokers stayed that the command had begun with", kept)
	}
	for _, outcome := range []Outcome{OutcomeSucceeded, OutcomeCommandFailed, OutcomeLeadLost, OutcomeBrokersLost, OutcomeDeadlineExceeded, OutcomeStartLimit} {
		if outcomes[outcome] < 20 {
			t.Errorf("only %d of 3000 lives ended with %s: the faults do not reach it (%v)", outcomes[outcome], outcome, outcomes)
		}
	}
}

// Narratives that a person can read.
func TestNarratives(t *testing.T) {
	cases := map[string]struct {
		seed   uint64
		full   bool
		change func(*world)
	}{
		"quiet-life":         {1, false, func(*world) {}},
		"fewer-brokers":      {6, false, func(w *world) { w.faults.neverStarts = 3 }},
		"nodes-go":           {6, false, func(w *world) { w.faults.nodeGoes = 20 }},
		"never-enough":       {3, false, func(w *world) { w.faults.neverStarts = 1 }},
		"command-fails":      {4, false, func(w *world) { w.faults.fails = 1 }},
		"pods-cannot-come":   {5, false, func(w *world) { w.faults.stuckPods = 1 }},
		"shrink-for-another": {18, true, onceStarted(elastic.Drain{Ranks: []int{1, 3}, For: "default/urgent"})},
		"evicted-and-back": {18, true, func(w *world) {
			w.orders = func(o *Observation) elastic.Order {
				if o.Started.IsZero() || w.steps["Evict"] > 0 {
					return nil
				}
				return elastic.Evict{Reason: "Preempted", Message: "default/urgent needs its nodes"}
			}
		}},
		"grows": {18, true, onceStarted(elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "n10"}, {Rank: 5, Node: "n11"}}})},
		"repaired": {3, true, func(w *world) {
			w.faults.unbindable = 5
			w.orders = w.repair
		}},
		"cannot-be-repaired": {12, true, func(w *world) { w.faults.unbindable = 6 }},
		"loses-the-race":     {12, true, func(w *world) { w.faults.unbindable, w.faults.taken = 6, true }},
		"a-bad-node": {3, true, func(w *world) {
			w.bad, w.orders = map[string]bool{"n2": true}, w.repair
		}},
		"bad-nodes-and-no-others": {3, true, func(w *world) { w.bad = map[string]bool{"n2": true} }},
		"an-image-that-is-not-there": {3, true, func(w *world) {
			w.bad, w.orders = map[string]bool{"n0": true, "n1": true, "n2": true, "n3": true}, w.repair
		}},
		"loses-a-broker":       {9, true, losesABroker},
		"hangs-with-a-loss":    {9, true, func(w *world) { losesABroker(w); w.faults.hangs = 1 }},
		"recreated-after-loss": {9, true, func(w *world) { losesABroker(w); w.policy.OnLoss = LossRecreate }},
		"goes-on-with-a-loss":  {9, true, func(w *world) { losesABroker(w); bearsChange(w) }},
		"shrunk-and-grown-by-the-user": {9, true, func(w *world) {
			bearsChange(w)
			w.atLeast = time.Minute
			w.orders = func(o *Observation) elastic.Order {
				switch {
				case o.Started.IsZero():
				case w.steps["Drain"] == 0:
					w.policy.Want, w.least = 1, 1
				case o.Admission.Draining == nil && w.steps["Grow"] == 0:
					w.policy.Want = 2
					return elastic.Grow{Pods: []elastic.Pod{{Rank: 2, Node: "n10"}}}
				}
				return nil
			}
		}},
		"begins-as-the-quorum-is-lowered": {43, true, func(w *world) {
			w.policy.QuorumTimeout, w.policy.Malleable, w.atLeast = 10*time.Second, false, time.Minute
		}},
		"runs-again-with-others": {9, true, func(w *world) {
			restarts(w)
			w.orders = func(o *Observation) elastic.Order {
				switch {
				case o.Started.IsZero() || o.restarting() || o.Admission.Draining != nil:
				case w.steps["Restart"] == 0:
					w.policy.Want = 2
				case w.steps["Grow"] == 0:
					w.policy.Want = 4
					return elastic.Grow{Pods: []elastic.Pod{{Rank: 2, Node: "n10"}, {Rank: 3, Node: "n11"}}}
				}
				return nil
			}
		}},
		"runs-again-after-a-loss": {9, true, func(w *world) { losesABroker(w); restarts(w) }},
		"warned-before-it-goes": {18, true, func(w *world) {
			restarts(w)
			onceStarted(elastic.Evict{Reason: "Preempted", Message: "default/urgent needs its nodes"})(w)
			orders := w.orders
			w.orders = func(o *Observation) elastic.Order {
				if w.steps["Evict"] > 0 {
					return nil
				}
				return orders(o)
			}
		}},
		"overtime": {9, true, func(w *world) { w.policy.Deadline, w.atLeast = 20*time.Second, time.Minute }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.seed)
			w.policy.TTL = new(time.Duration)
			w.full = tc.full
			tc.change(w)
			w.run()
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(w.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.log.String(); got != string(want) {
				t.Errorf("the life is another than in %s (go test -update writes it):\n%s", path, got)
			}
		})
	}
}

func bearsChange(w *world) { w.policy.Malleable, w.policy.OnLoss = true, LossContinue }

func restarts(w *world) {
	w.policy.Malleable, w.policy.Restarts, w.policy.OnLoss, w.policy.Deadline = false, true, LossRecreate, time.Hour
	w.policy.CheckpointWait, w.policy.AsksForCheckpoint, w.atLeast = 20*time.Second, true, time.Minute
}

func losesABroker(w *world) {
	w.atLeast = time.Minute
	w.incident = func(pods []Broker) { pods[2] = Broker{State: Failed, ExitCode: new(137)} }
}

// onceStarted gives one order as soon as the command runs, and never takes it back.
func onceStarted(order elastic.Order) func(*world) {
	return func(w *world) {
		w.orders = func(o *Observation) elastic.Order {
			if o.Started.IsZero() {
				return nil
			}
			return order
		}
	}
}
