// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

	// What is written in the MiniCluster's status.
	admission *Admission
	givenUp   int
	notBefore time.Time
	started   time.Time
	outcome   Outcome
	removed   bool

	// What is in the cluster.
	policy    Policy
	workload  Workload
	pods      []Broker
	stuck     map[int]bool // ranks whose pods never start
	published int
	told      []int
	vacated   map[int]bool
	at        map[int]string // the nodes that pods were let go to
	// orders are the scheduler's; nil for none. standing is the last of them.
	orders   func(*Observation) *Order
	standing *Order
	steps    map[Step]int
	full     bool // the scheduler has all it wants

	faults faults
	starts int // in this attempt
}

// faults are what goes wrong, as chances of one in so many; 0 is never.
type faults struct {
	neverStarts, nodeGoes, evicted, fails, stuckPods, unbindable int
}

func (w *world) chance(oneIn int) bool { return oneIn > 0 && w.random.IntN(oneIn) == 0 }

// nodeGoes reports whether a node goes now. Nodes go for an hour at most: while
// they do, a MiniCluster may be placed again and again.
func (w *world) nodeGoes() bool { return w.now.Sub(noon) < time.Hour && w.chance(w.faults.nodeGoes) }

func (w *world) observe() *Observation {
	o := &Observation{
		Policy: w.policy, GivenUp: w.givenUp, NotBefore: w.notBefore, Started: w.started,
		Outcome: w.outcome, Workload: w.workload, Jitter: w.random.Float64(),
	}
	switch {
	case w.admission != nil:
		a := *w.admission
		o.Admission, o.Published, o.PublishedDrain = &a, w.published, w.told
		o.Brokers = make([]Broker, a.Size)
		copy(o.Brokers, w.pods)
		for rank := range o.Brokers {
			o.Brokers[rank].Vacated = w.vacated[rank]
			o.Brokers[rank].Misplaced = holdsNode(o.Brokers[rank].State) && w.at[rank] != a.Nodes[rank]
		}
	case w.random.IntN(3) > 0:
		o.Verdict = NoRoom
	default:
		o.Offer = w.free()[:w.policy.Sizing.Min+w.random.IntN(w.policy.Sizing.Size-w.policy.Sizing.Min+1)]
		if w.full {
			o.Offer = w.free()[:w.policy.Sizing.Size]
		}
	}
	if w.workload == Stale || w.workload == Deleting {
		o.Brokers = make([]Broker, len(o.Brokers))
		for rank := range o.Brokers {
			o.Brokers[rank].Vacated = w.vacated[rank]
		}
	}
	for _, pod := range w.pods {
		if holdsNode(pod.State) {
			o.Occupied++
		}
	}
	if w.workload == Absent {
		o.Leftover = len(w.pods)
	}
	if w.orders != nil && w.admission != nil && w.outcome == "" {
		o.Order = w.orders(o)
	}
	return o
}

// carryOut does what the controller does, and checks what must hold of every plan.
func (w *world) carryOut(o *Observation, plan Plan) {
	w.check(o, plan)
	w.steps[plan.Step]++
	w.resize(plan)
	switch plan.Step {
	case Admit:
		w.admission = &Admission{Attempt: w.givenUp + 1, Size: len(o.Offer), Quorum: plan.Quorum, At: w.now, Nodes: o.Offer}
		w.started, w.starts, w.vacated = time.Time{}, 0, map[int]bool{}
	case LowerQuorum:
		w.admission.Quorum = plan.Quorum
	case Start:
		w.started = w.now
		w.starts++
	case GiveUp:
		w.givenUp++
		w.notBefore = plan.NotBefore
		w.withdraw()
	case Withdraw, Evict:
		w.withdraw()
	case Finish:
		w.outcome = plan.Outcome
	case Make:
		w.workload, w.pods, w.published, w.told, w.at = Active, nil, 0, nil, map[int]string{}
		w.stuck = map[int]bool{}
		for rank := range o.Admission.Size {
			w.stuck[rank] = w.chance(w.faults.neverStarts)
		}
	case Place:
		for _, rank := range plan.Ranks {
			w.pods[rank].State, w.pods[rank].Placed, w.at[rank] = Coming, w.now, w.admission.Nodes[rank]
			w.pods[rank].Unbindable = w.now.Sub(noon) < time.Hour && w.chance(w.faults.unbindable)
			if rank == 0 {
				w.published = plan.Quorum
			}
		}
	case Publish:
		w.published, w.told = plan.Quorum, plan.Ranks
	case EvictRanks:
		for _, rank := range plan.Ranks {
			w.pods[rank].State = Leaving
		}
	case Release:
		w.workload = Deleting
	case Remove:
		w.removed = true
	}
}

func (w *world) withdraw() {
	w.admission, w.started, w.standing = nil, time.Time{}, nil
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
	up := o.up()
	switch plan.Step {
	case Admit:
		if o.Occupied > 0 || o.Leftover > 0 {
			fail("admitted over %d pods of an earlier attempt", o.Occupied)
		}
	case Start:
		if w.starts > 0 || up < o.Admission.Quorum || o.Admission.Quorum < w.policy.Sizing.Min || o.Brokers[0].State != Up {
			fail("started for the %d. time with %d up, quorum %d, lead %d", w.starts+1, up, o.Admission.Quorum, o.Brokers[0].State)
		}
	case Place:
		for rank, b := range o.Brokers {
			if o.Occupied == 0 && b.State == Missing && !o.leaves(rank) {
				fail("placed pods before that of rank %d was made", rank)
			}
		}
	case GiveUp:
		if w.givenUp >= w.policy.RecreateLimit || !plan.NotBefore.After(w.now) {
			fail("gave up for the %d. time of %d", w.givenUp+1, w.policy.RecreateLimit)
		}
	case Make:
		if w.workload != Absent {
			fail("made what is there")
		}
	}
	w.checkNodes(o, plan, fail)
	if o.Outcome != "" && plan.Step != Wait && plan.Step != Release && plan.Step != Remove {
		fail("did something after the end")
	}
	if again := Decide(o, w.now); show(again) != show(plan) {
		fail("decided otherwise the second time: %s", show(again))
	}
}

// live lets the cluster do something.
func (w *world) live() {
	w.now = w.now.Add(time.Duration(1+w.random.IntN(5)) * time.Second)
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
}

func (w *world) livePods() {
	for len(w.pods) < w.admission.Size {
		w.pods = append(w.pods, Broker{})
	}
	for rank := range w.pods {
		w.livePod(rank)
	}
	switch w.pods[0].State {
	case Succeeded:
		w.workload = Completed
	case Failed:
		w.workload = Broken
	}
}

func (w *world) livePod(rank int) {
	pod := &w.pods[rank]
	switch pod.State {
	case Missing:
		if w.random.IntN(2) == 0 && !w.chance(w.faults.stuckPods) {
			pod.State = Gated
		}
	case Coming:
		switch {
		case w.nodeGoes():
			pod.State, pod.NodeGone = Leaving, true
		case !w.stuck[rank] && !pod.Unbindable && w.random.IntN(3) == 0:
			pod.State = Up
		}
	case Up:
		switch {
		case w.chance(w.faults.evicted):
			pod.State = Leaving
		case w.nodeGoes():
			pod.State, pod.NodeGone = Leaving, true
		case rank == 0 && !w.started.IsZero() && w.random.IntN(12) == 0:
			*pod = Broker{State: Succeeded}
			if w.chance(w.faults.fails) {
				*pod = Broker{State: Failed, ExitCode: new(1)}
			}
		}
	case Leaving:
		*pod = Broker{NodeGone: pod.NodeGone}
	}
}

// narrate writes down what is new.
func (w *world) narrate(plan Plan) {
	line := fmt.Sprintf("%-11s %-10s %s", plan.Step, plan.State, plan.Message)
	if plan.Outcome != "" {
		line += fmt.Sprintf(" [%s]", plan.Outcome)
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
		if w.removed || (w.outcome != "" && !w.policy.Cleanup && plan.Step == Wait && o.Occupied == 0) {
			return
		}
	}
	w.t.Fatalf("it did not end:\n%s", w.end())
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 4)), now: noon, policy: policy4, steps: map[Step]int{}}
	w.policy.Deadline = 2 * time.Minute
	w.policy.Max = w.policy.Sizing.Size + 2
	w.policy.BearsChange = seed%2 == 0
	return w
}

// Lives with all kinds of faults: each comes to an end, holds nothing after it, and
// breaks no rule on the way.
func TestLives(t *testing.T) {
	outcomes := map[Outcome]int{}
	for seed := range uint64(4000) {
		w := newWorld(t, seed)
		w.policy.Cleanup = seed%2 == 0
		w.policy.Sizing.Size = 2 + int(seed%5)
		w.faults = faults{
			neverStarts: w.random.IntN(12), nodeGoes: w.random.IntN(300), evicted: w.random.IntN(300),
			fails: w.random.IntN(4), stuckPods: w.random.IntN(3),
		}
		w.run()
		for rank, pod := range w.pods {
			if holdsNode(pod.State) {
				t.Fatalf("seed %d: rank %d still holds a node after the end:\n%s", seed, rank, w.end())
			}
		}
		outcomes[w.outcome]++
	}
	for _, outcome := range []Outcome{OutcomeSucceeded, OutcomeCommandFailed, OutcomeLeadLost, OutcomeDeadlineExceeded, OutcomeStartLimit} {
		if outcomes[outcome] < 20 {
			t.Errorf("only %d of 4000 lives ended with %s: the faults do not reach it (%v)", outcomes[outcome], outcome, outcomes)
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
		"shrink-for-another": {18, true, onceStarted(Order{Drain: []int{1, 3}, DrainFor: "default/urgent"})},
		"evicted-and-back": {18, true, func(w *world) {
			w.orders = func(o *Observation) *Order {
				if o.Started.IsZero() || w.steps[Evict] > 0 {
					return nil
				}
				return &Order{Evict: "default/urgent needs its nodes", EvictReason: "Preempted"}
			}
		}},
		"grows": {18, true, onceStarted(Order{Grow: []Pod{{4, "n10"}, {5, "n11"}}})},
		"repaired": {3, true, func(w *world) {
			w.faults.unbindable = 5
			w.orders = w.repair
		}},
		"cannot-be-repaired": {12, true, func(w *world) { w.faults.unbindable = 6 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.seed)
			w.policy.Cleanup = true
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

// onceStarted gives one order as soon as the command runs, and never takes it back.
func onceStarted(order Order) func(*world) {
	return func(w *world) {
		w.orders = func(o *Observation) *Order {
			if o.Started.IsZero() {
				return nil
			}
			return &order
		}
	}
}
