// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// world is one MiniCluster, its Workload, Kueue, and users. Kueue does what Kueue 0.19 does, and the
// MiniCluster what the controller does with the answers of this package, both at random speed.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	log    []string
	quiet  bool // nothing goes wrong any more
	counts map[string]int

	wl      *kueueapi.Workload // at the API server
	view    *kueueapi.Workload // in the controller's cache
	version int
	// The version that the controller wrote last, and that of its cache.
	written, viewed int

	// Kueue and its cluster.
	ours, others bool // the queue has an admission check of this project, and one of others
	stopped      bool // the queue is
	down         bool // Kueue is
	gone         bool // the nodes are

	// The MiniCluster.
	mc        *v1alpha2.MiniCluster
	cpu       string
	class     string            // of the priority
	deadlines elastic.Deadlines // of the queue
	rejected  bool
	away      bool         // the controller is
	asked     string       // what the pods of the admission request
	limit     int32        // seconds that the admission may take at most
	members   map[int]bool // ranks that hold a node by the record
	placed    map[int]bool // ranks whose pods are on a node
	notBefore time.Time
	finished  string
	lasts     int // steps until the command ends
	made      *kueueapi.Workload
	madeOf    string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 17)), now: fixture.Noon, cpu: "8", counts: map[string]int{},
		ours: seed%2 == 0, others: seed%3 == 0, placed: map[int]bool{},
	}
	size := int32(1 + seed%6)
	mc := fixture.MiniCluster("lmp").Size(size).MinSize(1 + int32(w.random.IntN(int(size))))
	mc.Spec(func(s *v1alpha2.MiniClusterSpec) { s.Elastic.StartTimeout = &metav1.Duration{Duration: time.Minute} })
	w.mc = mc.Defaulted()
	w.mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
	return w
}

func (w *world) chance(oneIn int) bool { return w.random.IntN(oneIn) == 0 }

// fault is a chance that there is while things go wrong.
func (w *world) fault(oneIn int) bool { return !w.quiet && w.chance(oneIn) }

func (w *world) says(format string, args ...any) {
	w.log = append(w.log, w.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format+"\nWorkload %+v", append(args, w.wl)...)
}

// users edit, suspend and delete things.
func (w *world) users() {
	waits := w.mc.Status.Admission == nil
	switch {
	case w.finished != "":
	case w.quiet:
		w.rejected = false
		inactive := w.wl != nil && !ptr.Deref(w.wl.Spec.Active, true) && w.wl.Annotations[suspendedAnnotation]+w.wl.Annotations[neverFitsAnnotation] == ""
		w.mc.Spec.Suspend = inactive // the way to begin anew
	case w.chance(60):
		w.mc.Spec.Suspend = !w.mc.Spec.Suspend
	case waits && w.chance(13):
		w.edit()
	case w.wl != nil && w.chance(150):
		w.says("a user deletes the Workload")
		w.counts["deleted"]++
		next := w.wl.DeepCopy()
		next.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.store(next)
	}
	if w.quiet && w.mc.Labels[v1alpha2.KueueQueueLabel] == "" {
		w.mc.Labels[v1alpha2.KueueQueueLabel] = "team"
	}
}

// edit changes something of a MiniCluster that waits.
func (w *world) edit() {
	switch w.random.IntN(5) {
	case 0:
		w.cpu = []string{"8", "4"}[w.random.IntN(2)]
	case 1:
		w.mc.Labels[v1alpha2.KueueQueueLabel] = []string{"team", "other", "team", ""}[w.random.IntN(4)]
	case 2:
		w.class = []string{"", "high", "low"}[w.random.IntN(3)]
	case 3:
		w.rejected = !w.rejected
	case 4:
		w.deadlines = []elastic.Deadlines{{}, {Default: time.Minute}, {Default: time.Hour, Max: 2 * time.Hour}}[w.random.IntN(3)]
		w.counts["deadlines"]++
	}
}

// input is what the controller knows.
func (w *world) input() Input {
	ranks := maps.Clone(w.placed)
	if w.finished == "" {
		maps.Copy(ranks, w.members)
	}
	in := Input{
		MiniCluster: w.mc, Uses: Uses(w.mc), Rejected: w.rejected, Ranks: slices.Sorted(maps.Keys(ranks)), Finished: w.finished,
		NotBefore: w.notBefore, Cluster: cluster, Now: w.now,
	}
	if in.Uses && !w.rejected && w.finished == "" && w.mc.Status.Admission == nil {
		in.Want = w.want()
	}
	return in
}

// want is the Workload as it would be made now. The last one is remembered, because it takes long.
func (w *world) want() *kueueapi.Workload {
	var class *kueueapi.WorkloadPriorityClass
	if w.class != "" {
		class = &kueueapi.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.class}, Value: int32(len(w.class))}
	}
	key := w.cpu + w.class + w.mc.Labels[v1alpha2.KueueQueueLabel] + w.deadlines.Default.String()
	if w.made == nil || w.madeOf != key {
		w.made, w.madeOf = Workload(w.mc, fixture.Pod("x").CPU(w.cpu).Obj(), class, nil, w.deadlines), key
	}
	return w.made
}

// pass is a pass of the controller, which may be killed between any two writes.
func (w *world) pass() {
	w.t.Helper()
	if !w.fault(3) || w.written > w.viewed { // the cache may be late, and never goes back; a pass waits for its own writes
		w.view, w.viewed = w.wl.DeepCopy(), w.version
	}
	in := w.input()
	grant := Read(w.view, in)
	waits := w.mc.Status.Admission == nil && w.finished == "" && len(w.placed) == 0 && !w.mc.Spec.Suspend && !w.rejected && !w.now.Before(w.notBefore)
	size := 0
	switch {
	case !waits || !in.Uses: // one that does not use Kueue waits elsewhere
	case !grant.Placeable:
		in.Offer = elastic.Offer{Verdict: elastic.WaitingForQuota, Message: grant.Message}
	case w.gone:
		in.Offer = elastic.Offer{Verdict: elastic.NeverFits, Message: "too large"}
	case w.fault(2):
		in.Offer = elastic.Offer{Verdict: elastic.NoRoom, Message: "no room"}
	default:
		least := int(w.mc.Spec.MinSize)
		if size = int(grant.Quota.Size); size < least {
			w.fail("quota for %d of at least %d", size, least)
		}
		size = least + w.random.IntN(size-least+1)
		in.Offer = elastic.Offer{Verdict: elastic.Admitted}
	}
	if !w.tell(in) || w.fault(8) {
		return // refused, or killed
	}
	w.carryOut(in, grant, size)
}

// tell makes the next write to the Workload.
func (w *world) tell(in Input) (done bool) {
	w.t.Helper()
	if !w.chance(10) {
		write, next := Next(w.view, in)
		if write == Patch && !restsUntil(w.view).IsZero() && *next.Spec.Active {
			w.counts["has rested"]++
		}
		return write == Nothing || w.write(w.view, write, next)
	}
	before := w.view.DeepCopy()
	write, next := Next(w.view, in)
	if again, same := Next(w.view, in); again != write || !equality.Semantic.DeepEqual(same, next) || !equality.Semantic.DeepEqual(before, w.view) {
		w.fail("another answer the second time: %d and %d", write, again)
	}
	return write == Nothing || w.write(w.view, write, next)
}

// carryOut is what the controller does with its plan.
func (w *world) carryOut(in Input, grant Grant, size int) {
	admission := w.mc.Status.Admission
	switch {
	case w.finished != "":
	case admission == nil && size > 0:
		w.members = map[int]bool{}
		for rank := range size {
			w.members[rank] = true
		}
		w.lasts = 10 + w.random.IntN(30)
		w.mc.Status.Admission = &v1alpha2.Admission{Size: int32(size), Quota: grant.Quota, Time: metav1.NewTime(w.now)}
		w.asked, w.limit = w.cpu, ptr.Deref(in.Want.Spec.MaximumExecutionTimeSeconds, math.MaxInt32)
		w.says("gets %d nodes", size)
	case admission == nil:
	case w.mc.Spec.Suspend, grant.State == life.QuotaMissing:
		w.says("gives its nodes back: %s", grant.Message)
		w.end()
	case w.fault(60):
		w.says("gives up")
		w.end()
		w.notBefore = w.now.Add(30 * time.Second)
	case w.fault(40):
		w.says("withdraws")
		w.end()
	case grant.State == life.QuotaReserved:
		if in.Now.After(admission.Time.Add(time.Minute)) {
			w.end()
		}
	case len(w.placed) < len(w.members):
		for rank := range w.members {
			w.placed[rank] = true
			if w.chance(2) {
				break
			}
		}
	case w.mc.Status.StartTime == nil:
		w.mc.Status.StartTime = &metav1.Time{Time: w.now}
	default:
		w.runs()
	}
}

// runs lets the command go on: it may lose a rank, and ends.
func (w *world) runs() {
	w.lasts--
	switch {
	case w.lasts <= 0:
		w.finished = []string{kueueapi.WorkloadFinishedReasonSucceeded, kueueapi.WorkloadFinishedReasonFailed}[w.random.IntN(2)]
		w.says("ends: %s", w.finished)
	case len(w.members) > 1 && w.fault(20): // its broker leaves
		rank := slices.Max(slices.Collect(maps.Keys(w.members)))
		delete(w.members, rank)
		delete(w.placed, rank)
	}
}

// end ends the admission. The pods go one after the other.
func (w *world) end() { w.mc.Status.Admission, w.mc.Status.StartTime, w.members = nil, nil, nil }

// check is what must hold always.
func (w *world) check() {
	w.t.Helper()
	if len(w.placed) > 0 && w.wl != nil {
		counted := w.wl.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests.Cpu().String()
		if counted != w.asked {
			w.fail("pods with %s cores run on quota for %s", w.asked, counted)
		}
		if most := ptr.Deref(w.wl.Spec.MaximumExecutionTimeSeconds, math.MaxInt32); most < w.limit {
			w.fail("Kueue ends what may take %d s after %d s", w.limit, most)
		}
	}
	pods := map[kueueapi.PodSetReference]int{}
	for rank := range w.placed {
		if rank == 0 {
			pods[lead]++
		} else {
			pods[workers]++
		}
	}
	for name, n := range pods {
		if n > usage(w.wl, name) {
			w.fail("%d pods of %s run on quota for %d", n, name, usage(w.wl, name))
		}
	}
}

// settles asserts that writes come to an end while nothing else happens.
func (w *world) settles() {
	w.t.Helper()
	in, wl := w.input(), w.wl.DeepCopy()
	for range 8 {
		write, next := Next(wl, in)
		switch {
		case write == Nothing:
			return
		case write == Delete:
			wl = next.DeepCopy()
			wl.DeletionTimestamp = &metav1.Time{Time: w.now}
		case next.DeletionTimestamp != nil && len(next.Finalizers) == 0:
			wl = nil
		default:
			wl = next
		}
	}
	w.fail("writes do not end")
}

func (w *world) step() {
	w.t.Helper()
	w.now = w.now.Add(time.Duration(1+w.random.IntN(4)) * time.Second)
	if at := LookAgain(w.wl, w.input()); at.After(w.now) && w.chance(5) { // pauses are long
		w.now = at
	}
	if w.gone = w.gone != w.fault(50); w.quiet {
		w.gone = false
	}
	w.users()
	for range w.random.IntN(3) {
		w.kueue()
		w.check()
	}
	ending := w.mc.Status.Admission == nil || w.finished != ""
	for rank := range w.placed {
		if ending && w.chance(3) {
			delete(w.placed, rank)
		}
	}
	if w.fault(60) || w.mc.Status.Admission != nil && len(w.placed) == 0 && w.fault(4) {
		w.away = true
	}
	if w.away = w.away && !w.quiet && !w.chance(30); !w.away {
		w.pass()
	}
	w.check()
	if w.chance(10) {
		w.settles()
	}
}

// Nothing runs without quota, quota is given back when nothing runs on it, every write passes
// Kueue's webhook, and each life comes to an end.
func TestLives(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(400) {
		w := newWorld(t, seed)
		steps := 0
		for over := false; !over; steps++ {
			w.quiet = steps > 250
			w.step()
			over = w.finished != "" && len(w.placed) == 0 && (w.wl == nil || w.wl.DeletionTimestamp == nil && len(w.wl.Finalizers) == 0)
			if steps > 2000 {
				w.fail("seed %d does not end", seed)
			}
		}
		if w.wl != nil && !isTrue(w.wl, kueueapi.WorkloadFinished) {
			w.fail("seed %d: the Workload is not finished", seed)
		}
		if write, _ := Next(w.wl, w.input()); write != Nothing {
			w.fail("seed %d: write %d after the end", seed, write)
		}
		for what, n := range w.counts {
			counts[what] += n
		}
	}
	for _, what := range []string{
		"write 1", "write 2", "write 3", "write 4", "conflict", "admitted", "partial", "has rested", "taken", "deleted", "deadlines",
		kueueapi.WorkloadEvictedByPreemption, kueueapi.WorkloadEvictedByAdmissionCheck, kueueapi.WorkloadEvictedByLocalQueueStopped, kueueapi.WorkloadDeactivated,
	} {
		if counts[what] < 10 {
			t.Errorf("%q happened %d times", what, counts[what])
		}
	}
}
