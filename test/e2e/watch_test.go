// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
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
	// last are the pods as they were seen last. listed is closed once all were seen.
	last   map[types.UID]*corev1.Pod
	listed chan struct{}
}

func watchPods(ctx context.Context, config *rest.Config) (*podWatch, error) {
	w := &podWatch{
		bound: map[types.UID]string{}, holders: map[string]types.UID{}, leads: map[types.NamespacedName]map[types.UID]bool{},
		alive: map[string]int{}, known: map[types.UID]types.NamespacedName{}, firstBound: map[string]int{},
		violations: map[string][]string{}, last: map[types.UID]*corev1.Pod{}, listed: make(chan struct{}),
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods := toolscache.NewListWatchFromClient(c.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	// An API server that has just started may answer a list, and no watch yet.
	watching, open := make(chan struct{}), pods.WatchFuncWithContext
	watches := sync.OnceFunc(func() { close(watching) })
	pods.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		opened, err := open(ctx, options)
		if err == nil {
			watches()
		}
		return opened, err
	}
	go toolscache.NewReflector(pods, &corev1.Pod{}, w, 0).RunWithContext(ctx)
	for _, done := range []chan struct{}{w.listed, watching} {
		select {
		case <-done:
		case <-wallClock.After(timeout):
			return nil, errors.New("watching pods: no answer")
		}
	}
	return w, nil
}

// Add sees a pod.
func (w *podWatch) Add(pod any) error { return w.Update(pod) }

// Update sees a pod.
func (w *podWatch) Update(pod any) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.see(pod.(*corev1.Pod), false)
	return nil
}

// Delete sees a pod for the last time.
func (w *podWatch) Delete(pod any) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.see(pod.(*corev1.Pod), true)
	return nil
}

// Replace sees all pods at once. It comes first, and again after the API server was away. What has
// ended meanwhile is seen first: a pod may have the node of one that is gone.
func (w *podWatch) Replace(list []any, _ string) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	there := map[types.UID]bool{}
	for _, pod := range list {
		there[pod.(*corev1.Pod).UID] = true
	}
	for uid, pod := range w.last {
		if !there[uid] {
			w.see(pod, true)
		}
	}
	for _, ended := range []bool{true, false} {
		for _, pod := range list {
			if pod := pod.(*corev1.Pod); protocol.Ended(pod) == ended {
				w.see(pod, false)
			}
		}
	}
	select {
	case <-w.listed:
	default:
		close(w.listed)
	}
	return nil
}

// Resync does nothing: every pod was seen.
func (w *podWatch) Resync() error { return nil }

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
