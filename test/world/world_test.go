// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0
package world

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the world of a seed, and print its trace")
	first = flag.Uint64("first", 1, "the first seed")
	lives = flag.Int("lives", 400, "how many MiniClusters live, in all worlds")
	size  = flag.Int("size", 16, "how many MiniClusters live in one world")
	calm  = flag.Bool("calm", false, "let nothing go wrong")
	shard = flag.String("shard", "", "the part of the worlds that this process runs, such as 0/2")
	leave = flag.String("without", "", "the parts that are left out of the world of -seed, such as 3,5")
)

// TestMain lets one thread run: with several, goroutines that become ready at once run in any order.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1) // worlds are small, and short: most of their garbage comes after them
	debug.SetMemoryLimit(700 << 20)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// Lives with faults, in worlds of several. Each process of the test runs a part of the worlds.
func TestLives(t *testing.T) {
	switch {
	case *seed != 0:
		replay(t)
	case *shard != "":
		runShard(t)
	default:
		runShards(t)
	}
}

func runShards(t *testing.T) {
	t.Helper()
	n := runtime.NumCPU()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			args := append(slices.Clone(os.Args[1:]), "-test.run=^TestLives$", fmt.Sprintf("-shard=%d/%d", i, n))
			out, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			} else if testing.Verbose() {
				t.Logf("%s", out)
			}
		})
	}
	group.Wait()
}

func runShard(t *testing.T) {
	t.Helper()
	var i, n int
	if _, err := fmt.Sscanf(*shard, "%d/%d", &i, &n); err != nil {
		t.Fatal(err)
	}
	var born, writes, faults, worlds int
	var virtual time.Duration
	for world := i; world**size < *lives; world += n {
		r := Run(t, Options{Seed: *first + uint64(world), MiniClusters: *size, Faults: !*calm})
		if r.Violation != nil {
			report(t, r)
			return
		}
		worlds, born, writes, faults, virtual = worlds+1, born+r.Lives, writes+r.Writes, faults+r.Faults, virtual+r.Virtual
	}
	t.Logf("%d worlds, %d lives, %d writes of managers, %d faults of requests, %s", worlds, born, writes, faults, virtual)
}

// report fails with the smallest world that has the violation.
func report(t *testing.T, r *Result) {
	t.Helper()
	small := shrink(t, r, 40)
	var names []string
	for _, part := range keptOf(small) {
		names = append(names, small.Parts[part])
	}
	slices.Reverse(names)
	t.Errorf("seed %d: %v\n\nreplay: go test ./test/world -run TestLives -size=%d -seed=%d -without=%s\n\nwith %d of %d parts: %v\n  %s\n\n%s\n\n%s",
		r.Seed, r.Violation, r.MiniClusters, small.Seed, list(small.Without), len(names), len(r.Parts), small.Violation, strings.Join(names, "\n  "),
		strings.Join(small.Trace, "\n"), small.Objects)
}

func list(numbers []int) string {
	slices.Sort(numbers)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

// replay runs one world, and prints what happens.
func replay(t *testing.T) {
	t.Helper()
	o := Options{Seed: *seed, MiniClusters: *size, Faults: !*calm}
	for text := range strings.SplitSeq(*leave, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err == nil {
			o.Without = append(o.Without, n)
		}
	}
	r := Run(t, o)
	fmt.Println(strings.Join(r.Trace, "\n"))
	if r.Violation != nil {
		t.Errorf("%v\n%s", r.Violation, r.Objects)
	}
}

// A seed has the same trace each time, to the byte. The runtime of Go may preempt a goroutine that a busy machine kept from
// running for 10 ms, and then another one is first: only a seed whose trace differs each time fails.
func TestSameSeedSameTrace(t *testing.T) {
	const times = 3
	for s := range uint64(4) {
		o := Options{Seed: 1000 + s, MiniClusters: 6, Faults: true}
		one, difference := Run(t, o), "?"
		for n := 0; n < times && difference != ""; n++ {
			other := Run(t, o)
			if difference = differ(one.Trace, other.Trace); difference != "" {
				t.Logf("seed %d: %s", o.Seed, difference)
			}
			one = other
		}
		if difference != "" {
			t.Errorf("seed %d had another trace %d times", o.Seed, times)
		}
	}
}

// differ says where two traces differ; "" if they do not.
func differ(one, other []string) string {
	if slices.Equal(one, other) {
		return ""
	}
	i := 0
	for i < min(len(one), len(other)) && one[i] == other[i] {
		i++
	}
	at := func(trace []string) string { return strings.Join(trace[i:min(i+1, len(trace))], "") }
	return fmt.Sprintf("line %d of %d is\n%s\nand then, of %d,\n%s", i, len(one), at(one), len(other), at(other))
}
