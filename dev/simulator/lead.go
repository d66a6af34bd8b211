// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Exit codes of the lead's container, other than the command's.
const (
	exitFailed  = 1
	exitUsage   = 2   // annotations are invalid
	exitStopped = 143 // as after SIGTERM
)

// run is the state of the lead's container. Only Reconcile of its instance reads and changes it.
type run struct {
	kind  kind
	since time.Time // the lead is up since then
	// began and end are when the command begins and ends; zero before the command runs.
	began, end time.Time
	// brokers are the pods on which the command began, with their ranks.
	brokers map[types.UID]int
	// busy are the pods that are to leave, and until when they have work. A zero time means
	// until the end of the command.
	busy map[types.UID]time.Time
	lost bool // the pods of LoseRanks have failed
	again
	// work returns the whole work of a command with a runtime, in time of one broker.
	work func(runtime time.Duration) time.Duration
	// done is the work that was done at the time at. hands is the number of brokers that work
	// since then.
	done  time.Duration
	at    time.Time
	hands int
}

// playLead plays the lead: it checks the state of the instance once.
func (s *simulator) playLead(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod) (ctrl.Result, error) {
	now := s.clock.Now()
	r := s.runOf(lead.UID, now)
	play, err := readPlay(lead)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Ending the lead")
		return ctrl.Result{}, s.end(ctx, lead, exitUsage, "")
	}
	if protocol.Read(lead).Stop != "" {
		return s.playStop(ctx, lead, r, play, now)
	}
	if r.began.IsZero() {
		if play.fails == PhaseWaiting {
			return ctrl.Result{}, s.end(ctx, lead, exitFailed, "")
		}
		if again, err := s.await(ctx, lead, online, r, play, now); err != nil || r.began.IsZero() {
			return ctrl.Result{RequeueAfter: again}, err
		}
	}
	return s.playCommand(ctx, lead, online, r, play, now)
}

// await begins the command if enough brokers are online. Otherwise it returns when to check again.
func (s *simulator) await(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) (again time.Duration, err error) {
	if r.settings == nil {
		if r.settings, err = s.settings(ctx, lead); err != nil {
			return 0, err
		}
	}
	target := protocol.Read(lead).Quorum
	if target == 0 {
		target = r.settings.sizing.Size
	}
	timeout := r.since.Add(r.settings.quorumTimeout + min(r.settings.quorumTimeout, alone))
	r.leave(lead, online, play.busy, now)
	if err := s.tellFollowers(ctx, online, r, now); err != nil {
		return 0, err
	}
	online = slices.DeleteFunc(slices.Clone(online), func(pod *corev1.Pod) bool { return r.leaves(pod) })
	var nodes int
	switch {
	case len(online) >= target:
		nodes = target
	case now.Before(timeout):
		return timeout.Sub(now), nil
	default:
		nodes = r.settings.sizing.LargestWithin(len(online))
	}
	if nodes > 0 {
		r.begin(online, nodes, now)
		r.resume(s.savedOf(lead), play.runtime)
	}
	return 0, nil
}

// begin begins the command on a number of nodes.
func (r *run) begin(online []*corev1.Pod, nodes int, now time.Time) {
	r.kind, r.began = r.settings.kind, now
	slices.SortFunc(online, byRank)
	r.runOn(online[:nodes], now)
}

// runOn lets the command run on some brokers.
func (r *run) runOn(brokers []*corev1.Pod, now time.Time) {
	r.at, r.hands, r.brokers, r.busy = now, 0, map[types.UID]int{}, nil
	for _, pod := range brokers {
		r.brokers[pod.UID], _ = protocol.Rank(pod)
	}
	settings, nodes := r.settings, len(brokers)
	r.work = func(runtime time.Duration) time.Duration {
		return settings.stretch(runtime, nodes) * time.Duration(nodes)
	}
	if r.kind == malleable { // with all brokers the work takes the runtime
		r.work = func(runtime time.Duration) time.Duration { return runtime * time.Duration(settings.sizing.Size) }
	}
}

// playCommand plays the running command: it checks the state of the instance once.
func (s *simulator) playCommand(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) (ctrl.Result, error) {
	if again, err := s.playAgain(ctx, lead, online, r, play, now); err != nil || again > 0 {
		return ctrl.Result{RequeueAfter: again}, err
	}
	if err := s.tellReady(ctx, lead, true); err != nil {
		return ctrl.Result{}, err
	}
	if losing := r.losing(online, play, now); len(losing) > 0 {
		err := s.endAll(ctx, losing, exitFailed)
		r.lost = err == nil
		return ctrl.Result{}, err // the ends of these pods cause the next Reconcile
	}
	r.leave(lead, online, play.busy, now)
	if err := s.tellFollowers(ctx, online, r, now); err != nil {
		return ctrl.Result{}, err
	}
	hands := r.working(online, now)
	r.share(hands, play.runtime, now)
	broken := r.kind == rigid && hands < len(r.brokers) // a broker was lost, and so the job
	switch {
	case play.fails == PhaseRunning && !now.Before(r.began.Add(play.failsAfter)), broken && !play.hangs:
		return ctrl.Result{}, s.end(ctx, lead, exitFailed, protocol.EndMessage(r.missing(online)))
	case !broken && !now.Before(r.end):
		return ctrl.Result{}, s.end(ctx, lead, play.exitCode, protocol.EndMessage(""))
	}
	return ctrl.Result{RequeueAfter: r.next(play, broken, now)}, nil
}

// losing returns the pods that are to fail now.
func (r *run) losing(online []*corev1.Pod, play play, now time.Time) []*corev1.Pod {
	if r.lost || now.Before(r.began.Add(play.loseAfter)) {
		return nil
	}
	return ofRanks(online, play.lose)
}

// leave reads which brokers are to leave. The lead always stays. A command that is not malleable
// keeps the brokers on which it began until its end.
func (r *run) leave(lead *corev1.Pod, online []*corev1.Pod, busy time.Duration, now time.Time) {
	ranks, _ := idset.Parse(protocol.Read(lead).Drain)
	before := r.busy
	r.busy = map[types.UID]time.Time{}
	for _, pod := range ofRanks(online, ranks) {
		if pod.UID == lead.UID {
			continue
		}
		_, began := r.brokers[pod.UID]
		until, known := before[pod.UID]
		switch {
		case known, r.kind != malleable && began:
		case r.kind == malleable && !r.began.IsZero():
			until = now.Add(busy)
		default: // the broker has no work
			until = now
		}
		r.busy[pod.UID] = until
	}
}

// leaves reports whether a broker was asked to leave, and so gets no new work.
func (r *run) leaves(pod *corev1.Pod) bool {
	_, leaves := r.busy[pod.UID]
	return leaves
}

// isIdle reports whether a broker was asked to leave, and has no work any more.
func (r *run) isIdle(pod *corev1.Pod, now time.Time) bool {
	until, leaves := r.busy[pod.UID]
	return leaves && !until.IsZero() && !now.Before(until)
}

// tellFollowers makes the pods of followers ready, or not ready if the follower is idle.
func (s *simulator) tellFollowers(ctx context.Context, online []*corev1.Pod, r *run, now time.Time) error {
	var errs []error
	for _, pod := range online {
		if rank, _ := protocol.Rank(pod); rank > 0 {
			errs = append(errs, s.tellReady(ctx, pod, !r.isIdle(pod, now)))
		}
	}
	return errors.Join(errs...)
}

// working returns how many brokers have a part in the command.
func (r *run) working(online []*corev1.Pod, now time.Time) int {
	n := 0
	for _, pod := range online {
		_, began := r.brokers[pod.UID]
		if r.kind == malleable && !r.isIdle(pod, now) || r.kind != malleable && began {
			n++
		}
	}
	return n
}

// missing returns the ranks of the brokers on which the command began and that are gone, as an idset.
func (r *run) missing(online []*corev1.Pod) string {
	there := map[types.UID]bool{}
	for _, pod := range online {
		there[pod.UID] = true
	}
	var ranks []int64
	for uid, rank := range r.brokers {
		if !there[uid] {
			ranks = append(ranks, int64(rank))
		}
	}
	slices.Sort(ranks)
	return idset.Encode(ranks)
}

// share lets a number of brokers share the rest of the work from now on.
func (r *run) share(hands int, runtime time.Duration, now time.Time) {
	r.done += time.Duration(r.hands) * now.Sub(r.at)
	r.hands, r.at = hands, now
	n, left := time.Duration(hands), max(0, r.work(runtime)-r.done)
	r.end = now.Add((left + n - 1) / n) // at least the lead works
}

// next returns the time until the next change that time alone causes, or 0 if there is none.
func (r *run) next(play play, hangs bool, now time.Time) time.Duration {
	var due []time.Time
	for _, until := range r.busy {
		due = append(due, until)
	}
	if !hangs {
		due = append(due, r.end)
	}
	if !r.lost && play.lose.Len() > 0 {
		due = append(due, r.began.Add(play.loseAfter))
	}
	if play.fails == PhaseRunning {
		due = append(due, r.began.Add(play.failsAfter))
	}
	next := time.Duration(0)
	for _, at := range due {
		if wait := at.Sub(now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// ofRanks returns the pods of some ranks.
func ofRanks(pods []*corev1.Pod, ranks idset.Set) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range pods {
		if rank, ok := protocol.Rank(pod); ok && ranks.Has(int64(rank)) {
			out = append(out, pod)
		}
	}
	return out
}

func byRank(a, b *corev1.Pod) int {
	rankA, _ := protocol.Rank(a)
	rankB, _ := protocol.Rank(b)
	return rankA - rankB
}

func (s *simulator) runOf(lead types.UID, now time.Time) *run {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.runs[lead] == nil {
		s.runs[lead] = &run{since: now}
	}
	return s.runs[lead]
}

// knows reports whether a lead has ever been up.
func (s *simulator) knows(lead types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.runs[lead] != nil
}

func (s *simulator) forget(lead types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.runs, lead)
}
