// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import "reflect"

// Delta is what has changed since a viewer looked last, by kind.
type Delta struct {
	// Set has the items that are new or different.
	Set map[string][]any `json:"set,omitempty"`
	// Gone has the keys of the items that are gone.
	Gone map[string][]string `json:"gone,omitempty"`
}

// Empty reports whether nothing has changed.
func (d *Delta) Empty() bool { return len(d.Set) == 0 && len(d.Gone) == 0 }

// Since returns what has changed since another view; nil is one without anything.
func (v *View) Since(last *View) *Delta {
	if last == nil {
		last = &View{}
	}
	d := &Delta{Set: map[string][]any{}, Gone: map[string][]string{}}
	compare(d, "viewer", last.Viewer, v.Viewer)
	compare(d, "queues", last.Queues, v.Queues)
	compare(d, "reservations", last.Reservations, v.Reservations)
	compare(d, "miniClusters", last.MiniClusters, v.MiniClusters)
	compare(d, "nodes", last.Nodes, v.Nodes)
	compare(d, "samples", last.Samples, v.Samples)
	return d
}

// Since returns what has changed since another time; nil is one without anything.
func (l *Life) Since(last *Life) *Delta {
	if last == nil {
		last = &Life{}
	}
	d := &Delta{Set: map[string][]any{}, Gone: map[string][]string{}}
	compare(d, "story", last.Story, l.Story)
	compare(d, "brokers", last.Brokers, l.Brokers)
	return d
}

// compare adds the differences between the items of a kind.
func compare[T interface{ Key() string }](d *Delta, kind string, before, after []T) {
	old := make(map[string]*T, len(before))
	for i := range before {
		old[before[i].Key()] = &before[i]
	}
	for i := range after {
		key := after[i].Key()
		if was := old[key]; was == nil || !reflect.DeepEqual(*was, after[i]) {
			d.Set[kind] = append(d.Set[kind], after[i])
		}
		delete(old, key)
	}
	for i := range before {
		if key := before[i].Key(); old[key] != nil {
			d.Gone[kind] = append(d.Gone[kind], key)
		}
	}
}
