// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// shapes are the checks of MiniClusters that differ in their names alone.
type shapes struct {
	mutex sync.Mutex
	byKey map[shapeKey]*shape
}

// shapeKey is a shape in a namespace.
type shapeKey struct {
	namespace string
	hash      [sha256.Size]byte
}

// shape is one such check. Others wait while it is made.
type shape struct {
	begun  atomic.Bool
	done   chan struct{} // closed when it is made
	at     time.Time
	before int // failures in a row before this check
	// failures is the same after the check.
	failures int
	// binding is that of the checks before, too.
	binding *atomic.Pointer[binding]

	// The mutex of shapes guards these until done is closed. until is how long the check is valid,
	// and name the MiniCluster for which it was made.
	until  time.Time
	name   string
	result *check
	err    error
}

// check returns the check of a MiniCluster, without its defaults (some contain its name), by its
// shape. A check is not shared if its message contains the name. Checks from before changed are
// not used. dryRun is told how many checks have failed in a row.
func (s *shapes) check(mc *v1alpha2.MiniCluster, now, changed time.Time, dryRun func(before int) (*check, error)) (*check, error) {
	key, err := keyOf(mc)
	if err != nil {
		return nil, err
	}
	one := s.of(key, now, changed)
	if one.begun.Swap(true) {
		<-one.done
	} else {
		s.make(one, mc.Name, dryRun)
	}
	if one.name != mc.Name && (one.err != nil || strings.Contains(one.result.Message+one.result.refused+one.result.unchecked, one.name)) {
		return dryRun(one.before)
	}
	if one.err != nil {
		return nil, one.err
	}
	result := *one.result // a copy for this MiniCluster
	result.binding = one.binding
	return &result, nil
}

// settle lets a check stand for a MiniCluster and those of the same shape, as long as a failed check may.
func (s *shapes) settle(mc *v1alpha2.MiniCluster, result check) error {
	key, err := keyOf(mc)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	close(done)
	settled := &shape{
		at: result.at, until: result.at.Add(recheckMost), done: done, binding: result.binding, name: mc.Name, result: &result, failures: result.failures,
	}
	settled.begun.Store(true)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.keep(key, settled, result.at)
	return nil
}

// failing is how many shapes of a namespace there are whose last dry runs failed.
func (s *shapes) failing(namespace string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n := 0
	for key, known := range s.byKey {
		if key.namespace == namespace && known.failures > 0 {
			n++
		}
	}
	return n
}

// keyOf is the shape of a MiniCluster.
func keyOf(mc *v1alpha2.MiniCluster) (shapeKey, error) {
	spec := mc.Spec
	spec.After, spec.NotBefore, spec.Singleton = nil, nil, "" // no pod has them
	text, err := json.Marshal(spec)
	return shapeKey{mc.Namespace, sha256.Sum256(fmt.Appendf(nil, "%d %s", len(mc.Name), text))}, err
}

// errNotMade is what those find who waited for a check whose maker panicked.
var errNotMade = errors.New("the check was not made")

// make makes a check, for which others wait.
func (s *shapes) make(one *shape, name string, dryRun func(before int) (*check, error)) {
	defer close(one.done)
	s.mutex.Lock()
	one.name, one.err = name, errNotMade
	s.mutex.Unlock()
	result, err := dryRun(one.before)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.result, one.err = result, err
	if err == nil {
		one.failures = result.failures
	}
	if err == nil && !result.until.IsZero() {
		one.until = result.until
	}
}

// mostShapes is how many shapes are kept. A user makes another one by each edit.
const mostShapes = 512

// of returns the shape of a key.
func (s *shapes) of(key shapeKey, now, changed time.Time) *shape {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.byKey == nil {
		s.byKey = map[shapeKey]*shape{}
	}
	known := s.byKey[key]
	if known != nil && known.done != nil && now.Before(known.until) && known.at.After(changed) {
		return known
	}
	fresh := &shape{at: now, until: now.Add(shapeInterval), done: make(chan struct{}), binding: &atomic.Pointer[binding]{}}
	if known != nil {
		fresh.binding, fresh.before = known.binding, known.failures
	}
	s.keep(key, fresh, now)
	return fresh
}

// keep keeps a shape. It forgets shapes that expired long ago, and the results of those that expired. If there are too many,
// it forgets the oldest: its MiniClusters know how often they failed.
func (s *shapes) keep(key shapeKey, one *shape, now time.Time) {
	maps.DeleteFunc(s.byKey, func(_ shapeKey, known *shape) bool { return now.Sub(known.until) >= recheckMost })
	s.byKey[key] = one
	oldest := key
	for other, known := range s.byKey {
		if known.result != nil && !now.Before(known.until) { // who waited for the result has the shape
			s.byKey[other] = &shape{at: known.at, until: known.until, failures: known.failures, binding: known.binding}
		}
		if known.at.Before(s.byKey[oldest].at) {
			oldest = other
		}
	}
	if len(s.byKey) > mostShapes {
		delete(s.byKey, oldest)
	}
}
