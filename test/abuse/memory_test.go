// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package abuse tests what hostile specs cost the manager, and what they get from it.
package abuse

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

const mebibyte = 1 << 20

// allocated is how much memory a function takes, in bytes, even if none is ever freed. So it takes no more at any
// moment, whatever the garbage collector does.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// mostBrokers is the default of --max-brokers.
const mostBrokers = 10_000

// hostile are small specs that ask for a lot. Each may be refused, with an error that has some text.
var hostile = map[string]struct {
	mc     *fixture.MiniClusterWrapper
	refuse string
}{
	"a host list of a million": {mc: listed("lmp-0-0-0,y[0-999998]")},
	"a host list of billions":  {mc: listed("lmp-0-0-0,y[0-999999999999]"), refuse: "more than 1000000 hosts"},
	"a host twice in a large list": {
		mc: listed("lmp-0-0-0,y[0-899998],y89999[7]"), refuse: "has y899997 twice",
	},
	"a list of long names":    {mc: listed("lmp-0-0-0," + strings.Repeat("7", 30_000) + "[" + strings.Repeat("0-9,", 8000) + "5]"), refuse: "twice"},
	"a list without the end":  {mc: listed("lmp-0-0-0," + strings.Repeat("[", 60_000)), refuse: "unexpected"},
	"a list of many elements": {mc: listed("lmp-0-0-0" + strings.Repeat(",y[0-9]", 9000)), refuse: "has y0 twice"},
	"pods for many brokers":   {mc: fixture.MiniCluster("lmp").Size(1).MaxSize(mostBrokers).Launcher()},
	"instances of many hosts": {mc: fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		for i := range 64 {
			s.Flux.Bursting.Clusters = append(s.Flux.Bursting.Clusters, v1alpha2.BurstedCluster{Name: fmt.Sprint("other-", i), Size: 100_000})
		}
	})},
	"many brokers in an own list": {mc: fixture.MiniCluster("lmp").Size(mostBrokers).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Flux.Bursting.Hostlist = fmt.Sprintf("lmp-0-0-0,lmp-w-0-[0-%d]", mostBrokers-2)
	})},
	"many cores": {mc: fixture.MiniCluster("lmp").CPU("9223372036854775807").Tasks(1)},
}

func listed(list string) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Flux.Bursting.Hostlist = list })
}

// Sixteen workers check hostile specs at once. The manager has 512 MiB for all it does.
func TestMemoryOfChecks(t *testing.T) {
	const atOnce, budget = 16, 96 * mebibyte
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			used := allocated(func() {
				var group errgroup.Group
				for range atOnce {
					group.Go(func() error { return build(tc.mc.Defaulted()) })
				}
				switch err := group.Wait(); {
				case (err == nil) != (tc.refuse == ""):
					t.Errorf("the error is %v, want %q", err, tc.refuse)
				case err != nil && !strings.Contains(err.Error(), tc.refuse):
					t.Errorf("the error is %.200q, want %q", err, tc.refuse)
				}
			})
			t.Logf("%d checks take %d KiB", atOnce, used>>10)
			if used > budget {
				t.Errorf("%d checks take %d MiB, more than %d", atOnce, used/mebibyte, budget/mebibyte)
			}
		})
	}
}

// build builds all objects of a MiniCluster, as each check does.
func build(mc *v1alpha2.MiniCluster) error {
	if _, err := jobset.Pod(mc); err != nil {
		return err
	}
	objects, err := jobset.Objects(mc, 1)
	if err != nil {
		return err
	}
	_, err = jobset.Files(mc, objects[len(objects)-1].(*jobsetapi.JobSet), func() (string, error) { return "", nil })
	return err
}

// Gangs with very many sizes wait, and all have different ones. A cycle runs whenever something changes.
func TestMemoryOfLadders(t *testing.T) {
	const gangs, nodes, budget = 500, 149, 32 * mebibyte
	for _, constraint := range []v1alpha2.TaskConstraint{v1alpha2.TasksAny, v1alpha2.TasksCube, v1alpha2.TasksPowerOfTwo} {
		t.Run(string(constraint), func(t *testing.T) {
			l, snapshot, asks := ledger.New(nil, nil), queue.Snapshot{Queues: []queue.Queue{state.Queue(fixture.Queue("default").Obj())}}, map[string]state.Ask{}
			for i := range nodes {
				l.SetNode(fixture.Node(fmt.Sprint("node-", i)).Obj())
			}
			for i := range gangs {
				mc := fixture.MiniCluster(fmt.Sprint("ladder-", i)).CPU("8").MinSize(1).Size(100_000).Tasks(int32(1_000_000 + i)).Spec(func(s *v1alpha2.MiniClusterSpec) {
					s.Elastic.Tasks.Constraint = constraint
				}).Defaulted()
				pod := podOf(t, mc)
				asks[string(mc.UID)] = state.Request(mc, pod, nil, nil)
				snapshot.Waiting = append(snapshot.Waiting, state.Gang(mc, pod, nil))
			}
			snapshot.Total, snapshot.Foreign = l.Total(), l.Foreign()
			var admitted int
			used := allocated(func() {
				room, err := l.Room(func(id string) (state.Ask, bool) { ask, ok := asks[id]; return ask, ok })
				if err != nil {
					t.Fatal(err)
				}
				admitted = admittedPods(queue.Schedule(snapshot, room, fixture.Noon))
			})
			t.Logf("a cycle takes %d KiB", used>>10)
			if used > budget {
				t.Errorf("a cycle takes %d MiB, more than %d", used/mebibyte, budget/mebibyte)
			}
			if admitted != nodes {
				t.Errorf("%d of %d nodes are used", admitted, nodes)
			}
		})
	}
}

// podOf is a pod of a MiniCluster after admission by the API server.
func podOf(t *testing.T, mc *v1alpha2.MiniCluster) *corev1.Pod {
	t.Helper()
	pod, err := jobset.Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Containers { // as the API server does
		pod.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Limits
	}
	return pod
}

// admittedPods is how many pods a cycle admits.
func admittedPods(result queue.Result) (pods int) {
	for i := range result.Decisions {
		pods += len(result.Decisions[i].Nodes)
	}
	return pods
}
