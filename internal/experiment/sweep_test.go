// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// world is a cluster in which MiniClusters live and end, and a program that is killed now and then.
type world struct {
	t       *testing.T
	random  *rand.Rand
	d       *Definition
	runs    []Run
	sweep   *Sweep
	now     time.Time
	cluster map[string]*v1alpha2.MiniCluster
	records []*Record
	// todo are the steps that the program has begun, in any order. A crash loses them.
	todo []func()
	made map[string]int
}

func newWorld(t *testing.T, seed uint64, text string) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: at(0).Time, cluster: map[string]*v1alpha2.MiniCluster{}, made: map[string]int{}}
	w.d, w.runs = read(t, text)
	w.begin()
	return w
}

// begin starts the program, which knows the records and reads the cluster.
func (w *world) begin() {
	var err error
	if w.sweep, err = NewSweep(w.d, w.runs, w.records, at(0).Time); err != nil {
		w.t.Fatal(err)
	}
	w.todo = nil
	for _, name := range slices.Sorted(maps.Keys(w.cluster)) {
		w.sweep.Seen(w.cluster[name].DeepCopy())
	}
}

// step lets the program decide. It reports whether the program is done.
func (w *world) step() bool {
	step := w.sweep.Next(w.now)
	for _, run := range step.Submit {
		w.todo = append(w.todo, func() { w.submit(run) })
	}
	for _, ending := range step.Record {
		w.todo = append(w.todo, func() {
			r := NewRecord(ending.Run, ending.MiniCluster, ending.End)
			w.records = append(w.records, r)
			w.sweep.Recorded(r)
		})
	}
	for _, name := range step.Delete {
		w.todo = append(w.todo, func() { w.remove(name) })
	}
	return step.Done
}

func (w *world) submit(run Run) {
	mc, err := w.d.MiniCluster(run)
	if err != nil {
		w.t.Fatal(err)
	}
	mc.CreationTimestamp = metav1.Time{Time: w.now}
	if w.cluster[run.Name] == nil {
		w.cluster[run.Name] = mc
		w.made[run.Name]++
	}
	w.sweep.Submitted(w.cluster[run.Name].DeepCopy())
}

func (w *world) remove(name string) {
	delete(w.cluster, name)
	w.sweep.Gone(name)
}

// live does one thing at random: a request of the program is answered, a MiniCluster goes on, or the program is killed.
func (w *world) live(crash bool) {
	w.now = w.now.Add(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	if crash && w.random.IntN(12) == 0 {
		w.begin()
		return
	}
	if n := len(w.todo); n > 0 && w.random.IntN(2) == 0 {
		i := w.random.IntN(n)
		do := w.todo[i]
		w.todo = slices.Delete(w.todo, i, i+1)
		do()
		return
	}
	names := slices.Sorted(maps.Keys(w.cluster))
	if len(names) == 0 {
		return
	}
	mc := w.cluster[names[w.random.IntN(len(names))]]
	switch {
	case mc.Status.StartTime == nil:
		mc.Status.StartTime = &metav1.Time{Time: w.now}
	case !Ended(mc):
		reason := []string{v1alpha2.StateSucceeded, v1alpha2.StateFailed}[w.random.IntN(4)/3]
		mc.Status.Conditions = []metav1.Condition{
			{Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason}, {Type: v1alpha2.ConditionReady, Reason: reason},
		}
	}
	w.sweep.Seen(mc.DeepCopy())
}

// Whatever is killed when, each run is submitted once and has one record, no MiniCluster is left, and no more are there
// at once than the limit allows.
func TestSweepLosesAndRepeatsNothing(t *testing.T) {
	for seed := range uint64(300) {
		limit := int(seed % 5)
		w := newWorld(t, seed, with(t, "repetitions: 3", fmt.Sprintf("repetitions: 3\nlimits: {atOnce: %d}", limit)))
		done := false
		for n := 0; !done && n < 5000; n++ {
			done = w.step()
			w.live(seed%2 == 1)
			live := 0
			for _, mc := range w.cluster {
				if !Ended(mc) {
					live++
				}
			}
			if limit > 0 && live > limit {
				t.Fatalf("seed %d: %d are there at once", seed, live)
			}
		}
		recorded := map[string]int{}
		for _, r := range w.records {
			recorded[r.Name]++
		}
		if !done || len(w.cluster) > 0 || len(recorded) != len(w.runs) || len(w.records) != len(w.runs) {
			t.Fatalf("seed %d: done: %t, %d are left, %d records of %d runs", seed, done, len(w.cluster), len(w.records), len(w.runs))
		}
		for name, times := range w.made {
			if times != 1 {
				t.Fatalf("seed %d: %s was submitted %d times", seed, name, times)
			}
		}
	}
}

// settle answers all requests of the program, and returns the names that were submitted.
func (w *world) settle() (submitted []string) {
	before := maps.Clone(w.made)
	for w.step(); len(w.todo) > 0; w.step() {
		do := w.todo[0]
		w.todo = w.todo[1:]
		do()
	}
	for name := range w.made {
		if before[name] == 0 {
			submitted = append(submitted, name)
		}
	}
	return submitted
}

// end ends a MiniCluster.
func (w *world) end(name, state string) {
	mc := w.cluster[name]
	mc.Status.Conditions = []metav1.Condition{{Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue, Reason: state}, {Type: v1alpha2.ConditionReady, Reason: state}}
	w.sweep.Seen(mc.DeepCopy())
}

func TestLimits(t *testing.T) {
	limited := func(limits string) *world { return newWorld(t, 1, with(t, "repetitions: 3", "limits: {"+limits+"}")) }

	w := limited("perMinute: 6")
	for _, want := range []int{1, 0, 1, 1} { // one each ten seconds
		if got := w.settle(); len(got) != want {
			t.Errorf("after %s: %v were submitted, want %d", w.now.Sub(at(0).Time), got, want)
		}
		w.now = w.now.Add(map[bool]time.Duration{true: 5 * time.Second, false: 10 * time.Second}[w.now.Equal(at(0).Time) || w.now.Equal(at(5).Time)])
	}

	w = limited("failures: 1, atOnce: 1")
	first := w.settle()
	w.end(first[0], v1alpha2.StateFailed)
	if more := w.settle(); len(more) != 0 || !w.step() || w.sweep.Next(w.now).Stopped != "1 of the runs did not succeed (limits.failures)" {
		t.Errorf("after a failure %v were submitted, and stopped is %q", more, w.sweep.Next(w.now).Stopped)
	}

	w = limited("total: 1m, atOnce: 1")
	first = w.settle()
	w.now = at(61).Time
	w.end(first[0], v1alpha2.StateSucceeded)
	if more := w.settle(); len(more) != 0 || len(w.records) != 1 || !w.step() {
		t.Errorf("after the limit %v were submitted", more)
	}

	w = limited("wait: 30s, atOnce: 1")
	first = w.settle()
	if step := w.sweep.Next(w.now); !step.Wake.Equal(at(30).Time) {
		t.Errorf("the program wakes at %s", step.Wake)
	}
	w.now = at(30).Time
	if w.settle(); len(w.records) != 1 || w.records[0].Name != first[0] || w.records[0].State != WaitLimit || w.cluster[first[0]] != nil {
		t.Errorf("%+v", w.records)
	}

	w = limited("wait: 30s, atOnce: 1")
	first = w.settle()
	w.cluster[first[0]].Status.Attempts = []v1alpha2.Attempt{{Admitted: *at(1), Started: at(5), Ended: *at(25)}} // preempted
	w.sweep.Seen(w.cluster[first[0]].DeepCopy())
	w.now = at(30).Time
	if w.settle(); len(w.records) != 0 {
		t.Errorf("a command that had started waited for too long: %+v", w.records[0])
	}
}

// A MiniCluster that somebody else deletes is recorded as deleted.
func TestDeletedByOthers(t *testing.T) {
	w := newWorld(t, 1, with(t, "repetitions: 3", "limits: {atOnce: 1}"))
	first := w.settle()
	w.remove(first[0])
	if next := w.settle(); len(next) != 1 || len(w.records) != 1 || w.records[0].State != Deleted {
		t.Errorf("%v were submitted, records %+v", next, w.records)
	}
}
