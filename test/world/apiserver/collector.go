// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// collectorUser is the user of the garbage collector.
const collectorUser = "system:serviceaccount:kube-system:generic-garbage-collector"

// GarbageCollector deletes the objects whose owners are gone, and ends the deletions of owners that wait for their
// dependents or leave them: k8s.io/kubernetes/pkg/controller/garbagecollector. Its caches do not lag: it acts late, when
// it is stepped, but on what is there then. (The real one asks the API server before it deletes, too.)
type GarbageCollector struct {
	server *Server
	queue  []reference
	queued map[reference]bool
	// unknown have an owner of a kind that the server does not have.
	unknown []reference
}

// NewGarbageCollector makes the garbage collector of a server. A server has one at most.
func NewGarbageCollector(s *Server) *GarbageCollector {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	g := &GarbageCollector{server: s, queued: map[reference]bool{}}
	for _, t := range s.tables {
		for _, k := range t.sorted {
			g.look(t.objects[k])
		}
	}
	s.collector = g
	return g
}

// Name implements models.Model.
func (g *GarbageCollector) Name() string { return "garbage-collector" }

// Next implements models.Model: the garbage collector waits for changes alone.
func (g *GarbageCollector) Next() time.Time { return time.Time{} }

// Step implements models.Model: it does one write, if there is one to do.
func (g *GarbageCollector) Step(context.Context) bool {
	g.server.mutex.Lock()
	defer g.server.mutex.Unlock()
	for len(g.queue) > 0 {
		r := g.queue[0]
		g.queue = g.queue[1:]
		delete(g.queued, r)
		if g.process(r) {
			return true
		}
	}
	return false
}

func (g *GarbageCollector) add(r reference) {
	if !g.queued[r] {
		g.queued[r] = true
		g.queue = append(g.queue, r)
	}
}

// look queues an object that the garbage collector may have to do with.
func (g *GarbageCollector) look(v *version) {
	if len(v.owners) > 0 || v.waitsForDependents() || v.leavesDependents() {
		g.add(v.reference())
	}
}

// see notes a change, as the real one's graph of objects does.
func (g *GarbageCollector) see(c change) {
	if c.before != nil {
		for i := range c.before.owners { // who waits for this object may go on
			if owner, _ := g.server.owner(c.before, &c.before.owners[i]); owner != nil && owner.waitsForDependents() {
				g.add(owner.reference())
			}
		}
	}
	isGone := c.what == "DELETED"
	if !isGone {
		g.look(c.after)
	}
	if isGone || c.after.waitsForDependents() {
		for _, dependent := range g.server.owners.dependents(c.after.object.GetUID()) {
			g.add(dependent)
		}
	}
	if c.after.table.Kind == "CustomResourceDefinition" {
		for _, r := range g.unknown {
			g.add(r)
		}
		g.unknown = nil
	}
}

// process looks at one object, and reports whether it wrote.
func (g *GarbageCollector) process(r reference) bool {
	v := r.current()
	switch {
	case v == nil:
		return false
	case v.leavesDependents():
		return g.orphan(v)
	case v.waitsForDependents():
		return g.finish(v)
	case v.isDeleting() || len(v.owners) == 0:
		return false
	}
	return g.collect(v)
}

// orphan takes an owner out of its dependents, one at a step, and then lets the owner go.
func (g *GarbageCollector) orphan(v *version) bool {
	for _, r := range g.server.owners.dependents(v.object.GetUID()) {
		if dependent := r.current(); dependent != nil {
			g.add(v.reference())
			return g.disown(dependent, v.object.GetUID())
		}
	}
	return g.removeFinalizer(v, metav1.FinalizerOrphanDependents)
}

// finish lets an owner go once no dependent is left that blocks its deletion.
func (g *GarbageCollector) finish(v *version) bool {
	for _, r := range g.server.owners.dependents(v.object.GetUID()) {
		dependent := r.current()
		blocks := func(o metav1.OwnerReference) bool {
			return o.UID == v.object.GetUID() && o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion
		}
		if dependent != nil && slices.ContainsFunc(dependent.owners, blocks) {
			return false // it is queued: the owner's change or its own has done that
		}
	}
	return g.removeFinalizer(v, metav1.FinalizerDeleteDependents)
}

// collect deletes an object that no owner keeps, or takes out the owners that keep it no more.
func (g *GarbageCollector) collect(v *version) bool {
	var solid, lost int
	var waiting, absent []types.UID
	for i := range v.owners {
		switch owner, known := g.server.owner(v, &v.owners[i]); {
		case !known:
			lost++
		case owner == nil:
			absent = append(absent, v.owners[i].UID)
		case owner.waitsForDependents():
			waiting = append(waiting, v.owners[i].UID)
		default:
			solid++
		}
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case lost > 0:
		g.unknown = append(g.unknown, v.reference())
		return false
	case solid > 0 && len(absent)+len(waiting) == 0:
		return false
	case solid > 0:
		return g.disown(v, append(absent, waiting...)...)
	case len(waiting) > 0 && len(g.server.owners[v.object.GetUID()]) > 0:
		policy = metav1.DeletePropagationForeground
	case slices.Contains(v.object.GetFinalizers(), metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(v.object.GetFinalizers(), metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	_, _, err := g.write(v, "delete").delete(&metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: uidOf(v.object), ResourceVersion: new(v.object.GetResourceVersion())},
	})
	return err == nil
}

func (g *GarbageCollector) write(v *version, verb string) *write {
	return &write{server: g.server, user: collectorUser, verb: verb, table: v.table, key: v.key}
}

// disown takes owners out of an object.
func (g *GarbageCollector) disown(v *version, uids ...types.UID) bool {
	object := shallow(v.object)
	object.SetOwnerReferences(slices.DeleteFunc(slices.Clone(v.owners), func(o metav1.OwnerReference) bool { return slices.Contains(uids, o.UID) }))
	g.write(v, "patch").keep(v, object)
	return true
}

func (g *GarbageCollector) removeFinalizer(v *version, finalizer string) bool {
	object := shallow(v.object)
	object.SetFinalizers(slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer }))
	g.write(v, "patch").keep(v, object)
	return true
}
