// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// podWatch sees every state of every pod, and remembers what must never be: a pod
// that is bound before every pod of its gang is placed, and a node that two brokers
// of a whole node hold at once.
type podWatch struct {
	mutex   sync.Mutex
	bound   map[types.UID]string // node, by pod
	holders map[string]types.UID // pod, by node
	// leads are the lead pods that have run, by MiniCluster.
	leads map[types.NamespacedName]map[types.UID]bool
	// alive are the pods that exist, and firstBound how many there were when the
	// first was bound, by JobSet.
	alive      map[string]int
	known      map[types.UID]types.NamespacedName // MiniCluster, by pod
	firstBound map[string]int
	violations map[string][]string // by namespace
	newest     uint64              // version of a pod that was seen
	// deleted are MiniClusters whose new pods do not count.
	deleted map[types.UID]bool
	// last are the pods as they were seen last.
	last map[types.UID]*corev1.Pod
	// watching is closed once changes are seen. An API server that has just started may answer a list,
	// and no watch yet.
	watching chan struct{}
	opened   func()
}

// retryAfter is how long the API server is left alone that did not answer.
const retryAfter = 200 * time.Millisecond

func watchPods(ctx context.Context, config *rest.Config) (*podWatch, error) {
	w := &podWatch{
		bound: map[types.UID]string{}, holders: map[string]types.UID{}, leads: map[types.NamespacedName]map[types.UID]bool{},
		alive: map[string]int{}, known: map[types.UID]types.NamespacedName{}, firstBound: map[string]int{},
		violations: map[string][]string{}, deleted: map[types.UID]bool{},
		last: map[types.UID]*corev1.Pod{}, watching: make(chan struct{}),
	}
	w.opened = sync.OnceFunc(func() { close(w.watching) })
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	go w.follow(ctx, c.CoreV1().Pods(metav1.NamespaceAll))
	select {
	case <-w.watching:
		return w, nil
	case <-wallClock.After(timeout):
		return nil, errors.New("watching pods: no answer")
	}
}

// follow sees every change of the pods. A reflector would list them again whenever its watch breaks, and
// miss what passed meanwhile. This watch goes on where it broke, as long as the API server knows what
// came then.
func (w *podWatch) follow(ctx context.Context, pods typedcorev1.PodInterface) {
	for ; ctx.Err() == nil; wallClock.Sleep(retryAfter) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			w.say(ctx, err)
			continue
		}
		w.replace(list.Items)
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				opened, err := pods.Watch(ctx, options)
				if err == nil {
					w.opened()
				}
				return opened, err
			},
		})
		if err != nil {
			w.say(ctx, err)
			continue
		}
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				w.update(pod, event.Type == watch.Deleted)
			} else {
				w.say(ctx, apierrors.FromObject(event.Object))
			}
		}
	}
}

// say tells why pods may have been missed.
func (w *podWatch) say(ctx context.Context, err error) {
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "The watch of the pods begins anew:", err)
	}
}

func (w *podWatch) update(pod *corev1.Pod, gone bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.see(pod, gone)
}

// replace sees all pods at once. It comes first, and again after the API server was away. What has
// ended meanwhile is seen first: a pod may have the node of one that is gone.
func (w *podWatch) replace(list []corev1.Pod) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	there := map[types.UID]bool{}
	for _, pod := range list {
		there[pod.UID] = true
	}
	for uid, pod := range w.last {
		if !there[uid] {
			w.see(pod, true)
		}
	}
	for _, ended := range []bool{true, false} {
		for i := range list {
			if protocol.Ended(&list[i]) == ended {
				w.see(&list[i], false)
			}
		}
	}
}

// see remembers a pod. The caller holds the mutex.
func (w *podWatch) see(pod *corev1.Pod, gone bool) {
	w.newest = max(w.newest, versionOf(pod))
	if w.last[pod.UID] = pod; gone {
		delete(w.last, pod.UID)
	}
	rank, ok := protocol.Rank(pod)
	if !ok || pod.Labels[v1alpha2.MiniClusterLabel] == "" {
		return
	}
	set := pod.Labels[jobsetapi.JobSetUIDKey]
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha2.MiniClusterLabel]}
	if _, ok := w.known[pod.UID]; !ok {
		if w.deleted[types.UID(pod.Labels[v1alpha2.UIDLabel])] {
			return
		}
		w.known[pod.UID] = name
		w.alive[set]++
	}
	if gone {
		w.alive[set]--
	}
	if rank == 0 {
		if w.leads[name] == nil {
			w.leads[name] = map[types.UID]bool{}
		}
		if pod.Status.Phase == corev1.PodRunning {
			w.leads[name][pod.UID] = true
		}
	}
	ended := gone || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	node := pod.Spec.NodeName
	switch {
	case ended:
		if w.holders[w.bound[pod.UID]] == pod.UID {
			delete(w.holders, w.bound[pod.UID])
		}
		delete(w.bound, pod.UID)
	case node != "" && w.bound[pod.UID] == "":
		if other, held := w.holders[node]; held && wholeNode(pod) {
			w.violations[pod.Namespace] = append(w.violations[pod.Namespace], fmt.Sprintf("pods %s and %s hold %s at once", pod.Name, w.last[other].Name, node))
		}
		w.bound[pod.UID] = node
		if _, ok := w.firstBound[set]; !ok {
			w.firstBound[set] = w.alive[set]
		}
		if wholeNode(pod) {
			w.holders[node] = pod.UID
		}
	}
}

// ignoreNew ignores the pods of a deleted MiniCluster that are made from now on. After its API server was away, a Job
// controller may not hear of deleted Jobs for half a minute, and replace their pods. The kubelet, which these nodes do
// not have, refuses one of two pods for the same room.
func (w *podWatch) ignoreNew(mc *v1alpha2.MiniCluster) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.deleted[mc.UID] = true
}

// awaitSeen waits until the watch has seen the pods of a MiniCluster as they are. The watch has then
// seen all that was before, too.
func (s *site) awaitSeen(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	for _, pod := range s.pods(mc) {
		eventually(s.t, func() error {
			if env.watch.version() < versionOf(&pod) {
				return fmt.Errorf("pod %s was not seen as it is", pod.Name)
			}
			return nil
		})
	}
}

func (w *podWatch) version() uint64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.newest
}

// versionOf is a number that is larger for what was written later.
func versionOf(pod *corev1.Pod) uint64 {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return version
}

func wholeNode(pod *corev1.Pod) bool {
	return pod.Spec.Containers[0].Resources.Requests.Cpu().Value() == 8
}

// leadsOf is how many lead pods of a MiniCluster have run.
func (s *site) leadsOf(mc *v1alpha2.MiniCluster) int {
	s.t.Helper()
	s.awaitSeen(mc)
	env.watch.mutex.Lock()
	defer env.watch.mutex.Unlock()
	return len(env.watch.leads[types.NamespacedName{Namespace: mc.Namespace, Name: mc.Name}])
}

// podsOf is how many pods of a MiniCluster have ever been.
func (s *site) podsOf(mc *v1alpha2.MiniCluster) int {
	s.t.Helper()
	s.awaitSeen(mc)
	env.watch.mutex.Lock()
	defer env.watch.mutex.Unlock()
	n := 0
	for _, name := range env.watch.known {
		if name.Namespace == mc.Namespace && name.Name == mc.Name {
			n++
		}
	}
	return n
}

// madeBeforeBound is how many pods of a JobSet existed when the first of them was
// bound.
func (w *podWatch) madeBeforeBound(set types.UID) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.firstBound[string(set)]
}

// broken is what was in a namespace and must never be.
func (w *podWatch) broken(namespace string) []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.violations[namespace]
}
