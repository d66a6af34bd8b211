// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
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
	// longestCheck is how long a check may take in a namespace whose checks were not slow so far: any number of workers may make
	// these.
	longestCheck = 10 * time.Second
)

// checking are the checks under way. Each occupies a worker. So namespaces whose checks are slow get few workers, that others
// go on.
type checking struct {
	mutex sync.Mutex
	// running are the checks, and slow until when those are slow, by namespace.
	running map[string]int
	slow    map[string]time.Time
}

// do makes a check, by one of some workers. If the namespace has enough of them, or the check takes too long, the result is that
// nothing was checked.
func (c *checking) do(ctx context.Context, namespace string, workers int, clock clock.PassiveClock, newCheck func(context.Context) (*check, error)) (*check, error) {
	began := clock.Now()
	may, slow := c.begin(namespace, workers, began)
	if !may {
		return &check{unchecked: "other MiniClusters of the namespace are being checked", at: began, until: began.Add(recheckInterval)}, nil
	}
	defer func() { c.end(namespace, clock.Since(began), clock.Now()) }()
	if !slow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longestCheck)
		defer cancel()
	}
	result, err := newCheck(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &check{unchecked: "the API server takes long to check the pods and objects", at: began, until: clock.Now().Add(recheckInterval)}, nil
	}
	return result, err
}

// begin reports whether one of some workers may check a MiniCluster of a namespace: an eighth of them for a slow namespace,
// and half of them for all that are slow.
func (c *checking) begin(namespace string, workers int, now time.Time) (may, slow bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	maps.DeleteFunc(c.slow, func(_ string, until time.Time) bool { return !now.Before(until) })
	all := 0
	for other := range c.slow {
		all += c.running[other]
	}
	if _, slow = c.slow[namespace]; slow && (c.running[namespace] >= max(workers/8, 1) || all >= max(workers/2, 1)) {
		return false, slow
	}
	if c.running == nil {
		c.running = map[string]int{}
	}
	c.running[namespace]++
	return true, slow
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
