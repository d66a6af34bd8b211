// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Exit codes of the lead's container, other than the command's.
const (
	ExitFailed  = 1
	ExitUsage   = 2   // annotations are invalid
	ExitStopped = 143 // as after SIGTERM
)

// Phases of the lead in which it may fail by itself.
const (
	Waiting = "Waiting" // it waits for the quorum
	Running = "Running" // the command runs
)

// Play says how the command behaves.
type Play struct {
	Runtime  time.Duration // with all of its tasks
	ExitCode int32
	// Busy is how long a drained rank of a malleable command still has work.
	Busy time.Duration
	// Checkpoint is how long writing a checkpoint takes.
	Checkpoint time.Duration
	// Fails is the phase in which the lead fails; "" if it does not fail.
	Fails      string
	FailsAfter time.Duration
	// Lose are the ranks whose pods fail LoseAfter the beginning of the command, once for each lead.
	Lose      idset.Set
	LoseAfter time.Duration
	// Hangs is true if an MPI job that has lost a broker hangs instead of failing.
	Hangs bool
}

// Broker is a broker that is online.
type Broker struct {
	Pod  types.UID
	Rank int
	// Ready is whether the broker's pod is ready.
	Ready bool
}

// Told is what the annotations of the lead's pod tell the lead (package protocol).
type Told struct {
	Quorum      int
	Drain, Stop string
	Restarts    int
	Ranks       string
}

// Sight is what a lead sees.
type Sight struct {
	Now    time.Time
	Told   Told
	Play   Play
	Online []Broker // with the lead's own
	// Left are the pods whose brokers have left in good order: these are not lost.
	Left map[types.UID]bool
	// Saved is the part of the work that is in the last checkpoint of the MiniCluster.
	Saved float64
}

// Move is what happens when a lead has looked: first Ready, then Lose, then End.
type Move struct {
	// Ready are the pods that become ready, or not ready.
	Ready []Readiness
	// Lose are pods that fail with ExitFailed. Lost tells the lead that they have.
	Lose []types.UID
	// End is the end of the lead's container; nil if it goes on.
	End *End
	// Saved is the part of the work in a checkpoint that was written now; nil if none was.
	Saved *float64
	// Again is when the lead looks again without any other cause; 0 for never.
	Again time.Duration
}

// Readiness is whether a pod is ready.
type Readiness struct {
	Pod   types.UID
	Ready bool
}

// End is the end of a container.
type End struct {
	Code    int32
	Message string // the termination message
}

// set says whether a pod is ready from now on.
func (m *Move) set(broker Broker, ready bool) {
	m.Ready = slices.DeleteFunc(m.Ready, func(r Readiness) bool { return r.Pod == broker.Pod })
	if broker.Ready != ready {
		m.Ready = append(m.Ready, Readiness{broker.Pod, ready})
	}
}

// Lead is the state of the lead's container.
type Lead struct {
	// Settings are those of its files. They are needed from the first Look on, unless Told.Stop is set.
	Settings *Settings
	pod      types.UID
	kind     kind
	since    time.Time // the lead is up since then
	// began and end are when the command begins and ends; zero before the command runs.
	began, end time.Time
	// brokers are the pods on which the command began, with their ranks.
	brokers map[types.UID]int
	// busy are the pods that are to leave, and until when they have work. A zero time means
	// until the end of the command.
	busy map[types.UID]time.Time
	lost bool // the pods of Play.Lose have failed
	again
	// work returns the whole work of a command with a runtime, in time of one broker.
	work func(runtime time.Duration) time.Duration
	// done is the work that was done at the time at. hands is the number of brokers that work
	// since then.
	done  time.Duration
	at    time.Time
	hands int
}

// NewLead is the lead in a pod whose container has started.
func NewLead(pod types.UID, since time.Time) *Lead { return &Lead{pod: pod, since: since} }

// Lost tells the lead that the pods of Move.Lose have failed.
func (l *Lead) Lost() { l.lost = true }

// Began is when the command began first; zero if it has not.
func (l *Lead) Began() time.Time { return l.began }

// Runs are the pods on which the command runs now; nil if it does not run, or runs again later.
func (l *Lead) Runs() map[types.UID]int {
	if l.began.IsZero() || l.isDown {
		return nil
	}
	return l.brokers
}

// Run is how often the command was run again.
func (l *Lead) Run() int { return l.restarts }

// Look plays the lead: it looks at the instance once.
func (l *Lead) Look(see Sight) Move {
	var m Move
	switch {
	case see.Told.Stop != "":
		l.stop(see, &m)
		return m
	case l.began.IsZero() && see.Play.Fails == Waiting:
		return Move{End: &End{Code: ExitFailed}}
	case l.began.IsZero():
		if l.await(see, &m); l.began.IsZero() {
			return m
		}
	}
	l.run(see, &m)
	return m
}

// await begins the command if enough brokers are online.
func (l *Lead) await(see Sight, m *Move) {
	target := see.Told.Quorum
	if target == 0 {
		target = l.Settings.Sizing.Size
	}
	timeout := l.since.Add(l.Settings.QuorumTimeout + min(l.Settings.QuorumTimeout, alone))
	l.leave(see)
	l.followers(see, m)
	online := slices.DeleteFunc(slices.Clone(see.Online), l.leaves)
	var nodes int
	switch {
	case len(online) >= target:
		nodes = target
	case see.Now.Before(timeout):
		m.Again = timeout.Sub(see.Now)
		return
	default:
		nodes = l.Settings.Sizing.LargestWithin(len(online))
	}
	if nodes == 0 {
		return
	}
	l.kind, l.began = l.Settings.kind, see.Now
	slices.SortFunc(online, func(a, b Broker) int { return a.Rank - b.Rank })
	l.runOn(online[:nodes], see.Now)
	l.resume(see.Saved, see.Play.Runtime)
}

// runOn lets the command run on some brokers.
func (l *Lead) runOn(brokers []Broker, now time.Time) {
	l.at, l.hands, l.brokers, l.busy = now, 0, map[types.UID]int{}, nil
	for _, b := range brokers {
		l.brokers[b.Pod] = b.Rank
	}
	settings, nodes := l.Settings, len(brokers)
	l.work = func(runtime time.Duration) time.Duration {
		return settings.stretch(runtime, nodes) * time.Duration(nodes)
	}
	if l.kind == malleable { // with all brokers the work takes the runtime
		l.work = func(runtime time.Duration) time.Duration { return runtime * time.Duration(settings.Sizing.Size) }
	}
}

// run plays the running command.
func (l *Lead) run(see Sight, m *Move) {
	if m.Again = l.playAgain(see, m); m.Again > 0 {
		return
	}
	m.set(l.own(see), true)
	if l.losing(see, m); len(m.Lose) > 0 {
		return // the ends of these pods cause the next look
	}
	l.leave(see)
	l.followers(see, m)
	hands := l.working(see)
	l.share(hands, see.Play.Runtime, see.Now)
	broken := l.kind == rigid && hands < len(l.brokers) // a broker was lost, and so the job
	switch {
	case see.Play.Fails == Running && !see.Now.Before(l.began.Add(see.Play.FailsAfter)), broken && !see.Play.Hangs:
		m.End = &End{ExitFailed, protocol.EndMessage(l.missing(see))}
	case !broken && !see.Now.Before(l.end):
		m.End = &End{see.Play.ExitCode, protocol.EndMessage("")}
	default:
		m.Again = l.next(see, broken)
	}
}

// own is the lead's own broker.
func (l *Lead) own(see Sight) Broker {
	for _, b := range see.Online {
		if b.Pod == l.pod {
			return b
		}
	}
	return Broker{Pod: l.pod}
}

// losing says which pods are to fail now.
func (l *Lead) losing(see Sight, m *Move) {
	if l.lost || see.Now.Before(l.began.Add(see.Play.LoseAfter)) {
		return
	}
	for _, b := range ofRanks(see.Online, see.Play.Lose) {
		m.Lose = append(m.Lose, b.Pod)
	}
}
