// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// chaos is many lives with faults at once, on nodes that vanish, led by a manager that is
// killed.
type chaos struct {
	*site
	record *record
	deeds  deeds
	lives  []*life
	urgent string // a priority class
	// absences are when nodes were not there.
	absences []absence
	// kills are how often each program was killed.
	kills map[string]int
	// managerIsAway is true from when the manager is killed until it is started again.
	managerIsAway bool
}

// life is a MiniCluster and its fate.
type life struct {
	*fate
	mc *v1alpha2.MiniCluster
	// end is what became of it.
	end string
}

// absence is a while in which there was no node of a name.
type absence struct {
	node        string
	from, until time.Time
}

// deed is something that is done at its time.
type deed struct {
	at time.Time
	do func()
}

// deeds are a heap: what is due first comes first.
type deeds []deed

func (d deeds) Len() int           { return len(d) }
func (d deeds) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deeds) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deeds) Push(x any)        { *d = append(*d, x.(deed)) }
func (d *deeds) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// later has something done after a while.
func (c *chaos) later(after time.Duration, do func()) {
	heap.Push(&c.deeds, deed{wallClock.Now().Add(after), do})
}

// run does all there is to be done.
func (c *chaos) run() {
	for len(c.deeds) > 0 {
		next := heap.Pop(&c.deeds).(deed)
		<-wallClock.After(next.at.Sub(wallClock.Now()))
		next.do()
	}
}

// live lets all live and come to their ends, and checks that nothing was done twice, and
// that nothing is left over once those that are left are deleted.
func (c *chaos) live(before inventory) {
	c.t.Helper()
	c.run()
	c.settle()
	c.record.check(c.site)
	c.removeAll()
	if err := poll(func() error { return c.nothingNew(before) }); err != nil {
		c.t.Error(err)
	}
}

// pick chooses a fate by weight.
func pick(r *rand.Rand) *fate {
	sum := 0
	for i := range fates {
		sum += fates[i].weight
	}
	n := r.IntN(sum)
	for i := range fates {
		if n -= fates[i].weight; n < 0 {
			return &fates[i]
		}
	}
	return nil
}

// begin begins a life of some fate.
func (c *chaos) begin(name string, f *fate, r *rand.Rand) {
	c.t.Helper()
	l := &life{fate: f, mc: &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	c.lives = append(c.lives, l)
	c.make(l, c.shaped(r, l))
	if f.then != nil {
		f.then(c, r, l)
	}
}

func (c *chaos) shaped(r *rand.Rand, l *life) *fixture.MiniClusterWrapper {
	c.t.Helper()
	w := c.miniCluster(l.mc.Name).Size(1+r.Int32N(6)).PodAnnotation(simulator.Runtime, fmt.Sprintf("%dms", 500+r.IntN(5000))).
		Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Elastic.Recreate = v1alpha2.Recreate{BackoffBase: duration("2s"), BackoffMax: duration("8s")}
		})
	if l.shape != nil {
		l.shape(c, r, w)
	}
	return w
}

// make makes it, once one of its name that is deleted is gone.
func (c *chaos) make(l *life, w *fixture.MiniClusterWrapper) {
	c.t.Helper()
	eventually(c.t, func() error {
		mc := w.New()
		mc.Namespace = c.namespace
		err := env.client.Create(c.ctx, mc)
		if err == nil {
			l.mc = mc
		}
		return err
	})
}

// write changes one that may be gone.
func (c *chaos) write(l *life, format string, args ...any) {
	c.t.Helper()
	err := env.client.Patch(c.ctx, l.mc.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
	if client.IgnoreNotFound(err) != nil {
		c.t.Errorf("changing %s: %v", l.mc.Name, err)
	}
}

func (c *chaos) remove(l *life, how metav1.DeletionPropagation) {
	c.t.Helper()
	err := env.client.Delete(c.ctx, l.mc.DeepCopy(), client.PropagationPolicy(how))
	if client.IgnoreNotFound(err) != nil {
		c.t.Errorf("deleting %s: %v", l.mc.Name, err)
	}
}

// killManager kills it, and starts it again some time after.
func (c *chaos) killManager(pause time.Duration) {
	c.t.Helper()
	if c.managerIsAway { // the machine is slow, and the test behind its times
		return
	}
	select {
	case <-env.manager.Done:
		c.t.Fatal("the manager ended by itself")
	default:
	}
	env.manager.Kill()
	c.kills["manager"]++
	c.managerIsAway = true
	c.later(pause, func() {
		restartManager(c.t)
		c.managerIsAway = false
	})
}

// killController kills a part of the control plane, and starts it again some time after.
func (c *chaos) killController(name string, pause time.Duration) {
	c.t.Helper()
	if err := env.cluster.Kill(c.ctx, name); err != nil {
		c.t.Fatal(err)
	}
	c.kills[name]++
	c.t.Cleanup(func() { _ = env.cluster.Start(c.ctx, name) }) // where the test ends before it is
	c.later(pause, func() {
		c.t.Helper()
		if err := env.cluster.Start(c.ctx, name); err != nil {
			c.t.Fatal(err)
		}
	})
}

// leadAgain starts the manager where a test ended while it was away.
func (c *chaos) leadAgain() {
	select {
	case <-env.manager.Done:
		restartManager(c.t)
	default:
	}
}

// loseNode lets a node vanish for a while.
func (c *chaos) loseNode(name string, pause time.Duration) {
	c.t.Helper()
	if slices.ContainsFunc(c.absences, func(a absence) bool { return a.node == name && a.until.IsZero() }) {
		return // it is away
	}
	c.absences = append(c.absences, absence{node: name, from: wallClock.Now()})
	i := len(c.absences) - 1
	bring := c.takeNode(name)
	c.t.Cleanup(bring)
	c.later(pause, func() {
		c.t.Helper()
		bring()
		c.absences[i].until = wallClock.Now()
	})
}

// unlucky reports whether it had a node that vanished.
func (c *chaos) unlucky(l *life) bool {
	seen := c.record.of(l.mc)
	return slices.ContainsFunc(c.absences, func(a absence) bool { return seen.heldOn(c.t, a.node, a.from, a.until) })
}

// settle waits until all are done, or wait for what does not come, and hold no node.
func (c *chaos) settle() {
	c.t.Helper()
	err := pollFor(6*timeout, func() error {
		var errs []error
		for _, l := range c.lives {
			if l.end == "" {
				errs = append(errs, c.settled(l))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		c.t.Error(err)
	}
	for _, l := range c.lives {
		switch seen := c.record.of(l.mc); {
		case l.end == "", slices.Contains(l.ends, l.end):
		case c.unlucky(l) && seen.last.DeletionTimestamp == nil && l.end != endGone && l.end != endWaits:
		default:
			c.t.Errorf("%s (%s) ended %s, want one of %v: %+v", l.mc.Name, l.name, l.end, l.ends, seen.last.Status.Attempts)
		}
	}
	eventually(c.t, c.noNodeHeld)
}

// settled looks whether a life is, and how it ended.
func (c *chaos) settled(l *life) error {
	var mc v1alpha2.MiniCluster
	err := env.client.Get(c.ctx, client.ObjectKeyFromObject(l.mc), &mc)
	admitted := condition(&mc, v1alpha2.ConditionAdmitted)
	switch {
	case apierrors.IsNotFound(err):
		l.end = endGone
	case err != nil:
		return final(err)
	case slices.Contains(l.ends, endGone) && !mc.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s (%s) is being deleted", mc.Name, l.name)
	case outcome(&mc.Status) != "" && mc.Status.Nodes == 0 && !slices.Contains(l.ends, endGone):
		l.end = outcome(&mc.Status)
		if condition(&mc, v1alpha2.ConditionFinished).Message == "" {
			return final(fmt.Errorf("%s (%s) ended %s, and is not told why", mc.Name, l.name, l.end))
		}
	case slices.Contains(l.ends, endWaits) && admitted.Reason == v1alpha2.ReasonNeverFits && admitted.Message != "" && mc.Status.Nodes == 0:
		l.end = endWaits
	default:
		ready := condition(&mc, v1alpha2.ConditionReady)
		return fmt.Errorf("%s (%s) is %s, with %d nodes: %s", mc.Name, l.name, ready.Reason, mc.Status.Nodes, ready.Message)
	}
	return nil
}

// noNodeHeld checks that no pod is on a node but those that have ended.
func (c *chaos) noNodeHeld() error {
	var list corev1.PodList
	if err := env.client.List(c.ctx, &list, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("pod %s is %s on %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		}
	}
	return nil
}

// table shows what happened to how many.
func (c *chaos) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d lives; killed: %s; %d nodes vanished\n", len(c.lives), counted(c.kills), len(c.absences))
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fate\tlives\tlost a node\tadmitted\truns\tends")
	for i := range fates {
		f, row := &fates[i], summary{}
		for _, l := range c.lives {
			if l.fate == f {
				row.add(c, l)
			}
		}
		if row.lives == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", f.name, row.lives, row.unlucky, row.admitted, row.runs, counted(row.ends))
	}
	_ = table.Flush()
	decisions := map[string]int{}
	for _, seen := range c.record.all() {
		for _, d := range seen.decisions {
			decisions[d.Reason]++
		}
	}
	fmt.Fprintf(&out, "decisions, each told once: %s\n", counted(decisions))
	return out.String()
}

// summary is a row of the table.
type summary struct {
	lives, unlucky, admitted, runs int
	ends                           map[string]int
}

func (s *summary) add(c *chaos, l *life) {
	s.lives++
	if c.unlucky(l) {
		s.unlucky++
	}
	for uid, seen := range c.record.all() {
		if seen.name == l.mc.Name { // those before it, too
			s.admitted += seen.times("Admitted")
			s.runs += c.record.runsOf(uid)
		}
	}
	if s.ends == nil {
		s.ends = map[string]int{}
	}
	end := l.end
	if end == "" {
		end = "not settled"
	}
	s.ends[end]++
}

// counted are words with their numbers, in order.
func counted(counts map[string]int) string {
	var words []string
	for word, n := range counts {
		words = append(words, fmt.Sprintf("%s %d", word, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}
