// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// room is a cluster of nodes that hold one broker each.
type room struct {
	free, all int
}

func (r *room) Place(_ string, sizes []int) ([]string, string) {
	largest := 0
	for _, size := range sizes {
		if size <= r.free {
			largest = max(largest, size)
		}
	}
	if largest == 0 {
		return nil, fmt.Sprintf("%d free", r.free)
	}
	r.free -= largest
	return make([]string, largest), ""
}

func (r *room) Never(_ string, sizes []int) string {
	if slices.Min(sizes) > r.all {
		return fmt.Sprintf("%d in all", r.all)
	}
	return ""
}

// gang is a rigid gang that came some seconds after noon.
func gang(id string, size, second int) Gang {
	at := noon.Add(time.Duration(second) * time.Second)
	return Gang{
		ID: id, Name: "default/" + id, Queue: "default", Created: at, Since: at,
		Sizing: Sizing{Min: size, Size: size, Operator: Add, Operand: 1, Tasks: Tasks{AtSize: 1}},
	}
}

func elasticGang(id string, least, size, second int, wait time.Duration) Gang {
	g := gang(id, size, second)
	g.Sizing.Min, g.WaitForSize = least, wait
	return g
}

func TestAllocate(t *testing.T) {
	withQueue := func(g Gang, queue string) Gang { g.Queue = queue; return g }
	withPriority := func(g Gang, priority int32) Gang { g.Priority = priority; return g }
	cases := map[string]struct {
		gangs []Gang
		free  int // of 10
		now   time.Time
		want  string // id: verdict and size, in the order of the queue
	}{
		"all that fit are admitted": {
			gangs: []Gang{gang("b", 4, 2), gang("a", 5, 1)}, free: 10,
			want: "a Admitted 5, b Admitted 4",
		},
		"the first that does not fit holds up the others": {
			gangs: []Gang{gang("a", 4, 1), gang("b", 8, 2), gang("c", 1, 3)}, free: 10,
			want: "a Admitted 4, b NoRoom, c WaitingForTurn",
		},
		"one that never fits holds up nobody": {
			gangs: []Gang{gang("a", 11, 1), gang("b", 8, 2)}, free: 10,
			want: "a NeverFits, b Admitted 8",
		},
		"one behind another that never fits is told at once": {
			gangs: []Gang{gang("a", 8, 1), gang("b", 11, 2)}, free: 1,
			want: "a NoRoom, b NeverFits",
		},
		"queues do not hold up each other": {
			gangs: []Gang{gang("a", 8, 1), withQueue(gang("b", 2, 2), "other"), gang("c", 2, 3)}, free: 4,
			want: "a NoRoom, b Admitted 2, c WaitingForTurn",
		},
		"priority goes before age": {
			gangs: []Gang{gang("a", 6, 1), withPriority(gang("b", 6, 2), 10)}, free: 10,
			want: "b Admitted 6, a NoRoom",
		},
		"of one age the name decides": {
			gangs: []Gang{gang("y", 6, 1), gang("x", 6, 1)}, free: 10,
			want: "x Admitted 6, y NoRoom",
		},
		"an elastic gang takes what there is": {
			gangs: []Gang{elasticGang("a", 2, 8, 1, 0)}, free: 5,
			want: "a Admitted 5",
		},
		"but not less than its minimum": {
			gangs: []Gang{elasticGang("a", 6, 8, 1, 0)}, free: 5,
			want: "a NoRoom",
		},
		"it holds out for its size for a while": {
			gangs: []Gang{elasticGang("a", 2, 8, 0, time.Minute), gang("b", 1, 1)}, free: 5, now: noon.Add(59 * time.Second),
			want: "a WaitingForSize, b WaitingForTurn",
		},
		"it takes its size at once while it holds out": {
			gangs: []Gang{elasticGang("a", 2, 8, 0, time.Minute)}, free: 9, now: noon.Add(time.Second),
			want: "a Admitted 8",
		},
		"and then takes what there is": {
			gangs: []Gang{elasticGang("a", 2, 8, 0, time.Minute)}, free: 5, now: noon.Add(time.Minute),
			want: "a Admitted 5",
		},
		"nobody waits": {want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.now.IsZero() {
				tc.now = noon.Add(time.Hour)
			}
			before := slices.Clone(tc.gangs)
			got := Allocate(tc.gangs, &room{free: tc.free, all: 10}, tc.now)
			if text := say(got); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
			for i := range before {
				if before[i].ID != tc.gangs[i].ID {
					t.Fatal("the caller's queue was reordered")
				}
			}
		})
	}
}

func say(decisions []Decision) string {
	var out []string
	for _, d := range decisions {
		text := d.Gang + " " + string(d.Verdict)
		if d.Verdict == Admitted {
			text += fmt.Sprint(" ", len(d.Nodes))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestAllocateLooksAgainWhenHoldingOutEnds(t *testing.T) {
	decisions := Allocate([]Gang{elasticGang("a", 2, 8, 0, time.Minute)}, &room{free: 5, all: 10}, noon)
	if want := noon.Add(time.Minute); !decisions[0].LookAgain.Equal(want) {
		t.Errorf("looks again at %s, want %s", decisions[0].LookAgain, want)
	}
}

// Simulated queues, with seeds: nothing is given twice, no gang starts below its
// minimum or passes an older one of its queue, everything that can run does in the
// end, and the same queue gives the same decisions.
func TestAllocateSimulated(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		simulateQueue(t, seed, random)
	}
}

func simulateQueue(t *testing.T, seed uint64, random *rand.Rand) {
	t.Helper()
	const nodes = 16
	waiting := map[string]Gang{}
	impossible := 0
	for i := range 40 {
		size := 1 + random.IntN(nodes+2)
		g := elasticGang(fmt.Sprintf("g%02d", i), 1+random.IntN(size), size, random.IntN(100), time.Duration(random.IntN(20))*time.Second)
		g.Queue = []string{"a", "b"}[random.IntN(2)]
		if g.Sizing.Min > nodes {
			impossible++
		}
		waiting[g.ID] = g
	}
	type running struct {
		size int
		end  time.Time
	}
	var active []running
	for second := range 20000 {
		now := noon.Add(time.Duration(second) * time.Second)
		active = slices.DeleteFunc(active, func(r running) bool { return !r.end.After(now) })
		free := nodes
		for _, r := range active {
			free -= r.size
		}
		var queue []Gang
		for _, g := range waiting {
			if !g.Created.After(now) {
				queue = append(queue, g)
			}
		}
		decisions := Allocate(queue, &room{free: free, all: nodes}, now)
		random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		if again := Allocate(queue, &room{free: free, all: nodes}, now); say(again) != say(decisions) {
			t.Fatalf("seed %d: %s, and in another order %s", seed, say(decisions), say(again))
		}
		held := map[string]bool{}
		for _, d := range decisions {
			g := waiting[d.Gang]
			switch d.Verdict {
			case Admitted:
				if len(d.Nodes) < g.Sizing.Min || len(d.Nodes) > g.Sizing.Size || held[g.Queue] {
					t.Fatalf("seed %d: %s, of %d to %d in queue %s", seed, say(decisions), g.Sizing.Min, g.Sizing.Size, g.Queue)
				}
				free -= len(d.Nodes)
				active = append(active, running{len(d.Nodes), now.Add(time.Duration(1+random.IntN(30)) * time.Second)})
				delete(waiting, g.ID)
			case NoRoom, WaitingForSize:
				held[g.Queue] = true
			}
		}
		if free < 0 {
			t.Fatalf("seed %d: %d nodes too many were given away", seed, -free)
		}
		if len(waiting) == impossible {
			return
		}
	}
	t.Fatalf("seed %d: %d gangs never ran", seed, len(waiting)-impossible)
}
