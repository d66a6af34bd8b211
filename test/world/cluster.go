// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// nodeCPUs is how many CPUs a node has.
const nodeCPUs = 8

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// build makes the cluster: the API, the programs, the nodes, the queues.
func (w *World) build() {
	w.server = apiserver.New(rand.New(rand.NewPCG(w.Seed, 3)), apiserver.Options{Scheme: scheme()})
	w.user = w.server.Client(apiserver.Admin)
	folders := []string{apiserver.Definitions, apiserver.Admission}
	if w.Seed%4 == 0 { // nothing depends on the policies
		folders = folders[:1]
	}
	if err := w.server.InstallConfig(folders...); err != nil {
		panic(err)
	}
	for _, who := range slices.Sorted(maps.Keys(injected)) {
		if err := w.server.Install(fixture.Injection(who, "others", injected[who]...)); err != nil {
			panic(err)
		}
	}
	cluster := &models.Cluster{
		Client: w.server.Client("system:serviceaccount:kube-system:job-controller"), Random: rand.New(rand.NewPCG(w.Seed, 4)), Changed: w.server.Changed,
	}
	w.kubelets, w.jobs = models.NewKubelets(cluster), models.NewJobController(cluster)
	w.models = []models.Model{
		w.jobs, models.NewScheduler(cluster), w.kubelets, models.NewNodeLifecycle(cluster, w.kubelets),
		apiserver.NewGarbageCollector(w.server), apiserver.NewQuotaController(w.server), apiserver.NewNamespaceController(w.server),
	}
	var objects []client.Object
	for _, name := range append(slices.Clone(namespaces), managerNamespace) {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for i := range w.nodes {
		objects = append(objects, newNode(i))
	}
	for i, name := range priorities {
		objects = append(objects, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(100 - 110*i)})
	}
	if w.hasKueue() {
		objects = append(objects, w.installKueue()...)
	}
	for _, queue := range w.newQueues() {
		objects = append(objects, queue)
	}
	for _, object := range objects {
		if err := w.user.Create(w.ctx, object); err != nil {
			panic(err)
		}
	}
}

// newQueues are the queues. With an autoscaler, some of these ask for nodes.
func (w *World) newQueues() []*v1alpha2.MiniClusterQueue {
	made := []*v1alpha2.MiniClusterQueue{fixture.Queue("batch").Weight(2).New(), fixture.Queue("urgent").Priority(10).New()}
	if w.hasAutoscaler() {
		if w.hasKueue() {
			made = append(made, newKueueQueue())
		}
		w.installAutoscaler(made)
	}
	return made
}

func newNode(i int) *corev1.Node { return fixture.Node(nodeName(i)).Obj() }

// planNodeFault makes up a fault of a node, which ends some time later.
func (w *World) planNodeFault(r *rand.Rand, at time.Time) part {
	node, lasts := nodeName(r.IntN(w.nodes)), time.Duration(r.ExpFloat64()*float64(2*time.Minute))
	back := deed{at.Add(lasts), node + " is back", func() { w.giveBack(node) }}
	p := part{}
	switch r.IntN(5) {
	case 0:
		p.name = node + " is cut off for " + lasts.String()
		p.deeds = []deed{{at, p.name, func() { w.loseSight(node); w.kubelets.Cut(node, false) }}, back}
	case 1:
		p.name = node + " is alone for " + lasts.String()
		p.deeds = []deed{{at, p.name, func() { w.loseSight(node); w.kubelets.Cut(node, true) }}, back}
	case 2:
		p.name = node + " has no power for " + lasts.String()
		p.deeds = []deed{{at, p.name, func() { w.loseSight(node); w.kubelets.PowerOff(node) }}, back}
	case 3:
		p.name = "the kubelet of " + node + " restarts"
		p.deeds = []deed{{at, p.name, func() { w.kubelets.Restart(node) }}}
	case 4:
		p.name = node + " is cordoned for " + lasts.String()
		p.deeds = []deed{{at, p.name, func() { w.patchNode(node, `{"spec":{"unschedulable":true}}`) }},
			{at.Add(lasts), "uncordon " + node, func() { w.patchNode(node, `{"spec":{"unschedulable":null}}`) }}}
	}
	return p
}

// sight is a while in which the API server did not know what ran on a node.
type sight struct{ from, until time.Time }

// loseSight notes that the API server does not know any more what runs on a node.
func (w *World) loseSight(node string) {
	w.lostSight[node] = append(w.lostSight[node], &sight{from: time.Now()})
}

// giveBack lets a node be there again. Its kubelet takes some time to tell what runs.
func (w *World) giveBack(node string) {
	w.kubelets.Return(node)
	for _, s := range w.lostSight[node] {
		if s.until.IsZero() {
			s.until = time.Now().Add(5 * time.Minute)
		}
	}
}

// wasUnknown reports whether the API server did not know what ran on a node at a time.
func (w *World) wasUnknown(node string, at time.Time) bool {
	for _, s := range w.lostSight[node] {
		if !at.Before(s.from) && (s.until.IsZero() || at.Before(s.until)) {
			return true
		}
	}
	return false
}

func (w *World) patchNode(name, patch string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(w.user.Patch(w.ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(patch))))
}

// planQueue suspends a queue for a while.
func (w *World) planQueue(r *rand.Rand, at time.Time) part {
	name, lasts := queues[r.IntN(len(queues))], time.Duration(r.IntN(120))*time.Second
	suspend := func(suspended bool) {
		queue := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := fmt.Sprintf(`{"spec":{"suspended":%v}}`, suspended)
		if err := w.user.Patch(w.ctx, queue, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			panic(err)
		}
	}
	what := fmt.Sprintf("queue %s is suspended for %s", name, lasts)
	return part{name: what, deeds: []deed{{at, what, func() { suspend(true) }}, {at.Add(lasts), "queue " + name + " goes on", func() { suspend(false) }}}}
}

// planPause halts the Job controller for a while, or starts it again.
func (w *World) planPause(r *rand.Rand, at time.Time) part {
	lasts := time.Duration(r.IntN(60)) * time.Second
	what := fmt.Sprintf("the Job controller is away for %s", lasts)
	return part{name: what, deeds: []deed{{at, what, w.jobs.Pause}, {at.Add(lasts), "the Job controller is back", func() { w.jobs.Restart(); w.jobs.Resume() }}}}
}

// calm ends all faults.
func (w *World) calm() {
	if w.violation != nil {
		return
	}
	clear(w.atWrite)
	clear(w.atRead)
	clear(w.staleUntil)
	for i := range w.nodes {
		err := w.user.Create(w.ctx, newNode(i))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			panic(err)
		}
		w.giveBack(nodeName(i))
		w.patchNode(nodeName(i), `{"spec":{"unschedulable":null}}`)
	}
}
