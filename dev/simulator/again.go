// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// again is the state of a command that writes checkpoints, and is run again.
type again struct {
	settings *settings
	// restarts counts how often the command was run again, and told is the last of these that the lead was told.
	restarts, told int
	// writes is until when the command writes the checkpoint after which it ends; zero if it does not. It does no work
	// meanwhile.
	writes time.Time
	// isDown is true while the command has ended and does not run again yet. down is since when the pod of the lead has
	// been seen not ready; zero before.
	isDown bool
	down   time.Time
}

// lookAgain is how long the lead's pod is not ready at least, and how often the lead looks for its brokers. Times of
// conditions are in seconds, and the pod has to become ready at another time.
const lookAgain = 1100 * time.Millisecond

// playAgain plays a command that is to run again with other brokers, or has lost some. It returns when to go on; 0 if
// the command runs.
func (s *simulator) playAgain(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) (time.Duration, error) {
	if !r.settings.restarts {
		return 0, nil
	}
	r.leave(lead, online, play.busy, now)
	if err := s.tellFollowers(ctx, online, r, now); err != nil {
		return 0, err
	}
	if !r.isDown && !s.rescue(lead, online, r, play, now) {
		told := protocol.Read(lead)
		if told.Restarts <= r.told {
			return 0, nil
		}
		if told.Restarts != r.restarts || told.Ranks != r.ranks() { // otherwise it was run again with these ranks before
			if wait := r.write(play.checkpoint, now); wait > 0 {
				return wait, nil
			}
			s.save(lead, r, play.runtime)
		}
		r.isDown = true
	}
	return s.runAgain(ctx, lead, online, r, play, now)
}

// rescue lets a command that has lost brokers run again with the others, from its last checkpoint, if these are enough.
func (s *simulator) rescue(lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) bool {
	here := slices.DeleteFunc(slices.Clone(online), func(pod *corev1.Pod) bool { _, has := r.brokers[pod.UID]; return !has })
	size := r.settings.sizing.LargestWithin(len(here))
	if len(here) == len(r.brokers) || !r.settings.rescued || size == 0 {
		return false
	}
	r.runOn(here[:size], now)
	r.resume(s.savedOf(lead), play.runtime)
	r.isDown, r.writes = true, time.Time{}
	r.restarts++
	return true
}

// write lets the command write a checkpoint, and returns how long that will take; 0 if the checkpoint is written.
func (r *run) write(takes time.Duration, now time.Time) time.Duration {
	if r.writes.IsZero() {
		r.stand(now)
		r.writes = now.Add(takes)
	}
	return max(r.writes.Sub(now), 0)
}

// runAgain runs the command on the ranks that the lead was told, once all of these are there.
func (s *simulator) runAgain(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) (time.Duration, error) {
	switch {
	case isReady(lead):
		return lookAgain, s.tellReady(ctx, lead, false)
	case r.down.IsZero():
		r.down = now
	}
	if wait := r.down.Add(lookAgain).Sub(now); wait > 0 {
		return wait, nil
	}
	if told := protocol.Read(lead); told.Restarts > r.told && (told.Restarts != r.restarts || told.Ranks != r.ranks()) {
		ranks, err := idset.Parse(told.Ranks)
		if err != nil {
			return 0, err
		}
		brokers := ofRanks(online, ranks)
		if len(brokers) < int(ranks.Len()) {
			return lookAgain, nil
		}
		r.runOn(brokers, now)
		r.resume(s.savedOf(lead), play.runtime)
		r.restarts, r.told = told.Restarts, told.Restarts
	} else {
		r.told = told.Restarts
	}
	r.isDown, r.down, r.writes = false, time.Time{}, time.Time{}
	return 0, nil
}

// ranks are those of the command, an idset.
func (r *run) ranks() string {
	var ranks []int
	for _, rank := range r.brokers {
		ranks = append(ranks, rank)
	}
	return idset.Encode(ranks)
}

// stand lets the command do no work from now on.
func (r *run) stand(now time.Time) {
	r.done += time.Duration(r.hands) * now.Sub(r.at)
	r.hands, r.at = 0, now
}

// resume lets the command go on from a part of its work.
func (r *run) resume(saved float64, runtime time.Duration) {
	r.done = time.Duration(saved * float64(r.work(runtime)))
}

// playStop ends the command, after a checkpoint if it is asked for one and has the time.
func (s *simulator) playStop(ctx context.Context, lead *corev1.Pod, r *run, play play, now time.Time) (ctrl.Result, error) {
	_, text, _ := strings.Cut(protocol.Read(lead).Stop, " ")
	seconds, _ := strconv.Atoi(text)
	if r.began.IsZero() || !r.settings.asks || seconds <= 15 {
		return ctrl.Result{}, s.end(ctx, lead, exitStopped, protocol.AskedMessage(false))
	}
	if wait := r.write(play.checkpoint, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	s.save(lead, r, play.runtime)
	return ctrl.Result{}, s.end(ctx, lead, exitStopped, protocol.AskedMessage(true))
}

// save keeps the work of a command as its last checkpoint.
func (s *simulator) save(lead *corev1.Pod, r *run, runtime time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.saved[lead.Labels[v1alpha2.UIDLabel]] = min(float64(r.done)/float64(max(r.work(runtime), 1)), 1)
}

// savedOf is the part of the work that is in the last checkpoint of the lead's MiniCluster.
func (s *simulator) savedOf(lead *corev1.Pod) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.saved[lead.Labels[v1alpha2.UIDLabel]]
}
