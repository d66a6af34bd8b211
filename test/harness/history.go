// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// History has every state of objects of some kinds, in the order in which the API server stored them: all kinds share one
// sequence of resource versions.
type History struct {
	mutex  sync.Mutex
	events []Event
}

// Event is one state of an object; Gone is true if it was deleted, and At is when that was seen.
type Event struct {
	Version uint64
	Object  client.Object
	Gone    bool
	At      time.Time
}

// Record begins to record objects of some kinds, each with its list. It ends with the context.
func (c *Cluster) Record(ctx context.Context, kinds map[client.Object]client.ObjectList) (*History, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	watcher, err := client.NewWithWatch(config, client.Options{Scheme: c.suite.Scheme})
	if err != nil {
		return nil, err
	}
	h := &History{}
	var listed []<-chan struct{}
	for object, list := range kinds {
		s := &store{History: h, last: map[types.UID]client.Object{}, listed: make(chan struct{})}
		listed = append(listed, s.listed)
		source := &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				out := list.DeepCopyObject().(client.ObjectList)
				return out, watcher.List(ctx, out, &client.ListOptions{Raw: &options})
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return watcher.Watch(ctx, list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Raw: &options})
			},
		}
		go toolscache.NewReflector(source, object, s, 0).RunWithContext(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for _, done := range listed {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, errors.New("watching: no answer")
		}
	}
	return h, nil
}

func (h *History) add(object client.Object, at string, gone bool) {
	version, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		panic(err)
	}
	object.SetManagedFields(nil)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.events = append(h.events, Event{version, object, gone, WallClock.Now()})
}

// store takes what a reflector of one kind sees.
type store struct {
	*History
	last   map[types.UID]client.Object // only one goroutine uses it
	once   sync.Once
	listed chan struct{}
}

func (s *store) Add(object any) error { return s.Update(object) }

func (s *store) Update(object any) error {
	o := object.(client.Object)
	s.last[o.GetUID()] = o
	s.add(o, o.GetResourceVersion(), false)
	return nil
}

func (s *store) Delete(object any) error {
	o := object.(client.Object)
	delete(s.last, o.GetUID())
	s.add(o, o.GetResourceVersion(), true)
	return nil
}

// Replace sees all objects at once. When others were deleted is not known: before the list.
func (s *store) Replace(list []any, version string) error {
	there := map[types.UID]bool{}
	for _, object := range list {
		there[object.(client.Object).GetUID()] = true
	}
	for uid, object := range s.last {
		if !there[uid] {
			delete(s.last, uid)
			s.add(object, version, true)
		}
	}
	for _, object := range list {
		_ = s.Update(object)
	}
	s.once.Do(func() { close(s.listed) })
	return nil
}

func (s *store) Resync() error { return nil }

// All returns all events so far, as they came.
func (h *History) All() []Event {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return slices.Clone(h.events)
}

// Of returns the events of a namespace, and of what is in none, in order. It fails while the history has not seen yet that
// all in the namespace is gone.
func (h *History) Of(namespace string) ([]Event, error) {
	events := slices.DeleteFunc(h.All(), func(e Event) bool {
		return e.Object.GetNamespace() != "" && e.Object.GetNamespace() != namespace
	})
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Version, b.Version) })
	there := map[types.UID]client.Object{}
	for _, e := range events {
		if there[e.Object.GetUID()] = e.Object; e.Gone || e.Object.GetNamespace() == "" {
			delete(there, e.Object.GetUID())
		}
	}
	for _, object := range there {
		return nil, fmt.Errorf("%T %s is not seen to be gone", object, object.GetName())
	}
	return events, nil
}

// Latest returns the last resource version that the history has seen of an object; 0 for none.
func (h *History) Latest(object client.Object) uint64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].Object.GetUID() == object.GetUID() {
			return h.events[i].Version
		}
	}
	return 0
}

// AwaitSeen waits until a history has seen an object as it is, and so all that was before of its kind.
func (s *Site) AwaitSeen(h *History, object client.Object) {
	s.T.Helper()
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		s.T.Fatal(err)
	}
	Eventually(s.T, func() error {
		if seen := h.Latest(object); seen < version {
			return fmt.Errorf("of %T %s the version %d was seen, and not %d", object, object.GetName(), seen, version)
		}
		return nil
	})
}

// CheckHistory checks what must hold at every moment of a test. broken lists what did not, or fails until all was seen.
func (s *Site) CheckHistory(broken func() ([]string, error)) {
	s.T.Helper()
	err := Poll(func() error {
		problems, err := broken()
		for _, problem := range problems {
			s.T.Error(problem)
		}
		return err
	})
	if err != nil {
		s.T.Error(err)
	}
}
