// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// world is a cluster to which things happen, and the mirror that is told of them.
type world struct {
	random   *rand.Rand
	nodes    map[string]*corev1.Node
	pods     map[types.UID]*corev1.Pod
	promises map[types.UID]*state.Promise
	sizes    map[string]int32   // of the MiniClusters
	forged   map[types.UID]bool // pods that only say that they are brokers
	mirror   *Ledger
}

func newWorld(seed uint64) *world {
	return &world{
		random: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		promises: map[types.UID]*state.Promise{}, sizes: map[string]int32{}, forged: map[types.UID]bool{}, mirror: New(state.TopologyLevels, nil),
	}
}

func (w *world) pick(values ...string) string { return values[w.random.IntN(len(values))] }

func (w *world) node() string { return w.pick("a", "b", "c", "d", "e", "f") }

func (w *world) gang() string { return w.pick("x", "y", "z") }

// step lets one thing happen, and says what.
func (w *world) step(t *testing.T) string {
	t.Helper()
	switch n := w.random.IntN(22); {
	case n > 19:
		return w.changeMiniCluster()
	case n < 3:
		return w.changeNode()
	case n == 3:
		name := w.node()
		delete(w.nodes, name)
		w.mirror.DeleteNode(name)
		return "node " + name + " goes"
	case n < 14:
		return w.changePod()
	case n < 16:
		uid := types.UID("uid-" + w.pick("x", "y", "z", "p", "d") + "-" + strconv.Itoa(w.random.IntN(6)))
		delete(w.pods, uid)
		w.mirror.DeletePod(uid)
		return "pod " + string(uid) + " goes"
	}
	return w.changePromise(t)
}

func (w *world) changeNode() string {
	node := fixture.Node(w.node())
	for _, maybe := range []func(){
		func() { node.Cordoned() },
		func() { node.NotReady() },
		func() { node.Has("cpu", w.pick("4", "16")) },
		func() { node.Has("gpu", "2") },
		func() { node.Label(corev1.LabelTopologyZone, w.pick("1", "2")) },
		func() { node.Label("kind", w.pick("1", "2")) },
		func() { node.Taint(w.pick("gpu", "node.kubernetes.io/disk-pressure"), corev1.TaintEffectNoSchedule) },
	} {
		if w.random.IntN(5) == 0 {
			maybe()
		}
	}
	made := node.Obj()
	w.nodes[made.Name] = made
	w.mirror.SetNode(made)
	return fmt.Sprintf("node %s is %v", made.Name, made)
}

func (w *world) changeMiniCluster() string {
	name := w.gang()
	if w.random.IntN(4) == 0 {
		delete(w.sizes, name)
		w.mirror.DeleteMiniCluster(types.UID("uid-" + name))
		return "MiniCluster " + name + " goes"
	}
	w.sizes[name] = int32(2 + w.random.IntN(3))
	w.mirror.SetMiniCluster(fixture.MiniCluster(name).Size(w.sizes[name]).Obj())
	return fmt.Sprintf("MiniCluster %s has %d brokers", name, w.sizes[name])
}

// isBroker reports whether a pod is what its labels say.
func (w *world) isBroker(pod *corev1.Pod) bool {
	rank, ok := protocol.Rank(pod)
	return ok && !w.forged[pod.UID] && rank < int(w.sizes[pod.Labels[v1alpha2.MiniClusterLabel]])
}

// isDaemon reports whether a pod belongs to its node.
func isDaemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || (owner.Kind == "Node" && owner.Name == pod.Spec.NodeName))
}

// nodeOf is the node that a pod holds; "" if none.
func (w *world) nodeOf(pod *corev1.Pod) string {
	if protocol.Ended(pod) {
		return ""
	}
	return pod.Spec.NodeName
}

// forge takes from a pod something without which it is no broker.
func (w *world) forge(pod *fixture.PodWrapper, name string) bool {
	switch w.random.IntN(20) {
	case 0:
		pod.Label(v1alpha2.UIDLabel, "uid-"+w.pick("x", "y", "z", "nobody"))
		return pod.Obj().Labels[v1alpha2.UIDLabel] != "uid-"+name
	case 1:
		pod.Controller("", "", "")
	case 2:
		pod.OfJob("other")
	case 3:
		pod.Controller("batch/v2", "Job", pod.Obj().OwnerReferences[0].Name)
	case 4:
		pod.In("elsewhere")
	default:
		return false
	}
	return true
}

func (w *world) changePod() string {
	name, rank := w.pick("x", "y", "z", "x", "y", "z", "p", "d"), w.random.IntN(4)
	pod, forged := fixture.Pod(name+"-"+strconv.Itoa(rank)), false
	switch name {
	case "p":
	case "d":
		if pod.OfDaemonSet("d"); w.random.IntN(2) == 0 {
			pod.Static(w.node())
		}
	default:
		pod = fixture.BrokerPod(name, rank)
		if w.random.IntN(4) == 0 { // a second one of the rank
			pod.Named(name + "-" + strconv.Itoa(rank+2))
		}
		forged = w.forge(pod, name)
		if (name == "z") != (w.random.IntN(20) == 0) {
			pod.Label(v1alpha2.ExclusiveLabel, "true")
		}
	}
	pod.CPU(w.pick("1", "1", "1", "2", "500m"))
	node := w.node()
	if promise := w.promises[types.UID("uid-"+name)]; promise != nil && rank < len(promise.Nodes) && promise.Nodes[rank] != "" && w.random.IntN(3) > 0 {
		node = promise.Nodes[rank]
	}
	switch w.random.IntN(6) {
	case 0: // gated, or not pinned
	case 1:
		if name == "p" || name == "d" { // what a pinned broker holds depends on what came before
			pod.Pinned(node)
		}
	case 2:
		pod.On(node).Up().Leaving()
	case 3:
		pod.On(node).Ended(int32(w.random.IntN(2)))
	default:
		pod.On(node).Up()
	}
	made := pod.Obj()
	made.UID = types.UID("uid-" + made.Name)
	w.pods[made.UID], w.forged[made.UID] = made, forged
	tell(w.mirror, made)
	return fmt.Sprintf("pod %s of %s is on %q, %s", made.Name, made.Labels[v1alpha2.UIDLabel], made.Spec.NodeName, made.Status.Phase)
}

func (w *world) changePromise(t *testing.T) string {
	t.Helper()
	uid := types.UID("uid-" + w.gang())
	promise := w.promises[uid]
	switch n := w.random.IntN(4); {
	case n == 0:
		promise = nil
	case n == 1 && promise != nil:
		shrunk := *promise
		shrunk.Nodes = slices.Clone(promise.Nodes)
		shrunk.Nodes[w.random.IntN(len(shrunk.Nodes))] = ""
		promise = &shrunk
	default:
		promise = &state.Promise{Requests: fluxion.Resources{"cpu": 1000, "pods": 1}, End: fixture.Noon.Add(time.Duration(w.random.IntN(3)) * time.Hour)}
		if uid == "uid-z" {
			promise.Requests[fluxion.WholeNode] = 1
		}
		for range 1 + w.random.IntN(4) {
			promise.Nodes = append(promise.Nodes, w.node())
		}
	}
	w.promises[uid] = promise
	if promise == nil {
		delete(w.promises, uid)
	}
	w.mirror.Confirm(uid, promise)
	return fmt.Sprintf("%s is promised %v", uid, promise)
}

// anew is a mirror that is told of everything as it is now, in no order.
func (w *world) anew(t *testing.T) *Ledger {
	t.Helper()
	c := New(state.TopologyLevels, nil)
	set := []func(){
		func() {
			for _, node := range w.nodes {
				c.SetNode(node)
			}
		},
		func() {
			for _, pod := range w.pods {
				tell(c, pod)
			}
		},
		func() {
			for uid, promise := range w.promises {
				c.Confirm(uid, promise)
			}
		},
		func() {
			for name, size := range w.sizes {
				c.SetMiniCluster(fixture.MiniCluster(name).Size(size).Obj())
			}
		},
	}
	for _, i := range w.random.Perm(len(set)) {
		set[i]()
	}
	return c
}

// picture is all that one can see of a mirror.
type picture struct {
	Left       map[string]fluxion.Resources
	Jobs       map[types.UID][]fluxion.Pod
	Holds      map[types.UID][]int
	Total      any
	Foreign    map[string]int64
	Room       int
	Alone      int
	Why        string
	Exclusions []fluxion.Exclusion
}

func pictureOf(t *testing.T, c *Ledger) picture {
	t.Helper()
	graph := graphOf(t, c)
	p := picture{Left: map[string]fluxion.Resources{}, Jobs: map[types.UID][]fluxion.Pod{}, Holds: map[types.UID][]int{}, Total: c.Total(), Foreign: c.Foreign()}
	maps.DeleteFunc(p.Foreign, func(_ string, amount int64) bool { return amount == 0 })
	for i := range graph.Len() {
		p.Left[graph.Name(i)] = graph.Left(graph.Name(i))
	}
	for _, gang := range []types.UID{"uid-x", "uid-y", "uid-z"} {
		p.Jobs[gang], p.Holds[gang] = graph.Pods(string(gang)), c.Holds(gang)
	}
	pod := fixture.Pod("q").CPU("1").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kind": "1"} }).Obj()
	ask := requestOf(c, fixture.MiniCluster("q").Defaulted(), pod)
	p.Exclusions = c.excluded(graph, ask.Places)
	everywhere := requestOf(c, fixture.MiniCluster("all").Defaulted(), fixture.Pod("q").CPU("1").Obj())
	alone := requestOf(c, fixture.MiniCluster("alone").Defaulted(), alonePod("q", 0).CPU("0").Obj())
	r, err := c.Room(asks{"q": ask, "all": everywhere, "alone": alone}.of)
	if err != nil {
		t.Fatal(err)
	}
	p.Room, p.Alone, p.Why = r.Fits("all", 1000), r.Fits("alone", 1000), r.Why("q", []int{300}) // more than nodes that went away could hold
	return p
}

// Whatever happens, in whatever order, the mirror is what it would be if it had been
// told of everything only now.
func TestTheMirrorFollows(t *testing.T) {
	steps := 400
	if testing.Short() {
		steps = 150
	}
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := newWorld(seed)
			for range steps {
				freed := w.mirror.Freed()
				room, alone := fitsNow(t, w.mirror)
				what := w.step(t)
				if now, aloneNow := fitsNow(t, w.mirror); (now > room || aloneNow > alone) && w.mirror.Freed() == freed {
					t.Fatalf("%s: there was room for %d and %d alone, and is for %d and %d, and nothing was freed", what, room, alone, now, aloneNow)
				}
				w.checkHeld(t, what)
				if diff := cmp.Diff(pictureOf(t, w.anew(t)), pictureOf(t, w.mirror)); diff != "" {
					t.Fatalf("%s (-anew +mirror):\n%s", what, diff)
				}
			}
		})
	}
}

// checkHeld checks that of no node there is more left than kube-scheduler sees, or than
// the promises leave. A node with a pod or a promise is no whole node for others.
func (w *world) checkHeld(t *testing.T, what string) {
	t.Helper()
	wholly := map[string]bool{} // of the nodes on which somebody is, whether that is an exclusive broker
	for _, pod := range w.pods {
		if node := w.nodeOf(pod); node != "" && !isDaemon(pod) {
			wholly[node] = wholly[node] || (w.isBroker(pod) && state.Requests(pod)[fluxion.WholeNode] > 0)
		}
	}
	for _, promise := range w.promises {
		for _, node := range promise.Nodes {
			wholly[node] = wholly[node] || promise.Requests[fluxion.WholeNode] > 0
		}
	}
	w.checkWhole(t, what, wholly)
	for name, node := range w.nodes {
		bound, promised := state.Amounts(node.Status.Allocatable), state.Amounts(node.Status.Allocatable)
		for _, pod := range w.pods {
			if pod.Spec.NodeName == name && !protocol.Ended(pod) {
				for resource, amount := range state.Requests(pod) {
					bound[resource] -= amount
				}
			}
		}
		for _, promise := range w.promises {
			for _, at := range promise.Nodes {
				if at == name {
					promised["cpu"] -= 1000
				}
			}
		}
		if left := graphOf(t, w.mirror).Left(name); left["cpu"] > min(bound["cpu"], promised["cpu"]) || left["pods"] > bound["pods"] {
			t.Fatalf("%s: of node %s there is %v left, without its pods %v, and without promises %v", what, name, left, bound, promised)
		}
	}
}

// checkWhole checks which nodes are for exclusive gangs, and which are for no other.
func (w *world) checkWhole(t *testing.T, what string, wholly map[string]bool) {
	t.Helper()
	rooms := func(requests fluxion.Resources) map[string]bool {
		out := map[string]bool{}
		for _, room := range graphOf(t, w.mirror).Rooms(fluxion.Gang{Pods: fluxion.Shape{Requests: requests}}) {
			out[graphOf(t, w.mirror).Name(room.Node)] = true
		}
		return out
	}
	alone, shared := rooms(fluxion.Resources{fluxion.WholeNode: 1}), rooms(nil)
	for name, node := range w.nodes {
		exclusive, used := wholly[name]
		up := state.Down(node) == ""
		if alone[name] != (up && !used) || shared[name] != (up && !exclusive) {
			t.Fatalf("%s: node %s is used %t, exclusively %t, and is for an exclusive gang %t, for another %t", what, name, used, exclusive, alone[name], shared[name])
		}
	}
}

// fitsNow is how many small pods there is room for, and for how many on nodes of their own.
func fitsNow(t *testing.T, c *Ledger) (small, alone int) {
	t.Helper()
	gang := func(requests fluxion.Resources) fluxion.Gang {
		return fluxion.Gang{Pods: fluxion.Shape{Requests: requests}}
	}
	return graphOf(t, c).Fits(gang(fluxion.Resources{"cpu": 500})), graphOf(t, c).Fits(gang(fluxion.Resources{fluxion.WholeNode: 1}))
}

// Of what is the same as before nothing is made anew, and nobody has to look again.
func TestNothingNewFreesNothing(t *testing.T) {
	promise := state.Promise{Nodes: []string{"a", "b"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}}
	c := clusterOf(fixture.Nodes("a", "b", "c"), nil, map[types.UID]state.Promise{"uid-lmp": promise})
	graph, freed := graphOf(t, c), c.Freed()
	for what, do := range map[string]func(){
		"a node":                 func() { c.SetNode(fixture.Node("a").Obj()) },
		"a cordon":               func() { c.SetNode(fixture.Node("c").Cordoned().Obj()) },
		"a pod that is made":     func() { c.SetPod(fixture.BrokerPod("lmp", 0).Obj()) },
		"a pod that is pinned":   func() { c.SetPod(fixture.BrokerPod("lmp", 1).Pinned("b").Obj()) },
		"a pod that comes up":    func() { c.SetPod(fixture.BrokerPod("lmp", 1).On("b").Up().Obj()) },
		"a pod that is promised": func() { c.DeletePod("uid-lmp-1") },
		"others' pod":            func() { c.SetPod(fixture.Pod("p").On("c").Obj()) },
	} {
		do()
		if graphOf(t, c) != graph {
			t.Errorf("%s: the graph was made anew", what)
		}
		if c.Freed() != freed {
			t.Errorf("%s: something was freed", what)
		}
		freed = c.Freed()
	}
}

// Each of these frees something, and only a new node or a new kind of resource needs a new graph.
func TestFreed(t *testing.T) {
	promise := &state.Promise{Nodes: []string{"a", "b"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}}
	shrunk := &state.Promise{Nodes: []string{"a", ""}, Requests: promise.Requests}
	c := clusterOf(fixture.Nodes("a", "b", "c"), nil, map[types.UID]state.Promise{"uid-lmp": *promise})
	c.SetPod(fixture.Pod("p").On("c").Obj())
	graph := graphOf(t, c)
	set := func(p *state.Promise) func() {
		return func() {
			c.Confirm("uid-lmp", p)
		}
	}
	for _, step := range []struct {
		what  string
		do    func()
		anew  bool
		holds []int
	}{
		{"others' pod ends", func() { c.SetPod(fixture.Pod("p").On("c").Ended(0).Obj()) }, false, []int{0, 1}},
		{"a rank leaves", set(shrunk), false, []int{0}},
		{"a promise ends", set(nil), false, nil},
		{"a label comes", func() { c.SetNode(fixture.Node("a").Label("x", "y").Obj()) }, false, nil},
		{"a node comes", func() { c.SetNode(fixture.Node("d").Obj()) }, true, nil},
		{"a node grows", func() { c.SetNode(fixture.Node("d").Has("cpu", "16").Obj()) }, false, nil},
		{"a daemon's pod comes and goes", func() {
			tell(c, daemon("x", "1").On("d").Up().Obj())
			tell(c, daemon("x", "1").On("d").Ended(0).Obj())
		}, false, nil},
		{"a node gets GPUs", func() { c.SetNode(fixture.Node("d").Has("cpu", "16").Has("gpu", "2").Obj()) }, true, nil},
	} {
		before := c.Freed()
		step.do()
		if c.Freed() == before {
			t.Errorf("%s: nothing was freed", step.what)
		}
		if anew := graphOf(t, c) != graph; anew != step.anew {
			t.Errorf("%s: the graph was made anew: %t", step.what, anew)
		}
		if holds := c.Holds("uid-lmp"); !slices.Equal(holds, step.holds) {
			t.Errorf("%s: it holds %v", step.what, holds)
		}
		graph = graphOf(t, c)
	}
}

// Ranks are labels, which anybody can write.
func TestRanksThatAreNone(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	for i, index := range []string{"2000000000", "-7", "x"} {
		pod := fixture.BrokerPod("lmp", 1).Label("batch.kubernetes.io/job-completion-index", index).On("a").Obj()
		pod.UID = types.UID(strconv.Itoa(i))
		c.SetPod(pod)
	}
	if left := graphOf(t, c).Left("a"); left["cpu"] != -16000 {
		t.Errorf("left is %v", left)
	}
	if holds := c.Holds("uid-lmp"); len(holds) > 0 {
		t.Errorf("it holds %v", holds)
	}
}

// What pods of others hold on nodes that are up: not those of DaemonSets and MiniClusters.
func TestForeign(t *testing.T) {
	p := fixture.Pod("p").CPU("1").On("a")
	c := clusterOf([]*corev1.Node{fixture.Node("a").Obj(), fixture.Node("b").Cordoned().Obj()}, []*corev1.Pod{
		daemon("d", "1").On("a").Obj(), fixture.BrokerPod("lmp", 0).CPU("2").On("a").Obj(), fixture.Pod("q").CPU("3").On("b").Obj(),
	}, nil)
	c.SetPod(p.Obj())
	if got, want := c.Foreign(), map[string]int64{"cpu": 1000, "pods": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	c.SetNode(fixture.Node("b").Obj())
	c.SetPod(p.Ended(0).Obj())
	if got, want := c.Foreign(), map[string]int64{"cpu": 3000, "pods": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestTotal(t *testing.T) {
	c := clusterOf([]*corev1.Node{fixture.Node("a").Obj(), fixture.Node("b").Cordoned().Obj(), fixture.Node("c").Obj()},
		[]*corev1.Pod{daemon("d", "1").On("c").Obj(), fixture.Pod("p").On("a").Obj()}, nil)
	want := map[string]int64{"cpu": 15000, "memory": 64 << 30, "pods": 219}
	if got := c.Total(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// Ranks are outside on nodes that the total leaves out, and on nodes that are gone, also those whose old pods leave.
func TestOutside(t *testing.T) {
	c := New(nil, nil)
	c.Nodes = labels.SelectorFromSet(labels.Set{"for": "gangs"})
	for _, n := range []*corev1.Node{
		fixture.Node("a").Label("for", "gangs").Obj(), fixture.Node("b").Label("for", "gangs").Cordoned().Obj(), fixture.Node("c").Obj(),
		fixture.Node("d").Label("for", "gangs").Obj(), fixture.Node("e").Label("for", "gangs").Cordoned().Obj(),
	} {
		c.SetNode(n)
	}
	know(c, "lmp")
	c.Confirm("uid-lmp", onNodes("a", "b", "", "c", "gone", "d"))
	for i, at := range []struct {
		rank int
		node string
	}{{5, "e"}, {7, "e"}, {8, "e"}, {8, "d"}} { // rank 5 has another node now
		pod := fixture.BrokerPod("lmp", at.rank).On(at.node).Obj()
		pod.UID = types.UID(strconv.Itoa(i))
		tell(c, pod)
	}
	if got, want := c.Outside("uid-lmp"), []int{1, 3, 4, 7}; !slices.Equal(got, want) {
		t.Errorf("outside are %v, want %v", got, want)
	}
	c.SetNode(fixture.Node("b").Label("for", "gangs").Obj())
	if got, want := c.Outside("uid-lmp"), []int{3, 4, 7}; !slices.Equal(got, want) {
		t.Errorf("with b again, outside are %v, want %v", got, want)
	}
	if got := c.Outside("nobody"); got != nil {
		t.Errorf("nobody has %v", got)
	}
}

// large is a cluster of 1,000 nodes and 20,000 pods, of which half are of MiniClusters.
func large(tb testing.TB) *Ledger {
	tb.Helper()
	c := New(state.TopologyLevels, nil)
	for i := range 1000 {
		c.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Has("cpu", "64").Label(corev1.LabelTopologyZone, strconv.Itoa(i/100)).Obj())
	}
	for i := range 10000 {
		c.SetPod(fixture.Pod(fmt.Sprintf("p%d", i)).CPU("100m").On(fmt.Sprintf("n%d", i%1000)).Obj())
	}
	for gang := range 200 {
		name := fmt.Sprintf("g%d", gang)
		promise := &state.Promise{Requests: fluxion.Resources{"cpu": 1000, "pods": 1}}
		for rank := range 50 {
			node := fmt.Sprintf("n%d", (gang*50+rank)%1000)
			promise.Nodes = append(promise.Nodes, node)
			c.SetPod(fixture.BrokerPod(name, rank).CPU("1").On(node).Obj())
		}
		know(c, name)
		c.Confirm(types.UID("uid-"+name), promise)
	}
	return c
}

func BenchmarkPodEvent(b *testing.B) {
	c := large(b)
	for name, pod := range map[string]*fixture.PodWrapper{
		"others": fixture.Pod("p7").CPU("100m").On("n7"), "promised": fixture.BrokerPod("g3", 7).CPU("1").On("n157"),
		"elsewhere": fixture.BrokerPod("g3", 8).CPU("1").On("n7"),
	} {
		here, gone := pod.Obj(), pod.Ended(0).Obj()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.SetPod(gone)
				c.SetPod(here)
				if _, err := c.current(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGraphAnew(b *testing.B) {
	c := large(b)
	for b.Loop() {
		c.rebuild()
		if _, err := c.current(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDaemonEvent measures the pod of a DaemonSet that comes and goes, with 10,000 nodes and
// 50,000 other pods.
func BenchmarkDaemonEvent(b *testing.B) {
	c := New(state.TopologyLevels, nil)
	for i := range 10000 {
		c.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Has("cpu", "64").Label(corev1.LabelTopologyZone, strconv.Itoa(i/100)).Obj())
	}
	for i := range 50000 {
		c.SetPod(fixture.Pod(fmt.Sprintf("p%d", i)).CPU("100m").On(fmt.Sprintf("n%d", i%10000)).Obj())
	}
	here := daemon("d", "1").On("n77").Up().Obj()
	gone := daemon("d", "1").On("n77").Ended(0).Obj()
	look := func() {
		if _, err := c.current(); err != nil {
			b.Fatal(err)
		}
		_ = c.Total()
	}
	look()
	for b.Loop() {
		tell(c, here)
		look()
		tell(c, gone)
		look()
	}
}

func BenchmarkExclusionsCached(b *testing.B) {
	c := large(b)
	if _, err := c.current(); err != nil {
		b.Fatal(err)
	}
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelTopologyZone: "3"} }).Obj()
	ask, graph := requestOf(c, fixture.MiniCluster("x").Defaulted(), pod), c.graph
	for b.Loop() {
		if got := c.excluded(graph, ask.Places); len(got) != 1 {
			b.Fatal(got)
		}
	}
}

// The last pods of a gang also count on nodes that are down or gone: limits of queues and users have room again.
func TestEndsOnLostNodesCount(t *testing.T) {
	for name, lose := range map[string]func(*Ledger){
		"cordoned": func(c *Ledger) {
			c.SetNode(fixture.Node("a").Cordoned().Obj())
			c.Confirm("uid-lmp", nil)
			c.TakeFreed()
			c.DeletePod("uid-lmp-0")
		},
		"deleted": func(c *Ledger) {
			c.Confirm("uid-lmp", nil)
			c.TakeFreed()
			c.DeleteNode("a")
		},
	} {
		promise := state.Promise{Nodes: []string{"a"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}}
		c := clusterOf(fixture.Nodes("a", "b"), nil, map[types.UID]state.Promise{"uid-lmp": promise})
		c.SetPod(fixture.BrokerPod("lmp", 0).CPU("8").On("a").Up().Obj())
		lose(c)
		if held := c.Holds("uid-lmp"); len(held) > 0 || len(c.TakeFreed()) == 0 {
			t.Errorf("%s: it holds %v, and nothing was freed", name, held)
		}
	}
}
