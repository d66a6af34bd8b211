// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// slowCheck is from when on a check is slow: a webhook takes its time, for example to look at an image in a registry of
	// the tenant. slowFor is how long that is remembered of a namespace.
	slowCheck = 2 * time.Second
	slowFor   = 5 * time.Minute
)

// checking are the checks under way. Each occupies a worker. So namespaces whose checks are slow get few workers, that others
// go on.
type checking struct {
	mutex sync.Mutex
	// running are the checks, and slow until when those are slow, by namespace.
	running map[string]int
	slow    map[string]time.Time
}

// do makes a check, by one of some workers. If the namespace has enough of them, the result is that nothing was checked.
func (c *checking) do(namespace string, workers int, clock clock.PassiveClock, newCheck func() (*check, error)) (*check, error) {
	began := clock.Now()
	if !c.begin(namespace, workers, began) {
		return &check{unchecked: "other MiniClusters of the namespace are being checked", at: began, until: began.Add(recheckInterval)}, nil
	}
	defer func() { c.end(namespace, clock.Since(began), clock.Now()) }()
	return newCheck()
}

// begin reports whether one of some workers may check a MiniCluster of a namespace: an eighth of them for a slow namespace,
// and half of them for all that are slow.
func (c *checking) begin(namespace string, workers int, now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	maps.DeleteFunc(c.slow, func(_ string, until time.Time) bool { return !now.Before(until) })
	all := 0
	for other := range c.slow {
		all += c.running[other]
	}
	if _, slow := c.slow[namespace]; slow && (c.running[namespace] >= max(workers/8, 1) || all >= max(workers/2, 1)) {
		return false
	}
	if c.running == nil {
		c.running = map[string]int{}
	}
	c.running[namespace]++
	return true
}

// end notes that a check has ended, and how long it took.
func (c *checking) end(namespace string, took time.Duration, now time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.running[namespace]--; c.running[namespace] == 0 {
		delete(c.running, namespace)
	}
	if took < slowCheck {
		return
	}
	if c.slow == nil {
		c.slow = map[string]time.Time{}
	}
	c.slow[namespace] = now.Add(slowFor)
}
