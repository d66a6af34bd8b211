// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

const prefix = "sim.flux-framework.org/"

// Annotations of pods (spec.pod.annotations of a MiniCluster). Durations are Go's. Tell changes
// them in a pod while it plays.
const (
	// Runtime is how long the command runs with all of its tasks. Default 10s.
	Runtime = prefix + "runtime"
	// ExitCode is the command's. Default 0.
	ExitCode = prefix + "exit-code"
	// Busy is how long a rank that is to leave a malleable command still has work.
	// Default 0s.
	Busy = prefix + "busy"
)

// Annotations of pods that make something go wrong. NeverStart, StartLate, CannotStart,
// and PhaseInit of LeadFails, are played by the stages of package localcluster.
const (
	// NeverStart are the ranks ("3,5", or "*") whose pods never start.
	NeverStart = prefix + "never-start"
	// StartLate are the ranks whose pods start after StartDelay.
	StartLate = prefix + "start-late"
	// StartDelay is how much later.
	StartDelay = prefix + "start-delay"
	// CannotStart are the nodes ("node-003,node-007", or "*") on which containers wait
	// for CannotStartReason for ever.
	CannotStart = prefix + "cannot-start"
	// CannotStartReason is why, as the kubelet would say it. Default ImagePullBackOff.
	CannotStartReason = prefix + "cannot-start-reason"
	// LeadFails is the phase in which the lead's pod fails with exit code 1: PhaseInit,
	// PhaseWaiting or PhaseRunning.
	LeadFails = prefix + "lead-fails"
	// FailsAfter is how long after the command began it does so in PhaseRunning.
	// Default 1s.
	FailsAfter = prefix + "fails-after"
	// LoseRanks are the ranks, as an idset ("1,3"), whose pods fail with exit code 1, once
	// for each pod of the lead.
	LoseRanks = prefix + "lose-ranks"
	// LoseAfter is how long after the command began. Default 1s.
	LoseAfter = prefix + "lose-after"
	// HangsOnLoss is "true" where an MPI job that has lost a broker neither runs nor ends
	// any more.
	HangsOnLoss = prefix + "hangs-on-loss"
)

// Phases of the lead's pod.
const (
	PhaseInit    = "Init"    // its init container runs
	PhaseWaiting = "Waiting" // the lead waits for the quorum
	PhaseRunning = "Running" // the command runs
)

// VanishAt is an annotation of a node: the time (RFC 3339) at which it is no more.
const VanishAt = prefix + "vanish-at"

// Tell lets a pod play something else from now on. With it a test decides by what it has seen
// when a command ends, a rank is lost or a pod starts, and not by the clock.
func Tell(ctx context.Context, c client.Client, pod *corev1.Pod, annotation, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

const (
	defaultRuntime = 10 * time.Second
	defaultAfter   = time.Second
)

// play is what a lead's annotations say.
type play struct {
	runtime  time.Duration
	exitCode int32
	busy     time.Duration
	// fails is the phase in which the lead does; "" if it does not.
	fails      string
	failsAfter time.Duration
	lose       idset.Set
	loseAfter  time.Duration
	hangs      bool
}

// readPlay reads all of them.
func readPlay(lead *corev1.Pod) (play, error) {
	r := reader{pod: lead}
	p := play{
		runtime:    r.duration(Runtime, defaultRuntime),
		exitCode:   r.number(ExitCode),
		busy:       r.duration(Busy, 0),
		fails:      r.phase(LeadFails),
		failsAfter: r.duration(FailsAfter, defaultAfter),
		lose:       r.ranks(LoseRanks),
		loseAfter:  r.duration(LoseAfter, defaultAfter),
		hangs:      r.truth(HangsOnLoss),
	}
	if r.err != nil {
		return play{}, r.err
	}
	return p, nil
}

// reader reads annotations of a pod, and keeps the first error.
type reader struct {
	pod *corev1.Pod
	err error
}

func (r *reader) refuse(key, what string) {
	err := fmt.Errorf("annotation %s of pod %s: %q is no %s", key, r.pod.Name, r.pod.Annotations[key], what)
	r.err = cmp.Or(r.err, err)
}

func (r *reader) duration(key string, otherwise time.Duration) time.Duration {
	text, ok := r.pod.Annotations[key]
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.refuse(key, "duration")
	}
	return d
}

func (r *reader) number(key string) int32 {
	text, ok := r.pod.Annotations[key]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.refuse(key, "number")
	}
	return int32(n)
}

func (r *reader) phase(key string) string {
	text := r.pod.Annotations[key]
	switch text {
	case "", PhaseInit, PhaseWaiting, PhaseRunning:
	default:
		r.refuse(key, "phase")
	}
	return text
}

func (r *reader) ranks(key string) idset.Set {
	ranks, err := idset.Parse(r.pod.Annotations[key])
	if err != nil {
		r.refuse(key, "set of ranks")
	}
	return ranks
}

func (r *reader) truth(key string) bool {
	text, ok := r.pod.Annotations[key]
	if !ok {
		return false
	}
	truth, err := strconv.ParseBool(text)
	if err != nil {
		r.refuse(key, "truth value")
	}
	return truth
}
