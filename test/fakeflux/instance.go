// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
)

// instance is what the lead knows. Its fields are for who holds the lock.
type instance struct {
	*broker
	sync.Mutex
	changed chan struct{} // closed at every change, and made anew

	members map[int]net.Conn // the followers that are up, by rank
	answers map[int]message  // of followers, by what they were asked
	asked   int              // how often
	lost    map[int]bool     // the followers that left without a word
	drained map[int]string   // the reasons, by rank
	cores   [][]int64        // by rank
	jobs    []*job           // by id, which begins at 1
	modules []string
	closing bool // nothing is started any more
}

func newInstance(b *broker) (*instance, error) {
	i := &instance{
		broker: b, changed: make(chan struct{}), members: map[int]net.Conn{}, answers: map[int]message{}, drained: map[int]string{}, lost: map[int]bool{},
		modules: []string{"resource", "job-manager", "job-exec", "job-list", "sched-simple"},
	}
	var err error
	if i.cores, err = readR(b.config.Resource.Path, len(b.hosts)); err != nil {
		return nil, err
	}
	if err := i.restore(); err != nil {
		return nil, err
	}
	return i, nil
}

// change does something under the lock, and lets everything that waits look again.
func (i *instance) change(do func()) {
	i.Lock()
	defer i.Unlock()
	do()
	i.schedule()
	close(i.changed)
	i.changed = make(chan struct{})
}

// await returns true as soon as something holds, false when the context ends before.
func (i *instance) await(ctx context.Context, holds func() bool) bool {
	for {
		i.Lock()
		ok, changed := holds(), i.changed
		i.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// online are the ranks that are up.
func (i *instance) online() []int {
	ranks := []int{0}
	for rank := range i.members {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	return ranks
}

func (i *instance) isUp(rank int) bool { return rank == 0 || i.members[rank] != nil }

// answer is for a connection of a broker or a client.
func (i *instance) answer(conn net.Conn) {
	defer conn.Close()
	decoder := json.NewDecoder(conn)
	var first message
	if decoder.Decode(&first) != nil {
		return
	}
	if first.Join != "" {
		i.member(first, conn, decoder)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a client that has gone waits no more
		var none message
		_ = decoder.Decode(&none)
		cancel()
	}()
	c := &call{broker: i.broker, instance: i, context: ctx, message: first, encoder: json.NewEncoder(conn)}
	code := c.run()
	_ = c.encoder.Encode(message{Exit: &code})
}

// member keeps a follower until it leaves or is lost. One that joins again takes the
// place of itself.
func (i *instance) member(hello message, conn net.Conn, decoder *json.Decoder) {
	rank := hello.Rank
	if rank < 1 || rank >= len(i.hosts) || i.hosts[rank] != hello.Join || !bytes.Equal(hello.Certificate, i.certificate) {
		return
	}
	taken := false
	i.change(func() {
		if i.closing {
			return
		}
		if old := i.members[rank]; old != nil {
			old.Close()
			i.lose(rank)
		}
		// Under the lock, so that nothing is sent before it.
		taken = json.NewEncoder(conn).Encode(message{Welcome: true}) == nil
		if taken {
			i.members[rank] = conn
			delete(i.lost, rank)
			i.log("online: %s (rank %d)", i.hosts[rank], rank)
		}
	})
	if !taken {
		return
	}
	last, err := i.listen(decoder)
	i.change(func() {
		if i.members[rank] != conn {
			return
		}
		delete(i.members, rank)
		if i.closing {
			return
		}
		if err != nil || !last.Goodbye {
			i.lost[rank] = true
			fmt.Fprintf(os.Stderr, "<3>overlay.err[0]: %s (rank %d) failed\n", i.hosts[rank], rank)
		}
		fmt.Fprintf(os.Stderr, "<3>broker.err[0]: dead to Flux: %s (rank %d)\n", i.hosts[rank], rank)
		i.lose(rank)
	})
}

// listen takes the answers of a follower, and returns what it says last.
func (i *instance) listen(decoder *json.Decoder) (last message, err error) {
	for {
		var m message
		if err := decoder.Decode(&m); err != nil || m.Exit == nil {
			return m, err
		}
		i.change(func() { i.answers[m.ID] = m })
	}
}

// runOn lets a follower run a command; ok is false where it is down, or goes meanwhile.
func (i *instance) runOn(ctx context.Context, rank int, command message) (answer message, ok bool) {
	i.Lock()
	conn := i.members[rank]
	i.asked++
	command.ID = i.asked
	if conn != nil {
		_ = json.NewEncoder(conn).Encode(command) // a follower that is gone says so below
	}
	i.Unlock()
	i.await(ctx, func() bool {
		answer, ok = i.answers[command.ID]
		return ok || conn == nil || i.members[rank] != conn
	})
	i.Lock()
	defer i.Unlock()
	delete(i.answers, command.ID)
	return answer, ok
}

// cleanUp cancels what runs. What is pending stays in the state directory.
func (i *instance) cleanUp() {
	i.change(func() {
		i.closing = true
		for _, j := range i.jobs {
			j.cancel()
		}
	})
	i.await(context.Background(), func() bool { return !slices.ContainsFunc(i.jobs, (*job).isRunning) })
}

// shutDown tells the followers to end, and waits until they have.
func (i *instance) shutDown() {
	i.change(func() {
		i.closing = true
		for _, conn := range i.members {
			_ = json.NewEncoder(conn).Encode(message{Shutdown: true})
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i.await(ctx, func() bool { return len(i.members) == 0 })
}
