// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

// troubles are since when pods, by MiniCluster, do not start where they are. Kubernetes
// does not tell. After a restart it counts anew: what is done about them comes later.
type troubles struct {
	mutex  sync.Mutex
	byName map[types.NamespacedName]map[types.UID]time.Time
}

// note looks at the pods of a MiniCluster, and returns since when those are in trouble that
// are.
func (t *troubles) note(name types.NamespacedName, pods []*corev1.Pod, now time.Time) map[types.UID]time.Time {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	before, after := t.byName[name], map[types.UID]time.Time{}
	for _, pod := range pods {
		if state.Trouble(pod) == "" {
			continue
		}
		after[pod.UID] = now
		if since, known := before[pod.UID]; known {
			after[pod.UID] = since
		}
	}
	if len(after) == 0 {
		delete(t.byName, name)
		return nil
	}
	if t.byName == nil {
		t.byName = map[types.NamespacedName]map[types.UID]time.Time{}
	}
	t.byName[name] = after
	return after
}

func (t *troubles) forget(name types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.byName, name)
}
