// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// counted is a room that counts what it is asked about nodes.
type counted struct {
	queue.Room
	asked *int
}

func (c counted) Place(id string, sizes []int) []string {
	*c.asked++
	return c.Room.Place(id, sizes)
}

func (c counted) Fits(id string, limit int) int {
	*c.asked++
	return c.Room.Fits(id, limit)
}

func (c counted) FitsApart(id string, limit int) int {
	*c.asked++
	return c.Room.FitsApart(id, limit)
}

func (c counted) CouldHold(id string, sizes []int) bool {
	*c.asked++
	return c.Room.CouldHold(id, sizes)
}

func (c counted) CouldHoldBeside(id string, sizes []int, others []string) bool {
	*c.asked++
	return c.Room.CouldHoldBeside(id, sizes, others)
}

func (c counted) Why(id string, sizes []int) string {
	*c.asked++
	return c.Room.Why(id, sizes)
}

func (c counted) With(name string, nodes []int) queue.Room {
	return counted{c.Room.With(name, nodes), c.asked}
}
func (c counted) Snapshot() queue.Room { return counted{c.Room.Snapshot(), c.asked} }

// shape is one of many MiniClusters of a tenant.
type shape func(i int, w *fixture.MiniClusterWrapper)

// noise are MiniClusters that never start, by what they lack.
var noise = map[string]shape{
	"nodes":            func(_ int, w *fixture.MiniClusterWrapper) { w.Size(1000) },
	"nodes, each more": func(i int, w *fixture.MiniClusterWrapper) { w.Size(int32(1000 + i)) },
	"CPUs, each more":  func(i int, w *fixture.MiniClusterWrapper) { w.CPU(fmt.Sprint(9 + i)) },
	"a label of their own": func(i int, w *fixture.MiniClusterWrapper) {
		w.Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Pod.NodeSelector = map[string]string{"no": fmt.Sprint("node-", i)}
		})
	},
}

// cost is what a cycle costs: questions about nodes, and bytes.
type cost struct{ asked, bytes uint64 }

// costOf runs a cycle in which so many MiniClusters of a tenant wait before the gang of another tenant, which starts.
func costOf(t *testing.T, waiting int, form shape) cost {
	t.Helper()
	l, snapshot, asks := ledger.New(nil, nil), queue.Snapshot{Queues: []queue.Queue{state.Queue(fixture.Queue("default").Obj())}}, map[string]state.Ask{}
	for i := range 64 {
		l.SetNode(fixture.Node(fmt.Sprint("node-", i)).Obj())
	}
	wait := func(mc *v1alpha2.MiniCluster) {
		pod := podOf(t, mc)
		ask, gang := state.Request(mc, pod, nil, nil), state.Gang(mc, pod, nil)
		gang.Requests = l.Counts(ask)
		gang.Class += l.Class(&ask)
		asks[gang.ID] = ask
		snapshot.Waiting = append(snapshot.Waiting, gang)
	}
	for i := range waiting {
		w := fixture.MiniCluster(fmt.Sprint("noise-", i)).In("noisy").CPU("1").Created(fixture.Noon.Add(-time.Hour))
		form(i, w)
		wait(w.Defaulted())
	}
	quiet := fixture.MiniCluster("quiet").In("research").CPU("8").Size(4).Created(fixture.Noon).Defaulted()
	wait(quiet)
	snapshot.Total, snapshot.Foreign = l.Total(), l.Foreign()
	var result queue.Result
	asked := 0
	bytes := allocated(func() {
		room, err := l.Room(func(id string) (state.Ask, bool) { ask, ok := asks[id]; return ask, ok })
		if err != nil {
			t.Fatal(err)
		}
		result = queue.Schedule(snapshot, counted{room, &asked}, fixture.Noon)
	})
	i := slices.IndexFunc(result.Decisions, func(d queue.Decision) bool { return d.Gang == string(quiet.UID) })
	if d := result.Decisions[i]; d.Verdict != elastic.Admitted || len(d.Nodes) != 4 {
		t.Errorf("the gang of the other tenant is %s: %s", d.Verdict, d.Message)
	}
	if admitted := admittedPods(result); admitted != 4 {
		t.Errorf("%d pods start", admitted)
	}
	return cost{uint64(asked), bytes}
}

// A tenant's MiniClusters that wait for ever do not keep the gang of another tenant from its nodes. Each costs a cycle no more
// than two questions and a few KiB, however many there are.
func TestNoiseThatWaits(t *testing.T) {
	const few, many, each = 500, 2000, 6 << 10
	for name, form := range noise {
		t.Run(name, func(t *testing.T) {
			for _, waiting := range []int{few, many} {
				c, n := costOf(t, waiting, form), uint64(waiting)
				t.Logf("%d wait: %d questions, %d KiB", n, c.asked, c.bytes>>10)
				if c.asked > 2*n+10 || c.bytes > n*each+mebibyte {
					t.Errorf("a cycle with %d that wait asks %d questions, and takes %d KiB", n, c.asked, c.bytes>>10)
				}
			}
		})
	}
}

// 100,000 pods of a tenant that claim to be brokers of another tenant's MiniCluster take no node, and little memory beside the
// cache.
func TestNoiseOfPods(t *testing.T) {
	const pods, each = 100_000, 512
	l := ledger.New(nil, nil)
	for i := range 64 {
		l.SetNode(fixture.Node(fmt.Sprint("node-", i)).Obj())
	}
	free := l.Total()
	quiet := fixture.MiniCluster("quiet").In("research").CPU("8").Size(4).Defaulted()
	l.SetMiniCluster(quiet)
	all := make([]*corev1.Pod, pods)
	for i := range all {
		pod := fixture.BrokerPod("quiet", i%1000).In("noisy").Named(fmt.Sprint("noise-", i)).CPU("8").Pinned(fmt.Sprint("node-", i%64)).Label(v1alpha2.UIDLabel, string(quiet.UID)).Obj()
		pod.UID = types.UID(pod.Name)
		all[i] = pod // as the cache has it
	}
	before := live()
	spent := allocated(func() {
		for _, pod := range all {
			l.SetPod(pod)
		}
	})
	kept := live() - before
	runtime.KeepAlive(all)
	t.Logf("%d pods: the ledger keeps %d bytes of each, and allocates %d", pods, kept/pods, spent/pods)
	if kept > pods*each || spent > 2*pods*each {
		t.Errorf("the ledger keeps %d bytes, and allocates %d", kept, spent)
	}
	if held := l.Holds(quiet.UID); len(held) > 0 || fmt.Sprint(l.Total()) != fmt.Sprint(free) {
		t.Errorf("the pods hold the ranks %v", held)
	}
	ask := state.Request(quiet, podOf(t, quiet), nil, nil)
	room, err := l.Room(func(string) (state.Ask, bool) { return ask, true })
	if err != nil {
		t.Fatal(err)
	}
	if fits := room.Fits(string(quiet.UID), 100); fits != 64 {
		t.Errorf("%d of 64 nodes are free", fits)
	}
}
