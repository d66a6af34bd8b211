// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage plays a cluster whose MiniClusters wait, start, run and end, for tests of the web page. Nothing
// runs: the objects only look so. The same seed gives the same play.
package stage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Settings of a play.
type Settings struct {
	Nodes, MiniClusters int
	Seed                uint64
	// Evil is a text that is put into all names and messages; "" for none.
	Evil string
	// Now is when the play begins.
	Now time.Time
}

const (
	nodesPerRack, racksPerZone = 50, 20
	mostFinished               = 200
	// history is how long the cluster has been played before somebody looks, so that some MiniClusters have ended.
	history = 5 * time.Minute
	// Of the first MiniClusters, one of oddEvery never fits, and one is suspended.
	oddEvery, neverFits, suspended = 20, 5, 12
)

// Stage is a cluster. It implements client.Reader.
type Stage struct {
	Settings
	mutex    sync.Mutex
	rand     *rand.Rand
	nodes    []*corev1.Node
	free     []string // of the nodes that are up
	gangs    []*gang  // those that have not finished, the oldest first
	finished []*gang
	made     int
	reserved []string
}

// gang is a MiniCluster of the play. Its objects are made anew when it changes.
type gang struct {
	name, namespace, queue string
	user, command          string
	size, least            int
	nodes                  []string
	created, admitted      time.Time
	started, ends          time.Time
	lasts                  time.Duration
	deadline               int64 // in seconds; 0 for none
	failed, suspended      bool
	object                 *v1alpha2.MiniCluster
	pods                   []*corev1.Pod
}

var (
	queueNames = []string{"default", "physics", "chemistry", "night"}
	spaces     = []string{"team-a", "team-b", "team-c", "team-d", "team-e"}
	users      = []string{"ada", "emmy", "grace", "lise", "maria"}
	programs   = []string{"lammps", "amg", "gromacs", "laghos", "kripke", "mixbench", "osu", "quicksilver"}
	commands   = map[string]string{
		"lammps": "lmp -v x 8 -v y 8 -v z 8 -in in.reaxc.hns -nocite", "amg": "amg -P 8 8 4 -n 128 128 128", "gromacs": "gmx_mpi mdrun -s water.tpr -nsteps 20000",
		"laghos": "laghos -p 1 -m data/cube_922_hex.mesh -pa -tf 0.6", "kripke": "kripke --arch OpenMP --zones 64,64,32", "mixbench": "mixbench-cpu 32",
		"osu": "osu_allreduce -m 8:4194304", "quicksilver": "qs -i CORAL2_P1.inp -X 64 -Y 64 -Z 32",
	}
	sizes = []int{1, 2, 4, 4, 8, 8, 8, 16, 16, 32, 64}
)

// New begins a play.
func New(s Settings) *Stage {
	stage := &Stage{Settings: s, rand: rand.New(rand.NewPCG(s.Seed, s.Seed))}
	for i := range s.Nodes {
		stage.nodes = append(stage.nodes, stage.node(i))
		if node := stage.nodes[i]; state.Down(node) == "" && !slices.Contains(stage.reserved, node.Name) {
			stage.free = append(stage.free, node.Name)
		}
	}
	begin := s.Now.Add(-history)
	for range s.MiniClusters {
		stage.submit(begin.Add(-time.Duration(stage.rand.IntN(3600)) * time.Second))
	}
	for now := begin; now.Before(s.Now); now = now.Add(10 * time.Second) {
		stage.Step(now)
	}
	return stage
}

func (s *Stage) node(i int) *corev1.Node {
	rack := i / nodesPerRack
	name := fmt.Sprintf("node-%04d", i)
	node := fixture.Node(name).Has(corev1.ResourceCPU, "8").Has(corev1.ResourceMemory, "32Gi").
		Label(state.TopologyLevels[0].Label, s.evil(fmt.Sprintf("zone-%c", 'a'+rack/racksPerZone))).
		Label(state.TopologyLevels[2].Label, s.evil(fmt.Sprintf("rack-%02d", rack+1)))
	switch {
	case i%97 == 41:
		node.NotReady()
	case i%89 == 17:
		node.Cordoned()
	case i%nodesPerRack >= nodesPerRack-2 && rack%5 == 1:
		s.reserved = append(s.reserved, name)
	case i%211 == 5:
		node.Taint(s.evil("example.com/gpu"), corev1.TaintEffectNoSchedule)
	}
	return node.Obj()
}

// evil returns a text with the evil one.
func (s *Stage) evil(text string) string { return text + s.Evil }

func (s *Stage) submit(now time.Time) {
	program := programs[s.rand.IntN(len(programs))]
	g := &gang{
		name: s.evil(fmt.Sprintf("%s-%d", program, s.made)), command: s.evil(commands[program]), user: s.evil(users[s.rand.IntN(len(users))]),
		namespace: spaces[s.rand.IntN(len(spaces))], queue: s.evil(queueNames[s.rand.IntN(len(queueNames))]),
		size: max(1, min(sizes[s.rand.IntN(len(sizes))], s.Nodes/4)), created: now, lasts: time.Duration(20+s.rand.IntN(280)) * time.Second, failed: s.rand.IntN(6) == 0,
	}
	if g.least = g.size; s.rand.IntN(3) == 0 {
		g.least = max(1, g.size/2)
	}
	if s.rand.IntN(2) == 0 {
		g.deadline = 2 * int64(g.lasts.Seconds())
	}
	if s.made < s.MiniClusters {
		switch s.made % oddEvery {
		case neverFits:
			g.size, g.least = 2*s.Nodes, 2*s.Nodes
		case suspended:
			g.suspended = true
		}
	}
	s.made++
	s.gangs = append(s.gangs, g)
}

// Step plays until a time.
func (s *Stage) Step(now time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	slices.SortStableFunc(s.gangs, func(a, b *gang) int { return a.created.Compare(b.created) })
	ended := 0
	s.gangs = slices.DeleteFunc(s.gangs, func(g *gang) bool {
		if g.started.IsZero() || now.Before(g.ends) {
			return false
		}
		ended++
		s.free = append(s.free, g.nodes...)
		s.finished = append(s.finished, g)
		g.play(s, now)
		return true
	})
	s.finished = s.finished[max(0, len(s.finished)-mostFinished):]
	for range ended {
		s.submit(now)
	}
	for _, g := range s.gangs {
		before := len(g.nodes)
		wasUp := !g.started.IsZero()
		switch {
		case g.waits() && len(s.free) >= g.least:
			n := min(g.size, len(s.free))
			g.nodes, s.free, g.admitted = slices.Clone(s.free[:n]), s.free[n:], now
		case g.nodes != nil && g.started.IsZero() && now.Sub(g.admitted) >= 3*time.Second:
			g.started, g.ends = now, now.Add(g.lasts)
		}
		if g.object == nil || before != len(g.nodes) || wasUp != !g.started.IsZero() {
			g.play(s, now)
		}
	}
}

func (g *gang) waits() bool { return g.nodes == nil && !g.suspended }

// play makes the objects of a gang.
func (g *gang) play(s *Stage, now time.Time) {
	mc := fixture.MiniCluster(g.name).Size(int32(g.size)).MinSize(int32(g.least)).Tasks(int32(g.size*8)).Queue(g.queue).CPU("8").Created(g.created).
		Label("user", g.user).Command(g.command)
	g.pods = nil
	up, ended := !g.started.IsZero(), !g.started.IsZero() && !now.Before(g.ends)
	if g.nodes != nil {
		mc.Admitted(1, int32(len(g.nodes)), strings.Join(g.nodes, ","))
		for rank, node := range g.nodes {
			pod := fixture.BrokerPod(g.name, rank).In(g.namespace).On(node).Created(g.admitted)
			switch {
			case ended:
				pod.Up().Ended(0)
			case up:
				pod.Up()
			}
			g.pods = append(g.pods, pod.Obj())
		}
	}
	mc.Status(func(status *v1alpha2.MiniClusterStatus) { g.report(s, status, now, up, ended) })
	g.object = mc.Obj()
	g.object.Namespace = g.namespace
}

// report fills the status.
func (g *gang) report(s *Stage, status *v1alpha2.MiniClusterStatus, now time.Time, up, ended bool) {
	status.Queue, status.Nodes = g.queue, int32(len(g.nodes))
	condition := func(kind string, value bool, reason, message string, at time.Time) {
		word := metav1.ConditionFalse
		if value {
			word = metav1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, metav1.Condition{Type: kind, Status: word, Reason: reason, Message: s.evil(message), LastTransitionTime: metav1.NewTime(at)})
	}
	if g.suspended {
		condition(v1alpha2.ConditionReady, false, v1alpha2.StateSuspended, "It is suspended", g.created)
		return
	}
	if g.least > len(s.nodes) {
		message := fmt.Sprintf("Needs room for %d brokers of 8 cpu each; the empty cluster has room for %d", g.least, len(s.nodes))
		condition(v1alpha2.ConditionAdmitted, false, v1alpha2.ReasonNeverFits, message, g.created)
		condition(v1alpha2.ConditionReady, false, v1alpha2.StateQueued, message, g.created)
		return
	}
	if g.nodes == nil {
		message := fmt.Sprintf("Needs room for %d brokers of 8 cpu each; %d of %d nodes have room now; it fits once 2 jobs have ended, by %s", g.least, len(s.free), len(s.nodes), now.Add(time.Minute).UTC().Format(time.RFC3339))
		condition(v1alpha2.ConditionAdmitted, false, v1alpha2.ReasonNoRoom, message, g.created)
		condition(v1alpha2.ConditionReady, false, v1alpha2.StateQueued, message, g.created)
		return
	}
	status.Admission.Time, status.Tasks = metav1.NewTime(g.admitted), int32(len(g.nodes)*8)
	if g.deadline > 0 {
		status.Admission.DeadlineSeconds = &g.deadline
	}
	status.LastDecision = &v1alpha2.Decision{Time: metav1.NewMicroTime(g.admitted), Type: "Normal", Reason: "Admitted", Message: s.evil("Gets nodes")}
	condition(v1alpha2.ConditionAdmitted, !ended, v1alpha2.ReasonAdmitted, "Holds its nodes", g.admitted)
	if !up {
		condition(v1alpha2.ConditionReady, false, v1alpha2.StateStarting, fmt.Sprintf("0 of %d brokers up", len(g.nodes)), g.admitted)
		return
	}
	started, size := metav1.NewTime(g.started), int32(len(g.nodes))
	status.StartTime, status.Size = &started, size
	if !ended {
		condition(v1alpha2.ConditionReady, true, v1alpha2.StateRunning, fmt.Sprintf("%d of %d brokers up", size, size), g.started)
		return
	}
	last, code, outcome, final := metav1.NewTime(g.ends), int32(0), v1alpha2.ReasonSucceeded, v1alpha2.StateSucceeded
	if g.failed {
		code, outcome, final = 3, v1alpha2.ReasonCommandFailed, v1alpha2.StateFailed
	}
	status.CompletionTime, status.ExitCode, status.Nodes, status.Size = &last, &code, 0, 0
	condition(v1alpha2.ConditionFinished, true, outcome, fmt.Sprintf("Exit code %d", code), g.ends)
	condition(v1alpha2.ConditionReady, true, final, fmt.Sprintf("Exit code %d", code), g.ends)
}

// queues are the queues with their status.
func (s *Stage) queues() []v1alpha2.MiniClusterQueue {
	var out []v1alpha2.MiniClusterQueue
	for i, name := range queueNames {
		queue := fixture.Queue(s.evil(name)).Weight(int32(i + 1)).Users(v1alpha2.QueueUsers{Label: "user"}).Defaulted()
		nodes := 0
		for _, g := range s.gangs {
			switch {
			case g.queue != queue.Name:
			case g.nodes != nil:
				queue.Status.Admitted++
				nodes += len(g.nodes)
			default:
				queue.Status.Pending++
				if queue.Status.Pending <= v1alpha2.MostWaiting {
					queue.Status.Waiting = append(queue.Status.Waiting, v1alpha2.WaitingMiniCluster{Namespace: g.namespace, Name: g.name, Position: queue.Status.Pending, Reason: v1alpha2.ReasonNoRoom})
				}
			}
		}
		queue.Status.Share = fmt.Sprintf("%.3f", float64(nodes)/float64(max(1, len(s.nodes))))
		queue.Status.Deserved = fmt.Sprintf("%.3f", float64(i+1)/10)
		out = append(out, *queue)
	}
	return out
}

// reservation is an active one.
func (s *Stage) reservation() v1alpha2.MiniClusterReservation {
	return v1alpha2.MiniClusterReservation{
		ObjectMeta: metav1.ObjectMeta{Name: s.evil("firmware"), UID: types.UID("uid-firmware")},
		Spec:       v1alpha2.MiniClusterReservationSpec{From: metav1.NewTime(s.Now), Until: metav1.NewTime(s.Now.Add(2 * time.Hour))},
		Status: v1alpha2.MiniClusterReservationStatus{
			Phase: v1alpha2.ReservationActive, Size: int32(len(s.reserved)), Nodes: strings.Join(s.reserved, ","),
		},
	}
}
