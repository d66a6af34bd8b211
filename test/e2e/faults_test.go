// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// lifeEvery is the time between two lives that begin in TestKilledAtRandom, on average.
const lifeEvery = 1500 * time.Millisecond

// faults are how long lives begin in TestKilledAtRandom, and the seed of what becomes of
// them: FAULTS_FOR (default 45s, for 30 lives) and FAULTS_SEED (default 1).
func faults(t *testing.T) (d time.Duration, seed uint64) {
	t.Helper()
	d, seed = 45*time.Second, 1
	var err error
	if text := os.Getenv("FAULTS_FOR"); text != "" {
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatalf("FAULTS_FOR: %v", err)
		}
	}
	if text := os.Getenv("FAULTS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FAULTS_SEED: %v", err)
		}
	}
	return d, seed
}

// Many MiniClusters, with every fault there is, live under a manager that is killed all the
// time, on nodes that vanish and come back. All come to their ends, nothing is done twice
// or told twice, and nothing is left over.
func TestKilledAtRandom(t *testing.T) {
	d, seed := faults(t)
	t.Logf("for %s, seed %d", d, seed)
	s := newSite(t, 40)
	s.patch(queueOf(s), `{"spec":{"backfill":"EASY","patience":"5s"}}`)
	s.priorityClass(s.namespace+"-urgent", 1000)
	before := s.inventoryAtRest()
	c := &chaos{site: s, record: s.newRecord(), urgent: s.namespace + "-urgent", kills: map[string]int{}}
	t.Cleanup(c.leadAgain)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range int(d / lifeEvery) {
		own := rand.New(rand.NewPCG(seed, uint64(i)+1))
		f := pick(own)
		c.later(seconds(r, int(d/time.Second)), func() { c.begin(fmt.Sprintf("life-%03d", i), f, own) })
	}
	nowAndThen := func(least, most int, do func()) {
		for at := seconds(r, most); at < d; at += time.Duration(least)*time.Second + seconds(r, most-least) {
			c.later(at, do)
		}
	}
	nowAndThen(6, 20, func() { c.killManager(seconds(r, 4)) })
	nowAndThen(5, 25, func() { c.loseNode(s.nodes[r.IntN(len(s.nodes))], 2*time.Second+seconds(r, 60)) })
	nowAndThen(30, 120, func() { c.killController("kube-scheduler", seconds(r, 10)) })
	nowAndThen(30, 120, func() { c.killController("kube-controller-manager", seconds(r, 10)) })
	defer func() { t.Log(c.table()) }() // whatever becomes of it
	c.live(before)
}

// Sixty-four short lives, of which some fail, some are deleted in their midst and some
// remove themselves, leave nothing once the others are deleted.
func TestNothingIsLeftOver(t *testing.T) {
	s := newSite(t, 32)
	s.patch(queueOf(s), `{"spec":{"backfill":"EASY","patience":"5s"}}`)
	before := s.inventoryAtRest()
	c := &chaos{site: s, record: s.newRecord()}
	short := []fate{
		{name: "plain", ends: []string{v1alpha2.ReasonSucceeded}},
		{name: "with services", shape: withServices, ends: []string{v1alpha2.ReasonSucceeded}},
		{name: "exit code", shape: annotated(simulator.ExitCode, "3"), ends: []string{v1alpha2.ReasonCommandFailed}},
		{name: "lead fails", shape: annotated(simulator.LeadFails, simulator.PhaseInit), ends: []string{v1alpha2.ReasonCommandFailed}},
		{name: "never starts", shape: both(annotated(simulator.CannotStart, "*"), hasty), ends: []string{v1alpha2.ReasonStartLimit}},
		{name: "deleted", shape: annotated(simulator.Runtime, "1h"), then: deleted, ends: []string{endGone}},
		{name: "deleted, foreground", shape: annotated(simulator.Runtime, "1h"), then: deletedForeground, ends: []string{endGone}},
		{name: "removed", shape: removed, ends: []string{endGone}},
	}
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 64 {
		f := &short[i%len(short)]
		c.later(seconds(r, 8), func() { c.begin(fmt.Sprintf("short-%03d", i), f, r) })
	}
	c.live(before)
}

// The API server and the controllers beside it die and come back a while later, with MiniClusters
// in every state of life: all go on, and end as they would have. Where the API server alone comes
// back, the garbage collector may ask which kinds there are before the API server knows all. It then
// misses deletions, and leaves pods whose Job is gone.
func TestControlPlaneAway(t *testing.T) {
	s := newSite(t, 16)
	record := s.newRecord()
	reach := func(name string, shape func(w *fixture.MiniClusterWrapper), states ...string) *v1alpha2.MiniCluster {
		w := s.miniCluster(name).Size(2)
		shape(w)
		mc := s.create(w)
		s.awaitState(mc, states...)
		return mc
	}
	// Each MiniCluster stays in its state until the test ends the state. Only a pause, a deadline and
	// a drain end by themselves. On a busy machine they may end too early: then the same is told.
	running := reach("running", func(w *fixture.MiniClusterWrapper) { w.PodAnnotation(simulator.Runtime, untilTold) }, v1alpha2.StateRunning)
	endsMeanwhile := reach("ends-meanwhile", func(w *fixture.MiniClusterWrapper) { w.PodAnnotation(simulator.Runtime, "1h") }, v1alpha2.StateRunning)
	draining := reach("draining", func(w *fixture.MiniClusterWrapper) {
		w.Size(4).MinSize(1).Launcher().PodAnnotation(simulator.Runtime, untilTold).PodAnnotation(simulator.Busy, "5s")
	}, v1alpha2.StateRunning)
	starting := reach("starting", func(w *fixture.MiniClusterWrapper) { w.PodAnnotation(simulator.NeverStart, "1") }, v1alpha2.StateStarting)
	backingOff := reach("backing-off", func(w *fixture.MiniClusterWrapper) {
		w.PodAnnotation(simulator.NeverStart, "1").Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("2s"), duration("4s")
			spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("20s")}
		})
	}, v1alpha2.StateBackingOff, v1alpha2.StateFailed)
	queued := reach("queued", func(w *fixture.MiniClusterWrapper) { w.Size(12) }, v1alpha2.StateQueued)
	deleted := reach("deleted", func(w *fixture.MiniClusterWrapper) { w.Queue("default").PodAnnotation(simulator.Runtime, "1h") }, v1alpha2.StateRunning)
	ending := reach("ending", func(w *fixture.MiniClusterWrapper) { w.Queue("default").PodAnnotation(simulator.Runtime, "100ms") }, v1alpha2.StateSucceeded)
	ran := wallClock.Since(endsMeanwhile.Status.StartTime.Time)
	s.patch(endsMeanwhile, `{"spec":{"deadlineSeconds":%d}}`, (ran+8*time.Second)/time.Second)
	s.patch(draining, `{"spec":{"size":2}}`)
	record.await(s, draining, "draining", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && mc.Status.Admission.Drain != nil
	})
	s.awaitSeen(deleted)
	env.watch.ignoreNew(deleted)
	s.delete(deleted)
	controlPlane := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	for _, name := range controlPlane {
		if err := env.cluster.Kill(s.ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	<-wallClock.After(15 * time.Second)
	for _, name := range controlPlane {
		if err := env.cluster.Start(s.ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	lived := func(mc *v1alpha2.MiniCluster, runs int, told ...string) {
		t.Helper()
		s.awaitTold(mc, told...)
		eventually(t, func() error { // the record may not have heard from the API server again
			if n := record.runsOf(mc.UID); n != runs {
				return fmt.Errorf("%s: the command began %d times", mc.Name, n)
			}
			return nil
		})
	}
	s.endCommand(running)
	s.letStart(starting, 1)
	s.await(draining, "smaller", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission.Vacated != "" })
	s.endCommand(draining)
	for _, mc := range []*v1alpha2.MiniCluster{ending, running, starting, queued} {
		s.awaitSuccess(mc)
		lived(mc, 1, "Admitted", "Started", v1alpha2.ReasonSucceeded)
	}
	s.awaitSuccess(draining)
	lived(draining, 1, "Admitted", "Started", "Draining", "Vacated", v1alpha2.ReasonSucceeded)
	s.awaitState(endsMeanwhile, v1alpha2.StateFailed)
	lived(endsMeanwhile, 1, "Admitted", "Started", v1alpha2.ReasonDeadlineExceeded)
	s.awaitState(backingOff, v1alpha2.StateFailed)
	lived(backingOff, 0, "Admitted", "GaveUp", "Admitted", v1alpha2.ReasonStartLimit)
	s.awaitGone(deleted)
}

// awaitTold waits until a MiniCluster's decisions are told, each by one event.
func (s *site) awaitTold(mc *v1alpha2.MiniCluster, want ...string) {
	s.t.Helper()
	eventually(s.t, func() error {
		var list eventsv1.EventList
		if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		var told []string
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.UID == mc.UID && e.Action == "Decide" {
				told = append(told, e.Reason)
			}
		}
		if !slices.Equal(told, want) {
			return fmt.Errorf("%s: %v was told, want %v", mc.Name, told, want)
		}
		return nil
	})
}

// Somebody else writes to all that MiniClusters are made of, all the time, and deletes what
// waits behind its gate: that delays them, and does no other harm.
func TestConflictingWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t, 8) // some wait
	record := s.newRecord()
	var all []*v1alpha2.MiniCluster
	for i := range 12 {
		w := s.miniCluster(fmt.Sprintf("life-%02d", i)).Size(int32(1+i%5)).PodAnnotation(simulator.Runtime, "5s").
			Spec(func(spec *v1alpha2.MiniClusterSpec) {
				spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(20)), BackoffBase: duration("1s"), BackoffMax: duration("1s")}
			})
		if i%3 == 0 {
			w.Launcher().MinSize(1).MaxSize(6).Grow()
		}
		all = append(all, s.create(w))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := map[string]int{}
	ended := make(chan *meddler)
	const meddlers = 3
	for i := range meddlers {
		m := &meddler{site: s, random: rand.New(rand.NewPCG(1, uint64(i))), done: map[string]int{}}
		go func() {
			m.meddle(ctx)
			ended <- m
		}()
	}
	for _, mc := range all {
		s.awaitSuccess(mc)
	}
	cancel()
	for range meddlers {
		m := <-ended
		if m.err != nil {
			t.Error(m.err)
		}
		for what, n := range m.done {
			done[what] += n
		}
	}
	t.Logf("somebody else did: %s", counted(done))
	record.check(s)
	for _, mc := range all {
		if n := record.runsOf(mc.UID); n != 1 {
			t.Errorf("%s: the command began %d times", mc.Name, n)
		}
	}
}

func queueOf(s *site) client.Object {
	queue := &v1alpha2.MiniClusterQueue{}
	queue.Name = s.namespace
	return queue
}

// removeAll deletes the MiniClusters that are left.
func (s *site) removeAll() {
	s.t.Helper()
	if err := env.client.DeleteAllOf(s.ctx, &v1alpha2.MiniCluster{}, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
}

// inventoryAtRest takes the inventory once the cluster has made what is in every namespace.
func (s *site) inventoryAtRest() inventory {
	s.t.Helper()
	eventually(s.t, func() error {
		certificate := client.ObjectKey{Namespace: s.namespace, Name: "kube-root-ca.crt"}
		return env.client.Get(s.ctx, certificate, &corev1.ConfigMap{})
	})
	all, err := s.takeInventory()
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
