// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns is the order of a work queue. The namespaces take turns, so thousands of MiniClusters of one
// namespace that change all the time delay those of another by one pass each. Within a namespace, the first
// request goes first. Urgent requests go before all others.
//
// The work queue calls Push, Touch, Len and Pop one at a time, and never has a request twice.
type turns struct {
	urgent []reconcile.Request
	// waiting are the other requests by namespace, and namespaces those that have any, the next one first.
	waiting    map[string][]reconcile.Request
	namespaces []string

	mutex  sync.Mutex
	urged  map[reconcile.Request]bool // the requests that are urgent when they are added next
	length int
}

func newTurns() *turns {
	return &turns{waiting: map[string][]reconcile.Request{}, urged: map[reconcile.Request]bool{}}
}

// newQueue returns a work queue with this order.
func (t *turns) newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: t})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
}

// urge makes a request urgent that is added to the work queue next.
func (t *turns) urge(request reconcile.Request) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.urged[request] = true
}

// isUrged reports whether a request was urged since it was added last.
func (t *turns) isUrged(request reconcile.Request) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	urged := t.urged[request]
	delete(t.urged, request)
	return urged
}

// Push implements workqueue.Queue: a request is added that was not waiting.
func (t *turns) Push(request reconcile.Request) {
	t.length++
	if t.isUrged(request) {
		t.urgent = append(t.urgent, request)
		return
	}
	if len(t.waiting[request.Namespace]) == 0 {
		t.namespaces = append(t.namespaces, request.Namespace)
	}
	t.waiting[request.Namespace] = append(t.waiting[request.Namespace], request)
}

// Touch implements workqueue.Queue: a request is added that is waiting.
func (t *turns) Touch(request reconcile.Request) {
	if !t.isUrged(request) || slices.Contains(t.urgent, request) {
		return
	}
	t.keep(request.Namespace, slices.DeleteFunc(t.waiting[request.Namespace], func(other reconcile.Request) bool { return other == request }))
	t.urgent = append(t.urgent, request)
}

// keep leaves a namespace these requests.
func (t *turns) keep(namespace string, requests []reconcile.Request) {
	if t.waiting[namespace] = requests; len(requests) == 0 {
		delete(t.waiting, namespace)
		t.namespaces = slices.DeleteFunc(t.namespaces, func(other string) bool { return other == namespace })
	}
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.length }

// Pop implements workqueue.Queue: there is a request.
func (t *turns) Pop() reconcile.Request {
	t.length--
	if len(t.urgent) > 0 {
		request := t.urgent[0]
		t.urgent = t.urgent[1:]
		return request
	}
	namespace := t.namespaces[0]
	t.namespaces = append(t.namespaces[1:], namespace)
	request := t.waiting[namespace][0]
	t.keep(namespace, t.waiting[namespace][1:])
	return request
}
