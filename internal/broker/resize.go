// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Errors of specs whose command cannot follow a change of the size, or write checkpoints, in the way that they say.
var (
	errResizeFlux      = errors.New("elastic.resize: Flux is for launchers and interactive MiniClusters: one job keeps its brokers, use Restart")
	errResizeRestart   = errors.New("elastic.resize: Restart is for launchers and commands that are one job: a batch would run all of its jobs again, and an interactive MiniCluster has no command")
	errCheckpoint      = errors.New("elastic.checkpoint is for launchers and commands that are one job")
	errCheckpointAsked = errors.New("elastic.checkpoint.signal is for commands that are one job: use command for a launcher")
)

// checkResize returns an error if the command cannot follow a change of the size, or write checkpoints, as the spec says.
func checkResize(s *v1alpha2.MiniClusterSpec) error {
	m, c := mode(s), s.Elastic.Checkpoint
	again := m == modeSubmit || m == modeLauncher
	switch resize := s.ResizePolicy(); {
	case resize == v1alpha2.ResizeFlux && m != modeLauncher && m != modeInteractive:
		return errResizeFlux
	case resize == v1alpha2.ResizeRestart && !again:
		return errResizeRestart
	case c != nil && !again:
		return errCheckpoint
	case c != nil && c.Signal != "" && m == modeLauncher:
		return errCheckpointAsked
	}
	return nil
}
