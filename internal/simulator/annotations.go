// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const prefix = "sim.flux-framework.org/"

// Annotations of pods (spec.pod.annotations of a MiniCluster).
const (
	// Runtime is how long the command runs with all of its tasks, as a duration.
	// Default 10s.
	Runtime = prefix + "runtime"
	// ExitCode is the command's. Default 0.
	ExitCode = prefix + "exit-code"
	// NeverStart are the ranks ("3,5", or "*") whose pods never start.
	NeverStart = prefix + "never-start"
	// StartLate are the ranks whose pods start after StartDelay.
	StartLate = prefix + "start-late"
	// StartDelay is how much later, as a duration.
	StartDelay = prefix + "start-delay"
)

// VanishAt is an annotation of a node: the time (RFC 3339) at which it is no more.
const VanishAt = prefix + "vanish-at"

const defaultRuntime = 10 * time.Second

// play is what a lead's annotations say.
type play struct {
	runtime  time.Duration
	exitCode int32
}

func readPlay(pod *corev1.Pod) (play, error) {
	p := play{runtime: defaultRuntime}
	if text, ok := pod.Annotations[Runtime]; ok {
		runtime, err := time.ParseDuration(text)
		if err != nil || runtime < 0 {
			return play{}, fmt.Errorf("annotation %s of pod %s: %q is no duration", Runtime, pod.Name, text)
		}
		p.runtime = runtime
	}
	if text, ok := pod.Annotations[ExitCode]; ok {
		code, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return play{}, fmt.Errorf("annotation %s of pod %s: %q is no number", ExitCode, pod.Name, text)
		}
		p.exitCode = int32(code)
	}
	return p, nil
}
