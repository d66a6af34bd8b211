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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
}

func watchPods(ctx context.Context, config *rest.Config) (*podWatch, error) {
	w := &podWatch{
		bound: map[types.UID]string{}, holders: map[string]types.UID{}, leads: map[types.NamespacedName]map[types.UID]bool{},
		alive: map[string]int{}, known: map[types.UID]types.NamespacedName{}, firstBound: map[string]int{},
		violations: map[string][]string{},
	}
	informers, err := cache.New(config, cache.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	informer, err := informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object.(*corev1.Pod), false) },
		UpdateFunc: func(_, object any) { w.see(object.(*corev1.Pod), false) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			w.see(object.(*corev1.Pod), true)
		},
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		return nil, errors.New("watching pods: no answer")
	}
	return w, nil
}

func (w *podWatch) see(pod *corev1.Pod, gone bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.newest = max(w.newest, versionOf(pod))
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
			w.violations[pod.Namespace] = append(w.violations[pod.Namespace], fmt.Sprintf("%s and pod %s hold %s at once", pod.Name, other, node))
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

// hasSeen checks that a pod was seen as it is. Where the API server was away the watch is behind
// for a while, and then hears of all pods at once, in any order.
func (w *podWatch) hasSeen(pod *corev1.Pod) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.newest < versionOf(pod) {
		return fmt.Errorf("pod %s was not seen as it is", pod.Name)
	}
	return nil
}

// versionOf is a number that is larger for what was written later.
func versionOf(object client.Object) uint64 {
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return version
}

func wholeNode(pod *corev1.Pod) bool {
	return pod.Spec.Containers[0].Resources.Requests.Cpu().Value() == 8
}

// leadsOf is how many lead pods of a MiniCluster have run.
func (w *podWatch) leadsOf(mc *v1alpha2.MiniCluster) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.leads[types.NamespacedName{Namespace: mc.Namespace, Name: mc.Name}])
}

// podsOf is how many pods of a MiniCluster have ever been.
func (w *podWatch) podsOf(mc *v1alpha2.MiniCluster) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	n := 0
	for _, name := range w.known {
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
