// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// Options say what a world is made from. The same options make the same world.
type Options struct {
	Seed         uint64
	MiniClusters int
	// Faults is whether anything goes wrong.
	Faults bool
	// Without are the parts that are left out, by their numbers in Result.Parts.
	Without []int
}

// Result is what became of a world.
type Result struct {
	Options
	// Parts are the names of the lives and faults.
	Parts []string
	// Trace is what happened, one action a line.
	Trace []string
	// Violation is the first thing that may not be; nil if there was none.
	Violation error
	// Objects are the objects of that moment, as text.
	Objects string
	// Lives, Writes, Faults and Refused count MiniClusters, writes of managers, what befell requests, and what the API
	// server did not let users do.
	Lives, Writes, Faults, Refused int
	// Virtual is how long the world lasted.
	Virtual time.Duration
}

// World is a cluster in a bubble.
type World struct {
	Options
	ctx        context.Context
	began      time.Time
	busy       time.Duration // in which MiniClusters are made
	nodes      int
	arguments  []string
	draw       *rand.Rand
	server     *apiserver.Server
	user       client.Client // a user who may do everything
	turnstile  *turnstile
	models     []models.Model
	kubelets   *models.Kubelets
	jobs       *models.JobController
	kueue      *models.Kueue      // nil without Kueue
	autoscaler *models.Autoscaler // nil without an autoscaler
	naps       map[string]nap
	lives      []*life
	deeds      []deed

	managers   map[string]*manager
	dying      []*manager
	started    int    // managers, in all
	renewed    string // the manager that renewed the lease last
	staleUntil map[string]time.Time
	// lostSight are the nodes of which the API server did not know what runs there, until when.
	lostSight       map[string][]*sight
	atWrite, atRead map[int]requestFault
	reads, steps    int

	*checks
	result *Result

	mutex sync.Mutex
	notes []string // of goroutines, which the driver sorts
}

// Run lets a world exist, in a bubble of the test.
func Run(t *testing.T, o Options) *Result {
	t.Helper()
	result := &Result{Options: o}
	utilruntime.ErrorHandlers = nil // one of them sleeps until the time at which the process began, in real time
	synctest.Test(t, func(*testing.T) {
		w := newWorld(o, result)
		w.exist()
	})
	return result
}

// scheme has the kinds of all programs.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, jobsetapi.AddToScheme, kueueapi.AddToScheme, v1alpha2.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
})

func newWorld(o Options, result *Result) *World {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	utilrand.Seed(int64(o.Seed)) //nolint:gosec // a seed
	mathrand.Seed(int64(o.Seed)) //nolint:gosec,staticcheck // client-go draws from it
	w := &World{
		Options: o, result: result, ctx: context.Background(), began: time.Now(), busy: time.Duration(o.MiniClusters) * 30 * time.Second, nodes: 4 + r.IntN(7),
		draw: rand.New(rand.NewPCG(o.Seed, 2)), turnstile: newTurnstile(), naps: map[string]nap{}, lostSight: map[string][]*sight{},
		managers: map[string]*manager{}, staleUntil: map[string]time.Time{}, atWrite: map[int]requestFault{}, atRead: map[int]requestFault{},
	}
	w.arguments = []string{
		"--jobset=embedded", "--beside-jobset", "--beside-flux-operator", "--workers=64", "--kube-api-qps=0", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--leader-elect=" + fmt.Sprint(w.replicas() > 1), "--leader-election-namespace=" + managerNamespace,
	}
	w.checks = newChecks(w)
	w.build()
	for i := range o.MiniClusters {
		l := w.bear(i)
		w.lives = append(w.lives, l)
		w.plan(part{name: "life " + l.name, deeds: l.deeds})
	}
	if o.Faults {
		w.planFaults()
	}
	return w
}

// replicas is how many managers there are, of which one leads.
func (w *World) replicas() int {
	if w.Seed%4 == 3 {
		return 2
	}
	return 1
}

// exist lets the world go on to its end.
func (w *World) exist() {
	defer w.end()
	for range w.replicas() {
		w.start()
	}
	w.run(w.began.Add(w.busy + w.busy/2)) // lives and faults
	w.calm()
	w.settle()
	w.clear()
}

// start starts a manager.
func (w *World) start() {
	w.started++
	name := fmt.Sprintf("m%d", w.started)
	w.trace("start " + name)
	w.managers[name] = w.startManager(name)
}

// kill kills a manager, and starts another one some time later.
func (w *World) kill(m *manager) {
	if m == nil || w.managers[m.manager] != m || !m.works.Load() {
		return // it is dead, or has not begun
	}
	m.kill()
	w.bury(m, w.soon())
}

// soon is when a manager that has ended is started again.
func (w *World) soon() time.Duration {
	return time.Duration(w.draw.ExpFloat64() * float64(3*time.Second))
}

func (w *World) bury(m *manager, startsAgain time.Duration) {
	delete(w.managers, m.manager)
	w.dying = append(w.dying, m)
	w.later(startsAgain, "start a manager", w.start)
}

// names are the names of the managers that live, in order.
func (w *World) names() []string {
	var names []string
	for name := range w.managers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// buryDead replaces managers that have ended by themselves, as those do that lose their lease.
func (w *World) buryDead() {
	for _, name := range w.names() {
		m := w.managers[name]
		select {
		case err := <-m.ended:
			m.ended <- err
			w.trace(fmt.Sprintf("%s ended: %v", name, err))
			w.bury(m, w.soon())
		default:
		}
	}
}

// leader is the manager that renewed the lease last, or the only one.
func (w *World) leader() *manager {
	names := w.names()
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if w.renewed == name {
			return w.managers[name]
		}
	}
	return w.managers[names[0]]
}

// halt halts the machine of a manager: nothing that it asks for goes on, and it hears of nothing. What was on its way
// is lost.
func (w *World) halt(m *manager, lasts time.Duration) {
	m.halted = true
	for _, waiter := range w.turnstile.waiting() {
		if waiter.manager == m.manager && !waiter.pass {
			w.turnstile.let(waiter, refuse)
		}
	}
	w.later(lasts, "end the halt of "+m.manager, func() {
		m.halted = false
		for _, waiter := range w.turnstile.waiting() {
			if waiter.manager == m.manager && !waiter.pass {
				w.turnstile.let(waiter, refuse)
			}
		}
	})
}

// end kills all managers, and waits until their goroutines have ended: otherwise the bubble would not end.
func (w *World) end() {
	w.result.Virtual = time.Since(w.began)
	w.result.Violation = w.violation
	if w.violation != nil {
		w.result.Objects = w.describe()
	}
	for _, name := range w.names() {
		w.managers[name].kill()
		w.dying = append(w.dying, w.managers[name])
	}
	for _, m := range w.dying {
		if err := <-m.ended; err != nil {
			w.trace(m.manager + " ended: " + err.Error())
		}
	}
	time.Sleep(time.Hour) // what a manager leaves behind ends by its timeouts
}

// note keeps what a goroutine says. Goroutines say it in any order.
func (w *World) note(line string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.notes = append(w.notes, line)
}

// writeNotes writes what goroutines have said since the last step.
func (w *World) writeNotes() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	slices.Sort(w.notes)
	for _, line := range w.notes {
		w.trace("  " + line)
	}
	w.notes = w.notes[:0]
}

// objects lists objects in the order of their names.
func (w *World) objects(list client.ObjectList, options ...client.ListOption) []client.Object {
	if err := w.user.List(w.ctx, list, options...); err != nil {
		panic(err)
	}
	var out []client.Object
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		out = append(out, o.(client.Object))
		return nil
	}); err != nil {
		panic(err)
	}
	slices.SortStableFunc(out, compareNames)
	return out
}
