// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// follow plays the broker of a follower.
func (b *broker) follow(now time.Time) (moved bool) {
	random := b.instance.all.cluster
	switch {
	case b.lead == nil && b.joins.IsZero():
		if b.instance.leadFor(b) != nil {
			b.joins = now.Add(random.between(100*time.Millisecond, 2*time.Second))
			return true
		}
	case b.lead == nil && due(b.joins, now):
		b.joins = time.Time{}
		if b.lead = b.instance.leadFor(b); b.lead != nil {
			b.c.file, b.isShutDown = !b.isLeaving, false
			b.instance.moved = true
		}
		return true
	case b.lead == nil:
	case !b.leaves.IsZero() && b.hears(): // it was cut off for a moment only
		b.leaves = time.Time{}
		return true
	case due(b.leaves, now):
		b.restart(now)
		return true
	case b.leaves.IsZero():
		return b.misses(now)
	}
	return false
}

// hears reports whether a follower hears of a lead that has not shut the instance down.
func (b *broker) hears() bool { return !b.isShutDown && !b.lead.isDead && b.reaches(b.lead) }

// misses notices some time later that the lead of a follower is lost.
func (b *broker) misses(now time.Time) bool {
	random := b.instance.all.cluster
	switch lead := b.lead; {
	case lead.isDead && b.reaches(lead): // its sockets are closed
		b.leaves = now.Add(random.between(10*time.Millisecond, 200*time.Millisecond))
	case lead.isDead || !b.reaches(lead):
		b.leaves = now.Add(random.between(5*time.Second, time.Minute))
	default:
		return false
	}
	return true
}

// restart ends the broker of a follower that has lost its lead, and starts it again, unless the instance was shut down for
// good.
func (b *broker) restart(now time.Time) {
	b.leaves, b.lead, b.instance.moved = time.Time{}, nil, true
	switch ends := b.settings().CompleteWorkers; {
	case b.isShutDown:
		b.c.endAt, b.c.endCode = now, 0
		return
	case ends:
		b.c.endAt, b.c.endCode = now, flux.ExitFailed
		return
	}
	b.c.file, b.isLeaving, b.isShutDown = false, false, false
	b.up = now.Add(b.instance.all.cluster.between(time.Second, 8*time.Second))
}

// forUsers is how long an interactive instance is there: until it is told to stop, or its pod is deleted.
const forUsers = 10_000 * time.Hour

// leadFor is the lead that a follower reaches; nil if there is none. Of several it is the last one that began.
func (i *instance) leadFor(b *broker) *broker {
	for n := len(i.brokers) - 1; n >= 0; n-- {
		lead := i.brokers[n]
		if lead.rank == 0 && !lead.isDead && !lead.ending && lead.core != nil && b.reaches(lead) {
			return lead
		}
	}
	return nil
}

// look lets the script of a lead look at its instance.
func (b *broker) look(now time.Time) {
	b.again = time.Time{}
	if b.ending {
		return
	}
	pod := b.c.worker.pod
	play, err := simulator.ReadPlay(pod)
	if err != nil {
		b.shutDown(now, &flux.End{Code: flux.ExitUsage})
		return
	}
	if b.settings().Users && pod.Annotations[simulator.Runtime] == "" {
		play.Runtime = forUsers
	}
	told := simulator.Told(&corev1.Pod{ObjectMeta: *withAnnotations(pod, b.c.worker.files)})
	move := b.core.Look(flux.Sight{Now: now, Told: told, Play: play, Online: b.online(now), Left: b.instance.left, Saved: b.instance.saved[miniClusterOf(pod)]})
	if move.Saved != nil {
		b.instance.saved[miniClusterOf(pod)] = *move.Saved
	}
	if move.Again > 0 {
		b.again = now.Add(move.Again)
	}
	b.instance.carryOut(move, now)
	if len(move.Lose) > 0 {
		b.core.Lost()
	}
	b.account(now, move.End)
	if move.End != nil {
		b.shutDown(now, move.End)
	}
}

// carryOut makes pods ready or not, and lets those fail that are to fail.
func (i *instance) carryOut(move flux.Move, now time.Time) {
	for _, other := range i.brokers {
		if other.isDead {
			continue
		}
		pod := other.c.worker.pod.UID
		for _, ready := range move.Ready {
			if ready.Pod == pod {
				other.c.file, other.isLeaving = ready.Ready, !ready.Ready && other.rank > 0
			}
		}
		if slices.Contains(move.Lose, pod) {
			other.c.endAt, other.c.endCode = now, flux.ExitFailed
		}
	}
}

// account notes the runs of the command, also one that begins and ends at once.
func (b *broker) account(now time.Time, end *flux.End) {
	runs := b.core.Runs()
	if b.command != nil && (runs == nil && end == nil || b.command.Run != b.core.Run()) {
		b.command.end(now, exitTerminated)
		b.command = nil
	}
	if b.command == nil && runs != nil {
		if !b.settings().Users {
			b.c.termination = protocol.EndMessage("") // it stays if the container is killed
		}
		b.command = b.instance.all.command(b.c, b.core.Run(), len(runs), now)
	}
}

// online are the brokers that a lead believes to be online, with its own. It notices the loss of a broker at once if its
// process ended, and some time later if nothing comes from its node.
func (b *broker) online(now time.Time) []flux.Broker {
	out := []flux.Broker{{Pod: b.c.worker.pod.UID, Rank: 0, Ready: b.c.ready}}
	for _, other := range b.instance.brokers {
		if other.lead != b || other.isDead && !other.isMute {
			continue
		}
		switch {
		case !other.isDead && b.reaches(other):
			other.silent = time.Time{}
		case other.silent.IsZero():
			other.silent = now.Add(b.instance.all.cluster.between(5*time.Second, time.Minute))
		case due(other.silent, now):
			other.lose(now)
			continue
		}
		out = append(out, flux.Broker{Pod: other.c.worker.pod.UID, Rank: other.rank, Ready: other.c.file})
	}
	return out
}

// lose lets a follower that its lead has given up start its broker again, if its node has power.
func (b *broker) lose(now time.Time) {
	b.silent, b.leaves, b.lead, b.isShutDown = time.Time{}, time.Time{}, nil, false
	if !b.isDead {
		b.restart(now)
	}
}

// shutDown ends the instance of a lead whose command is over: first the followers' brokers, then its own.
func (b *broker) shutDown(now time.Time, end *flux.End) {
	random := b.instance.all.cluster
	b.ending, b.again = true, time.Time{}
	b.command.end(now, end.Code)
	for _, other := range b.instance.brokers {
		if other.lead == b && !other.isDead && b.reaches(other) && other.leaves.IsZero() {
			other.isShutDown = true
			other.leaves = now.Add(random.between(50*time.Millisecond, time.Second))
		}
	}
	b.c.endAt, b.c.endCode, b.c.termination = now.Add(random.between(time.Second, 2*time.Second)), end.Code, end.Message
}

// signal ends a broker by SIGTERM: a lead ends its command and its instance.
func (b *broker) signal(now time.Time) {
	random := b.instance.all.cluster
	switch {
	case b.ending || random.chance(0.05): // a process of it ignores the signal
	case b.rank == 0 && b.core != nil:
		b.shutDown(now, &flux.End{Code: flux.ExitStopped, Message: b.c.termination})
	default:
		b.c.endAt, b.c.endCode = now.Add(random.between(100*time.Millisecond, 2*time.Second)), exitTerminated
	}
}

// died notes that the process of the broker has ended: in good order if it did so when it was asked to.
func (b *broker) died(now time.Time) {
	if ended := b.c.state.Terminated; ended != nil && ended.ExitCode == exitTerminated && b.c.isSignalled {
		b.instance.left[b.c.worker.pod.UID] = true
	}
	b.isDead, b.instance.moved = true, true
	b.command.end(now, -1)
	if ended := b.c.state.Terminated; b.command != nil && (ended == nil || ended.ExitCode != b.command.Code) {
		b.command.Code = -1 // the container ended before it could tell
	}
}

// withAnnotations is the metadata of a pod as its containers see it.
func withAnnotations(pod *corev1.Pod, annotations map[string]string) *metav1.ObjectMeta {
	meta := pod.ObjectMeta
	meta.Annotations = annotations
	return &meta
}
