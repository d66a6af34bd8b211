// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import "sync"

// places bound how many requests are served at once: of all users, and of each.
type places struct {
	all  chan struct{}
	each int

	mutex  sync.Mutex
	byUser map[string]*place
}

// place is for the requests of one user. used is how many have a place or wait for one.
type place struct {
	taken chan struct{}
	used  int
}

func newPlaces(all, each int) *places {
	return &places{all: make(chan struct{}, all), each: each, byUser: map[string]*place{}}
}

// take takes a place for a request of a user, and waits for one until a channel is closed. It returns what gives the place
// back; nil if there is none.
func (p *places) take(user string, until <-chan struct{}) (leave func()) {
	mine := p.of(user)
	if !put(mine.taken, until) {
		p.forget(user)
		return nil
	}
	if !put(p.all, until) {
		<-mine.taken
		p.forget(user)
		return nil
	}
	return func() {
		<-p.all
		<-mine.taken
		p.forget(user)
	}
}

func (p *places) of(user string) *place {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	mine := p.byUser[user]
	if mine == nil {
		mine = &place{taken: make(chan struct{}, p.each)}
		p.byUser[user] = mine
	}
	mine.used++
	return mine
}

func (p *places) forget(user string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.byUser[user].used--; p.byUser[user].used == 0 {
		delete(p.byUser, user)
	}
}

// put reports whether there was room before a channel was closed.
func put(to chan<- struct{}, until <-chan struct{}) bool {
	select {
	case to <- struct{}{}:
		return true
	default:
	}
	select {
	case to <- struct{}{}:
		return true
	case <-until:
		return false
	}
}

// atOnce is closed: who waits until then does not wait.
var atOnce = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()
