// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader is a cache of ConfigMaps with a label, which is filled over HTTP.
type reader struct {
	t      *testing.T
	server *Server
	admin  client.Client
	cache  cache.Cache
}

// watching runs a test with a reader that gets nothing before the test delivers it.
func watching(t *testing.T, test func(r *reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(random(), Options{})
		r := &reader{t: t, server: s, admin: s.Client(Admin)}
		r.make("a", "yes")
		r.make("b", "no")
		config := &rest.Config{Host: Host, Transport: s.Transport("reader")}
		selector := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"seen": "yes"})}
		var err error
		r.cache, err = cache.New(config, cache.Options{Scheme: builtinScheme(), ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: selector}})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		_, err = r.cache.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		must(t, err)
		go func() { _ = r.cache.Start(ctx) }()
		synctest.Wait()
		test(r)
	})
}

func (r *reader) make(name, label string) {
	r.t.Helper()
	must(r.t, r.admin.Create(r.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"seen": label}}}))
}

func (r *reader) patch(name, patch string) {
	r.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	must(r.t, r.admin.Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// pending is how many deliveries wait; -1 if nobody watches.
func (r *reader) pending() int {
	synctest.Wait()
	streams := r.server.Streams()
	if len(streams) == 0 {
		return -1
	}
	return streams[0].Pending()
}

// next delivers one event, and checks what the cache has then.
func (r *reader) next(want string) {
	r.t.Helper()
	if r.pending() <= 0 {
		r.t.Fatalf("nothing is pending, but the cache should have %q", want)
	}
	r.server.Streams()[0].Deliver()
	r.has(want)
}

func (r *reader) has(want string) {
	r.t.Helper()
	synctest.Wait()
	var list corev1.ConfigMapList
	must(r.t, r.cache.List(r.t.Context(), &list))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name+list.Items[i].Data["x"])
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != want {
		r.t.Errorf("the cache has %q, want %q", got, want)
	}
}

// A reader sees the objects that match its selector, as they begin and cease to, in order and when they are delivered.
func TestWatch(t *testing.T) {
	watching(t, func(r *reader) {
		r.next("a") // all initial events are one
		r.make("c", "yes")
		r.patch("b", `{"metadata":{"labels":{"seen":"yes"}}}`)
		r.patch("a", `{"data":{"x":"1"}}`)
		r.patch("b", `{"metadata":{"labels":{"seen":"no"}}}`)
		must(t, r.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}))
		r.has("a")
		for _, want := range []string{"a c", "a b c", "a1 b c", "a1 c", "a1"} {
			r.next(want)
		}
		if n := r.pending(); n != 0 {
			t.Errorf("%d deliveries are left", n)
		}
	})
}

// A reader whose connection breaks goes on where it was, and one whose version is too old begins anew.
func TestWatchEnds(t *testing.T) {
	watching(t, func(r *reader) {
		r.next("a")
		r.make("c", "yes")
		must(t, r.server.Streams()[0].Close())
		r.again()
		r.next("a c")
		r.make("d", "yes")
		r.server.Streams()[0].Expire()
		r.again()
		r.next("a c d")
		r.make("e", "yes")
		must(t, r.server.Streams()[0].Close())
		r.server.Forget()
		r.again()
		r.next("a c d e")
	})
}

// again lets time pass until the reader watches again.
func (r *reader) again() {
	for range 100 {
		if r.pending() > 0 {
			return
		}
		time.Sleep(time.Second) // in the bubble
	}
	r.t.Fatal("nobody watches")
}
