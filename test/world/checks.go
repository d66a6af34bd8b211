// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

// checks are what may never be, and what has to be known to tell.
type checks struct {
	world     *World
	violation error
	seen      int // entries of the log
	// facts are what is known of each MiniCluster.
	facts map[types.UID]*facts
	// events are the names of all events that were created, and went those of events that were deleted.
	events map[types.NamespacedName]int
	went   map[types.NamespacedName]bool
	// excused are the MiniClusters whose pods somebody removed by force, until when: the processes go on for a while.
	excused map[types.UID]time.Time
	// quiet counts writes and passes since a time at which nothing is left to be done.
	writes, passes map[string]int
	// busySince is when time last passed, and idle counts the steps since then.
	busySince time.Time
	idle      int
	// happened are the conditions of dependencies that were so of a MiniCluster of a name.
	happened  map[dependency]bool
	processes processes
}

// dependency is a condition of a MiniCluster of a name.
type dependency struct {
	types.NamespacedName
	condition v1alpha2.DependencyCondition
}

// facts are what is known of a MiniCluster.
type facts struct {
	name types.NamespacedName
	last *v1alpha2.MiniCluster
	gone bool
	// admitted and ended are when an attempt got its nodes, and gave the nodes back.
	admitted, ended map[int32]time.Time
	// decisions are those that a status recorded, by the names of their events.
	decisions map[string]v1alpha2.Decision
}

func newChecks(w *World) *checks {
	return &checks{
		world: w, facts: map[types.UID]*facts{}, events: map[types.NamespacedName]int{}, excused: map[types.UID]time.Time{},
		went: map[types.NamespacedName]bool{}, happened: map[dependency]bool{},
		writes: map[string]int{}, passes: map[string]int{}, processes: newProcesses(),
	}
}

// violate records the first violation.
func (c *checks) violate(format string, args ...any) {
	if c.violation == nil {
		c.violation = fmt.Errorf(format, args...)
		c.world.trace("! " + c.violation.Error())
	}
}

// mostIdle is how many things may happen without any time passing. More are a livelock.
const mostIdle = 20000

// check looks at what has changed since the last step.
func (c *checks) check() {
	for _, entry := range c.world.server.Log(c.seen) {
		c.seen++
		c.entry(&entry)
	}
	c.checkProcesses()
	if now := time.Now(); now.After(c.busySince.Add(time.Second)) {
		c.busySince, c.idle = now, 0
	}
	if c.idle++; c.idle > mostIdle {
		c.violate("%d steps within a second: a livelock", mostIdle)
	}
}

func (c *checks) entry(entry *apiserver.Entry) {
	if strings.HasPrefix(entry.User, managerUser) && entry.Kind != "Lease" {
		c.writes[entry.Verb+" "+entry.Kind+" "+entry.Key.String()]++
	}
	switch after := typed(entry.After).(type) {
	case *v1alpha2.MiniCluster:
		c.miniCluster(after)
	case *corev1.Pod:
		if before, ok := entry.Before.(*corev1.Pod); !ok || before.Spec.NodeName != after.Spec.NodeName {
			c.checkRoom(after)
		}
	case *eventsv1.Event:
		if entry.Before == nil && !c.went[entry.Key] {
			c.events[entry.Key]++
		}
	case nil:
		switch before := typed(entry.Before).(type) {
		case *v1alpha2.MiniCluster:
			c.factsOf(before).gone = true
		case *eventsv1.Event: // went with its namespace: a manager that was halted sends it again
			c.went[entry.Key] = true
		}
	}
}

// typed is a MiniCluster as its own type: the API server has custom resources without their types.
func typed(object client.Object) client.Object {
	u, ok := object.(*unstructured.Unstructured)
	if !ok || u.GetKind() != v1alpha2.MiniClusterKind {
		return object
	}
	mc := &v1alpha2.MiniCluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, mc); err != nil {
		panic(err)
	}
	return mc
}

func (c *checks) factsOf(mc *v1alpha2.MiniCluster) *facts {
	f := c.facts[mc.UID]
	if f == nil {
		f = &facts{name: types.NamespacedName{Namespace: mc.Namespace, Name: mc.Name}, decisions: map[string]v1alpha2.Decision{}, admitted: map[int32]time.Time{}, ended: map[int32]time.Time{}}
		c.facts[mc.UID] = f
	}
	return f
}

// miniCluster checks a state of a MiniCluster.
func (c *checks) miniCluster(mc *v1alpha2.MiniCluster) {
	f := c.factsOf(mc)
	decisions := slices.Clone(mc.Status.PendingEvents)
	if mc.Status.LastDecision != nil {
		decisions = append(decisions, *mc.Status.LastDecision)
	}
	for _, d := range decisions {
		f.decisions[minicluster.EventName(mc, d)] = d
	}
	if f.last != nil && outcomeOf(f.last) != "" && outcomeOf(mc) != outcomeOf(f.last) {
		c.violate("%s had ended with %s, and now has %q", f.name, outcomeOf(f.last), outcomeOf(mc))
	}
	f.note(mc, time.Now())
	if f.last == nil || len(f.last.Status.Attempts) != len(mc.Status.Attempts) {
		c.checkAttempts(mc)
	}
	c.checkDependencies(f, mc)
	c.release(f.last, mc)
	had := f.last != nil && outcomeOf(f.last) != "" // what runs until it is told of its outcome does not count
	f.last = mc
	if outcomeOf(mc) != "" && !had {
		c.checkOutcome(mc)
	}
}

// dependenciesMet are the conditions for which others may wait that are so of a MiniCluster.
func dependenciesMet(mc *v1alpha2.MiniCluster) (met []v1alpha2.DependencyCondition) {
	outcome := outcomeOf(mc)
	if mc.Status.StartTime != nil || mc.Status.Runs > 0 || outcome == v1alpha2.ReasonSucceeded {
		met = append(met, v1alpha2.DependencyStarted)
	}
	switch outcome {
	case "":
	case v1alpha2.ReasonSucceeded:
		met = append(met, v1alpha2.DependencyFinished, v1alpha2.DependencySucceeded)
	default:
		met = append(met, v1alpha2.DependencyFinished, v1alpha2.DependencyFailed)
	}
	return met
}

// checkDependencies checks that a MiniCluster which gets nodes has waited for all that it was to wait for.
func (c *checks) checkDependencies(f *facts, mc *v1alpha2.MiniCluster) {
	for _, condition := range dependenciesMet(mc) {
		c.happened[dependency{f.name, condition}] = true
	}
	if mc.Status.Admission == nil || f.last != nil && f.last.Status.Admission != nil {
		return
	}
	for _, d := range mc.Spec.After {
		if !c.happened[dependency{types.NamespacedName{Namespace: mc.Namespace, Name: d.Name}, d.Condition}] {
			c.violate("%s/%s has nodes, but %s was never %s", mc.Namespace, mc.Name, d.Name, d.Condition)
		}
	}
	if at := mc.Spec.NotBefore; at != nil && time.Now().Before(at.Add(-time.Minute)) {
		c.violate("%s/%s has nodes before %s", mc.Namespace, mc.Name, at) // the clock of a manager may be a minute before
	}
	c.checkSingleton(mc)
}

// checkSingleton checks that no other MiniCluster with the key of one that gets nodes has nodes.
func (c *checks) checkSingleton(mc *v1alpha2.MiniCluster) {
	if mc.Spec.Singleton == "" {
		return
	}
	for uid, f := range c.facts {
		other := f.last
		if uid == mc.UID || f.gone || other.Namespace != mc.Namespace || other.Spec.Singleton != mc.Spec.Singleton {
			continue
		}
		if other.Status.Admission != nil && outcomeOf(other) == "" {
			c.violate("%s/%s has nodes, and so has %s with the same key", mc.Namespace, mc.Name, other.Name)
		}
	}
}

// note notes when the attempts of a MiniCluster began and ended: the clock of a manager may be wrong.
func (f *facts) note(mc *v1alpha2.MiniCluster, now time.Time) {
	if a := mc.Status.Admission; a != nil && f.admitted[a.Attempt].IsZero() {
		f.admitted[a.Attempt] = now
	}
	for _, attempt := range mc.Status.Attempts {
		if f.ended[attempt.Attempt].IsZero() {
			f.ended[attempt.Attempt] = now
		}
	}
}

// outcomeOf is the reason for which a MiniCluster has finished; "" if it has not.
func outcomeOf(mc *v1alpha2.MiniCluster) string {
	if condition := conditionOf(mc, v1alpha2.ConditionFinished); condition.Status == metav1.ConditionTrue {
		return condition.Reason
	}
	return ""
}

func conditionOf(mc *v1alpha2.MiniCluster, kind string) metav1.Condition {
	for _, condition := range mc.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return metav1.Condition{}
}

// excuse notes that somebody removes a pod of a MiniCluster by force.
func (c *checks) excuse(pod *corev1.Pod) {
	c.excused[types.UID(pod.Labels[v1alpha2.UIDLabel])] = time.Now().Add(2 * time.Minute)
}

// checkEvents checks that no decision has two events.
func (c *checks) checkEvents() {
	for _, uid := range c.uids() {
		f := c.facts[uid]
		for _, name := range sortedKeys(f.decisions) {
			if n := c.events[types.NamespacedName{Namespace: f.name.Namespace, Name: name}]; n > 1 {
				c.violate("the decision %s of %s (%s) has %d events", f.decisions[name].Reason, f.name, f.decisions[name].Message, n)
			}
		}
	}
}

// unannounced returns an error if a decision of a MiniCluster that is there has no event.
func (c *checks) unannounced() error {
	for _, uid := range c.uids() {
		f := c.facts[uid]
		for _, name := range sortedKeys(f.decisions) {
			if c.events[types.NamespacedName{Namespace: f.name.Namespace, Name: name}] == 0 && !f.gone {
				return fmt.Errorf("the decision %s of %s (%s) has no event", f.decisions[name].Reason, f.name, f.decisions[name].Message)
			}
		}
	}
	return nil
}

// uids are the MiniClusters in the order of their names.
func (c *checks) uids() []types.UID {
	uids := make([]types.UID, 0, len(c.facts))
	for uid := range c.facts {
		uids = append(uids, uid)
	}
	slices.SortFunc(uids, func(a, b types.UID) int {
		if d := strings.Compare(c.facts[a].name.String(), c.facts[b].name.String()); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	return uids
}
