// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type (
	namespace = corev1.Namespace
	key       = types.NamespacedName
)

// table has the objects of a resource.
type table struct {
	*Resource
	objects map[key]*version
	sorted  []key // in the order of lists
	// history are the changes for watches that begin at an old version. Those before oldest are forgotten.
	history []change
	oldest  uint64
	changed uint64
}

// version is an object at one resource version. It never changes.
type version struct {
	table  *table
	key    key
	number uint64
	// object is what the server has; typed for built-in kinds, otherwise unstructured.
	object client.Object
	labels labels.Set
	owners []metav1.OwnerReference
	// typed is the object of a custom resource for the direct client, once asked for.
	typed    client.Object
	encoding [encodings][]byte
}

// change is what a write did to an object.
type change struct {
	what   watch.EventType
	number uint64
	before *version // nil for a creation
	after  *version // of a deletion: the last state with the version of the deletion
}

// historyLength is how many changes of a kind a watch can begin before, at least.
const historyLength = 500

func newTable(r *Resource) *table {
	return &table{Resource: r, objects: map[key]*version{}}
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// store makes an object the newest version of its key, and tells the watches.
func (s *Server) store(t *table, k key, object client.Object) *version {
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	v := &version{table: t, key: k, number: s.version, object: object, labels: object.GetLabels(), owners: object.GetOwnerReferences()}
	before := t.objects[k]
	if before == nil {
		i, _ := slices.BinarySearchFunc(t.sorted, k, compareKeys)
		t.sorted = slices.Insert(t.sorted, i, k)
	}
	t.objects[k] = v
	what := watch.Modified
	if before == nil {
		what = watch.Added
	}
	s.tell(t, change{what: what, number: s.version, before: before, after: v})
	return v
}

// remove takes an object away, and tells the watches. The last state that they see may be newer than the one stored.
func (s *Server) remove(v *version, object client.Object) *version {
	t := v.table
	s.version++
	last := &version{table: t, key: v.key, number: s.version, object: shallow(object), labels: object.GetLabels(), owners: object.GetOwnerReferences()}
	last.object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	delete(t.objects, v.key)
	if i, found := slices.BinarySearchFunc(t.sorted, v.key, compareKeys); found {
		t.sorted = slices.Delete(t.sorted, i, i+1)
	}
	s.tell(t, change{what: watch.Deleted, number: s.version, before: v, after: last})
	return last
}

func (s *Server) tell(t *table, c change) {
	t.changed = c.number
	if t.history = append(t.history, c); len(t.history) > 2*historyLength {
		forgotten := len(t.history) - historyLength
		t.oldest = t.history[forgotten-1].number
		t.history = append([]change(nil), t.history[forgotten:]...)
	}
	for _, stream := range s.streams {
		if stream.table == t {
			stream.add(c)
		}
	}
	s.afterChange(t, c)
}

// record notes a write in the log.
func (s *Server) record(w *write, before, after *version) {
	entry := Entry{
		User: w.user, Verb: w.verb, Kind: w.table.Kind, Subresource: w.subresource, Key: w.key, Version: s.version, Time: time.Now(),
	}
	if before != nil {
		entry.Before = before.object
	}
	if after != nil {
		entry.After = after.object
	}
	s.log = append(s.log, entry)
}

// shallow copies an object, but not what it points to. Its metadata may be set then.
func shallow(object client.Object) client.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		content := make(map[string]any, len(u.Object))
		for k, v := range u.Object {
			content[k] = v
		}
		if metadata, ok := content["metadata"].(map[string]any); ok {
			copied := make(map[string]any, len(metadata))
			for k, v := range metadata {
				copied[k] = v
			}
			content["metadata"] = copied
		}
		return &unstructured.Unstructured{Object: content}
	}
	return shallowTyped(object)
}

// Forget forgets the history of all kinds: watches cannot begin at an earlier version any more, and get 410 Gone.
func (s *Server) Forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, t := range s.tables {
		t.history, t.oldest = nil, s.version
	}
}
