// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// instance is the Flux instance of a JobSet: the brokers that run in its pods.
type instance struct {
	all     *Kubelets
	id      string
	brokers []*broker // in the order in which they began
	moved   bool      // the leads have to look
	saved   map[types.UID]float64
	left    map[types.UID]bool // the pods whose brokers end in good order
}

// broker is a broker in a container. On the lead it is also the command, and on a follower it is started again when it
// has lost its lead (internal/broker/scripts/wait-0.sh).
type broker struct {
	instance *instance
	c        *container
	rank     int
	up       time.Time // it is up then; zero once it is
	// lead is the lead to which a follower is connected; nil if it is not. joins is when it is, and leaves when it notices
	// that its lead is lost or has shut the instance down.
	lead          *broker
	joins, leaves time.Time
	isShutDown    bool
	isLeaving     bool // the lead told it to be idle
	// core is the script of the lead, which looks again at again. command is the run of the command.
	core    *flux.Lead
	again   time.Time
	command *Process
	ending  bool // the lead shuts the instance down
	isDead  bool
	// silent is when the lead notices that it hears no more of a follower; zero if it hears of it. isMute is true if the
	// broker ended without closing its sockets, with the power of its node.
	silent time.Time
	isMute bool
}

// instanceOf names the Flux instance of a pod; "" if no broker runs in it.
func instanceOf(pod *corev1.Pod) string {
	if _, ok := protocol.Rank(pod); !ok {
		return ""
	}
	return pod.Labels[jobsetapi.JobSetUIDKey]
}

func isLead(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha2.MiniClusterLabel] != "" && pod.Labels[jobsetapi.ReplicatedJobNameKey] == v1alpha2.LeadJob
}

// join begins a broker in a container that starts.
func (k *Kubelets) join(c *container, now time.Time) {
	id := instanceOf(c.worker.pod)
	i := k.instance(id)
	if i == nil {
		i = &instance{all: k, id: id, saved: map[types.UID]float64{}, left: map[types.UID]bool{}}
		k.instances = append(k.instances, i)
	}
	rank, _ := protocol.Rank(c.worker.pod)
	b := &broker{instance: i, c: c, rank: rank, up: now.Add(k.cluster.between(300*time.Millisecond, 3*time.Second))}
	c.broker = b
	i.brokers, i.moved = append(i.brokers, b), true
}

func (k *Kubelets) instance(id string) *instance {
	for _, i := range k.instances {
		if i.id == id {
			return i
		}
	}
	return nil
}

// wake lets the lead of a pod's instance look.
func (k *Kubelets) wake(w *worker) {
	if i := k.instance(instanceOf(w.pod)); i != nil {
		i.moved = true
	}
}

// next is when something happens by time alone.
func (i *instance) next() time.Time {
	var next time.Time
	for _, b := range i.brokers {
		next = soonest(next, b.silent)
		if b.isDead || b.c.worker.node.off {
			continue
		}
		for _, at := range []time.Time{b.up, b.joins, b.leaves, b.again} {
			next = soonest(next, at)
		}
	}
	return next
}

// advance lets happen what is due.
func (i *instance) advance(now time.Time) (moved bool) {
	woken := i.moved
	i.moved = false
	for _, b := range i.brokers {
		if due(b.silent, now) {
			woken = true
			if b.lead == nil || b.lead.isDead || b.lead.ending { // nobody listens
				b.silent = time.Time{}
			}
		}
	}
	for _, b := range i.brokers {
		if !b.isDead && !b.c.worker.node.off {
			moved = b.advance(now, woken) || moved
		}
	}
	i.forget()
	return moved || i.moved
}

// forget forgets brokers that have ended, unless others still believe in them.
func (i *instance) forget() {
	believed := map[*broker]bool{}
	for _, b := range i.brokers {
		switch {
		case b.lead == nil:
		case !b.isDead:
			believed[b.lead] = true
		case b.isMute && !b.lead.isDead && !b.lead.ending:
			believed[b] = true
		}
	}
	kept := i.brokers[:0]
	for _, b := range i.brokers {
		if !b.isDead || believed[b] {
			kept = append(kept, b)
		}
	}
	i.brokers = kept
}

// due reports whether a time has come.
func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// advance lets a broker do what is due.
func (b *broker) advance(now time.Time, woken bool) (moved bool) {
	if due(b.up, now) {
		b.up, b.instance.moved, moved = time.Time{}, true, true
		if b.rank == 0 {
			b.core = flux.NewLead(b.c.worker.pod.UID, now)
			b.core.Settings = b.settings()
		}
	}
	if !b.up.IsZero() {
		return moved
	}
	if b.rank > 0 {
		return b.follow(now) || moved
	}
	if woken || due(b.again, now) {
		b.look(now)
		moved = true
	}
	return moved
}

// settings are those of the pod's files.
func (b *broker) settings() *flux.Settings { return b.c.worker.settings }

// reaches reports whether two brokers reach each other.
func (b *broker) reaches(other *broker) bool {
	from, to := b.c.worker.node, other.c.worker.node
	return from == to && !from.off || !from.off && !to.off && !from.alone && !to.alone
}
