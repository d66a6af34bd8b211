// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// edits are random changes of all that a cycle reads. Only a change gives an object another version.
type edits struct {
	*toy
	random *rand.Rand
	made   int
}

// What a scheduler kept from earlier cycles never shows: its snapshot is that of a scheduler that reads all anew.
func TestSnapshotsAreFresh(t *testing.T) {
	gangs := 0
	for seed := range uint64(12) {
		names := make([]string, 12)
		for i := range names {
			names[i] = fmt.Sprintf("n%02d", i)
		}
		w := &edits{toy: newQueue(t, names...), random: rand.New(rand.NewPCG(seed, 7))}
		for range 150 {
			w.now = w.now.Add(time.Duration(w.random.IntN(20)) * time.Second)
			what := w.edit()
			w.seen.quotas = quota.New(w.quotas)
			other, seen := w.anew(), w.seen
			got, fresh := w.look(w.Scheduler, &w.seen), w.look(other, &seen)
			if !slices.Equal(got, fresh) {
				t.Fatalf("seed %d: after %s a cycle sees\n%s\nand afresh\n%s", seed, what, strings.Join(got, "\n"), strings.Join(fresh, "\n"))
			}
			gangs += len(got)
			w.seen.quotas = quota.New(w.quotas)
			if _, err := w.Scheduler.cycle(t.Context(), &w.seen, w.now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if t.Logf("%d gangs were seen", gangs); gangs < 10000 {
		t.Error("too few gangs were seen")
	}
}

// look is the snapshot of a scheduler in lines, in an order that does not depend on its past.
func (w *edits) look(s *Scheduler, seen *clusterState) (lines []string) {
	w.t.Helper()
	out := newCycle(s.parts, seen, w.now)
	if _, err := out.observe(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	room, err := out.look()
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range out.Waiting {
		id := out.Waiting[i].ID
		lines = append(lines, fmt.Sprintf("waits: %+v; %d fit; %s", out.Waiting[i], room.Fits(id, 100), room.Why(id, []int{3})))
	}
	slices.Sort(lines)
	for i := range out.Running {
		lines = append(lines, fmt.Sprintf("runs: %+v; %v", out.Running[i], room.Snapshot().Grow(out.Running[i].ID, 3)))
	}
	return append(lines, fmt.Sprintf("%+v %v %v %v %v", out.Queues, out.Total, out.Foreign, out.Settles, out.lookAgain))
}

// anew is a scheduler that knows what this one was told, and has read nothing.
func (w *edits) anew() *Scheduler {
	s := New(nil, clock.RealClock{}, nil, nil)
	s.ledger, s.line.ledger, s.catalog.ledger = w.ledger, w.ledger, w.ledger
	s.line.checked, s.line.unchecked = w.line.checked, w.line.unchecked
	s.catalog.repairs, s.usage, s.reservations = w.catalog.repairs, maps.Clone(w.usage), w.reservations
	s.catalog.pods, s.catalog.limits, s.leaving = maps.Clone(w.catalog.pods), maps.Clone(w.catalog.limits), maps.Clone(w.leaving)
	for uid, k := range w.catalog.known {
		if !slices.ContainsFunc(w.seen.miniClusters, func(mc *v1alpha2.MiniCluster) bool { return mc.UID == uid }) {
			gone := *k
			s.catalog.known[uid] = &gone
		}
	}
	for name, e := range w.line.entries {
		told := &entry{miniCluster: e.miniCluster, pod: e.pod, quota: e.quota, refusal: refusal{refused: e.refused}}
		s.line.enter(told)
		told = s.line.entries[name]
		told.moveTo(e.queue)
		told.decision, told.gang.Blocked = e.decision, e.gang.Blocked
		if w.ledger.Assumed(e.miniCluster.UID) { // its limits are those of its admission
			told.gang, told.ask = e.gang, e.ask
		}
		if e.before != nil {
			before := *e.before
			told.before = &before
		}
	}
	return s
}

// edit changes one thing, and says what.
func (w *edits) edit() string {
	if n := len(w.seen.miniClusters); n < 4 || n < 14 && w.random.IntN(3) == 0 {
		return "one more, " + w.come()
	}
	i := w.random.IntN(len(w.seen.miniClusters))
	mc := w.seen.miniClusters[i].DeepCopy()
	switch w.random.IntN(16) {
	case 0:
		return w.editQueue()
	case 1:
		w.ledger.SetNode(fixture.Node("n00").Label("made", strconv.Itoa(w.random.IntN(3))).Obj())
		return "another node"
	case 2:
		w.quotas = []*corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "pods", Namespace: fixture.Namespace}}}
		w.quotas = w.quotas[:w.random.IntN(2)]
		return "another quota"
	case 3:
		w.seen.miniClusters = slices.Delete(w.seen.miniClusters, i, i+1)
		if w.random.IntN(2) == 0 {
			w.Forget(client.ObjectKeyFromObject(mc))
		}
		return mc.Name + " gone"
	case 4:
		w.Scheduler.Order(mc, wholeNode.DeepCopy(), nil, new(w.random.IntN(8)))
		return mc.Name + " limited"
	case 5:
		if e := w.line.entries[client.ObjectKeyFromObject(mc)]; e != nil && !w.ledger.Assumed(mc.UID) {
			e.moveTo([]string{"default", "other"}[w.random.IntN(2)])
		}
		return mc.Name + " in another queue"
	case 6:
		w.Forget(client.ObjectKeyFromObject(mc))
		return mc.Name + " forgotten"
	}
	return w.change(i, mc)
}

// come makes a MiniCluster, which may not be offered yet.
func (w *edits) come() string {
	w.made++
	mc := fixture.MiniCluster(fmt.Sprint("mc", w.made)).Size(int32(2 + w.random.IntN(4))).MinSize(1).Created(w.now).CPU("8").Queue([]string{"default", "other"}[w.random.IntN(2)])
	if w.random.IntN(2) == 0 {
		mc.Deadline(int64(60 + w.random.IntN(600)))
	}
	if w.random.IntN(2) == 0 {
		mc.Launcher().MaxSize(8).Grow().Status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime = &metav1.Time{Time: w.now} })
	}
	waits := w.random.IntN(6) > 0
	if !waits { // it came before the scheduler
		mc.Admitted(1, 2, "n10,n11")
	}
	obj := mc.Obj()
	w.seen.miniClusters = append(w.seen.miniClusters, w.newer(obj))
	if waits && w.random.IntN(4) > 0 {
		w.offerNow(obj)
	}
	return obj.Name
}

// newer gives an object that has changed another version.
func (w *edits) newer(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	w.version++
	mc.ResourceVersion = strconv.Itoa(w.version)
	return mc
}

// offerNow offers a MiniCluster with one of some pods, with or without quota.
func (w *edits) offerNow(mc *v1alpha2.MiniCluster) {
	mc = mc.DeepCopy()
	mc.Default()
	switch pod := []*corev1.Pod{wholeNode, anywhere, alone, wholeNode.DeepCopy()}[w.random.IntN(4)]; w.random.IntN(6) {
	case 0:
		w.Skip(mc)
	case 1:
		w.Offer(mc, pod, nil, &v1alpha2.Quota{Size: int32(1 + w.random.IntN(5)), Time: metav1.NewTime(fixture.Noon)})
	case 2:
		w.Refused(mc, pod, "a quota")
	default:
		w.Offer(mc, pod, nil, nil)
	}
}

// change changes a MiniCluster. One that was given nodes takes them, and one that has some may end.
func (w *edits) change(i int, mc *v1alpha2.MiniCluster) string {
	what := "edited"
	switch n := w.random.IntN(6); {
	case n == 0:
		mc.Labels = map[string]string{"team": strconv.Itoa(w.random.IntN(3))}
	case n == 1:
		mc.Spec.Size, mc.Generation = int32(2+w.random.IntN(4)), mc.Generation+1
	case n == 2 && mc.DeletionTimestamp == nil:
		mc.DeletionTimestamp = &metav1.Time{Time: w.now}
	case mc.Status.Admission != nil:
		what = "done"
		meta := metav1.Condition{Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue}
		mc.Status.Conditions, mc.Status.Admission = []metav1.Condition{meta}, nil
		w.Skip(mc)
	case w.ledger.Assumed(mc.UID):
		what = "admitted"
		nodes := w.ledger.Promised(mc.UID).Nodes
		shown := fixture.MiniCluster(mc.Name).Admitted(1, int32(len(nodes)), hostlist.Encode(nodes)).Obj()
		e := w.line.entries[client.ObjectKeyFromObject(mc)]
		mc.Status.Admission, mc.Status.Queue = shown.Status.Admission, e.queue
		mc.Status.Admission.Quota = e.quota
	default:
		w.offerNow(mc)
		return mc.Name + " offered"
	}
	w.seen.miniClusters[i] = w.newer(mc)
	return mc.Name + " " + what
}

// editQueue changes a queue, or what is reserved.
func (w *edits) editQueue() string {
	q := fixture.Queue([]string{"default", "other"}[w.random.IntN(2)])
	switch w.random.IntN(5) {
	case 0:
		q.Deadlines(time.Duration(w.random.IntN(3))*time.Minute, 5*time.Minute)
	case 1:
		q.Requeue(v1alpha2.RequeueLast)
	case 2:
		q.Users(v1alpha2.QueueUsers{Label: "team", HalfLife: &metav1.Duration{Duration: time.Hour}})
	case 3:
		w.seen.reservations = []*v1alpha2.MiniClusterReservation{{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: types.UID("r")}, Spec: v1alpha2.MiniClusterReservationSpec{
			NodeNames: []string{"n01", "n02"}, From: metav1.NewTime(w.now.Add(5 * time.Minute)), Until: metav1.NewTime(w.now.Add(time.Hour)),
		}}}
		w.seen.reservations = w.seen.reservations[:w.random.IntN(2)]
		return "another reservation"
	}
	w.seen.queues = slices.DeleteFunc(w.seen.queues, func(other *v1alpha2.MiniClusterQueue) bool { return other.Name == q.Obj().Name })
	w.seen.queues = append(w.seen.queues, q.Obj())
	return "another queue " + q.Obj().Name
}
