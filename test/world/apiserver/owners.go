// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// reference is an object that there is or was.
type reference struct {
	table *table
	key   key
	uid   types.UID
}

func (v *version) reference() reference {
	return reference{table: v.table, key: v.key, uid: v.object.GetUID()}
}

// current is the newest version of the object; nil if it is gone, also if there is another one of the name.
func (r reference) current() *version {
	if v := r.table.objects[r.key]; v != nil && v.object.GetUID() == r.uid {
		return v
	}
	return nil
}

// owners are the objects that others name as their owners, each with those others.
type owners map[types.UID]map[reference]bool

func (o owners) note(c change) {
	if c.before != nil {
		for i := range c.before.owners {
			set := o[c.before.owners[i].UID]
			if delete(set, c.before.reference()); len(set) == 0 {
				delete(o, c.before.owners[i].UID)
			}
		}
	}
	if c.what == "DELETED" {
		return
	}
	for i := range c.after.owners {
		uid := c.after.owners[i].UID
		if o[uid] == nil {
			o[uid] = map[reference]bool{}
		}
		o[uid][c.after.reference()] = true
	}
}

// dependents are the objects that name an owner, in an order that is always the same.
func (o owners) dependents(uid types.UID) []reference {
	found := make([]reference, 0, len(o[uid]))
	for r := range o[uid] {
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.table.Kind, b.table.Kind), compareKeys(a.key, b.key), cmp.Compare(a.uid, b.uid))
	})
	return found
}

// owner finds an owner of an object. known is false if the server has no such kind.
func (s *Server) owner(of *version, r *metav1.OwnerReference) (owner *version, known bool) {
	t := s.tableOf(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if t == nil {
		return nil, false
	}
	k := key{Name: r.Name}
	if t.Namespaced {
		k.Namespace = of.key.Namespace
	}
	return reference{table: t, key: k, uid: r.UID}.current(), true
}

func (v *version) isDeleting() bool { return v.object.GetDeletionTimestamp() != nil }

// waitsForDependents reports whether an object goes after its dependents.
func (v *version) waitsForDependents() bool {
	return v.isDeleting() && slices.Contains(v.object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// leavesDependents reports whether an object goes once its dependents do not name it any more.
func (v *version) leavesDependents() bool {
	return v.isDeleting() && slices.Contains(v.object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}
