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

	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

const prefix = "sim.flux-framework.org/"

// Annotations of pods (spec.pod.annotations of a MiniCluster). Durations have Go's format. Tell
// changes them in a pod that runs.
const (
	// Runtime is how long the command runs with all of its tasks. Default 10s.
	Runtime = prefix + "runtime"
	// ExitCode is the exit code of the command. Default 0.
	ExitCode = prefix + "exit-code"
	// Checkpoint is how long the command takes to write a checkpoint. Default 0s.
	Checkpoint = prefix + "checkpoint"
	// Busy is how long a drained rank of a malleable command still has work. Default 0s.
	Busy = prefix + "busy"
)

// Annotations of pods that cause faults. The stages of package localcluster play NoKubelet, NeverStart,
// StartLate, CannotStart, and PhaseInit of LeadFails. This package plays the others.
const (
	// NoKubelet is "true" if nobody starts the pod, and nobody ends it once it is deleted.
	NoKubelet = prefix + "no-kubelet"
	// NeverStart are the ranks ("3,5", or "*") whose pods never start.
	NeverStart = prefix + "never-start"
	// StartLate are the ranks whose pods start after StartDelay.
	StartLate = prefix + "start-late"
	// StartDelay is how much later the pods of StartLate start.
	StartDelay = prefix + "start-delay"
	// CannotStart are the nodes ("node-003,node-007", or "*") on which containers stay in the
	// state waiting.
	CannotStart = prefix + "cannot-start"
	// CannotStartReason is the reason of that state. Default ImagePullBackOff.
	CannotStartReason = prefix + "cannot-start-reason"
	// LeadFails is the phase in which the lead's pod fails with exit code 1: PhaseInit,
	// PhaseWaiting or PhaseRunning.
	LeadFails = prefix + "lead-fails"
	// FailsAfter is how long the command runs before the lead fails in PhaseRunning.
	// Default 1s.
	FailsAfter = prefix + "fails-after"
	// LoseRanks are the ranks, as an idset ("1,3"), whose pods fail with exit code 1. They fail
	// once for each pod of the lead.
	LoseRanks = prefix + "lose-ranks"
	// LoseAfter is how long the command runs before the pods of LoseRanks fail. Default 1s.
	LoseAfter = prefix + "lose-after"
	// HangsOnLoss is "true" if an MPI job that has lost a broker hangs and never ends, instead of
	// failing.
	HangsOnLoss = prefix + "hangs-on-loss"
)

// Phases of the lead's pod.
const (
	PhaseInit    = "Init"       // its init container runs
	PhaseWaiting = flux.Waiting // the lead waits for the quorum
	PhaseRunning = flux.Running // the command runs
)

// Tell changes an annotation of a pod that runs. A test that has seen what it waits for can so end a
// command, lose a rank or start a pod, without a clock.
func Tell(ctx context.Context, c client.Client, pod *corev1.Pod, annotation, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

const (
	defaultRuntime = 10 * time.Second
	defaultAfter   = time.Second
)

// ReadPlay reads the annotations of a lead's pod. It fails if one of them is invalid.
func ReadPlay(lead *corev1.Pod) (flux.Play, error) {
	r := reader{pod: lead}
	p := flux.Play{
		Runtime:    r.duration(Runtime, defaultRuntime),
		ExitCode:   r.number(ExitCode),
		Busy:       r.duration(Busy, 0),
		Checkpoint: r.duration(Checkpoint, 0),
		Fails:      r.phase(LeadFails),
		FailsAfter: r.duration(FailsAfter, defaultAfter),
		Lose:       r.ranks(LoseRanks),
		LoseAfter:  r.duration(LoseAfter, defaultAfter),
		Hangs:      r.truth(HangsOnLoss),
	}
	if r.err != nil {
		return flux.Play{}, r.err
	}
	return p, nil
}

// reader reads annotations of a pod, and keeps the first error.
type reader struct {
	pod *corev1.Pod
	err error
}

func (r *reader) refuse(key, what string) {
	err := fmt.Errorf("annotation %s of pod %s: %q is not a valid %s", key, r.pod.Name, r.pod.Annotations[key], what)
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
