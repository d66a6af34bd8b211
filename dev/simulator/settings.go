// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// alone is how much longer than the controller the lead waits for its quorum.
const alone = 10 * time.Second

// settings are the settings that the lead's script reads from its files.
type settings struct {
	sizing        elastic.Sizing
	quorumTimeout time.Duration
	retries       int
	kind          kind
	// restarts is true if the command is run again with other brokers, and rescued if that also happens when it
	// loses some.
	restarts, rescued bool
	// asks is true if the command is asked for a checkpoint before it has to end.
	asks bool
}

// kind says how a command reacts when brokers join and leave.
type kind int

const (
	rigid     kind = iota // one MPI job: it fails when it loses a broker
	batch                 // many jobs, on the remaining brokers of those on which it began
	malleable             // many jobs, on all brokers that are online
)

// kinds are the kinds of the lead's modes. Other modes are rigid.
var kinds = map[string]kind{"batch": batch, "launcher": malleable, "interactive": malleable}

// settings reads the ConfigMap that is mounted in the lead's pod.
func (s *simulator) settings(ctx context.Context, lead *corev1.Pod) (*settings, error) {
	for _, volume := range lead.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap == nil {
				continue
			}
			var files corev1.ConfigMap
			name := types.NamespacedName{Namespace: lead.Namespace, Name: source.ConfigMap.Name}
			if err := s.live.Get(ctx, name, &files); err != nil {
				return nil, fmt.Errorf("reading the files of pod %s: %w", lead.Name, err)
			}
			_, asks := files.Data["checkpoint-command.sh"]
			return parseSettings(broker.ParseSettings(files.Data), asks)
		}
	}
	return nil, fmt.Errorf("pod %s has no files", lead.Name)
}

func parseSettings(values map[string]string, asks bool) (*settings, error) {
	numbers := map[string]int{}
	for _, name := range []string{"SIZE", "MIN_SIZE", "OPERAND", "TASKS_AT_SIZE", "MULTIPLE_OF", "QUORUM_TIMEOUT", "BACKOFF_LIMIT"} {
		n, err := strconv.Atoi(values[name])
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		numbers[name] = n
	}
	return &settings{
		quorumTimeout: time.Duration(numbers["QUORUM_TIMEOUT"]) * time.Second,
		retries:       numbers["BACKOFF_LIMIT"],
		kind:          kinds[values["MODE"]],
		restarts:      values["RESIZE"] == string(v1alpha2.ResizeRestart),
		rescued:       values["ON_LOSS"] == string(v1alpha2.LossRecreate),
		asks:          values["CHECKPOINT_SIGNAL"] != "" || asks,
		sizing: elastic.Sizing{
			Min: numbers["MIN_SIZE"], Size: numbers["SIZE"],
			Operator: elastic.Operator(values["OPERATOR"]), Operand: numbers["OPERAND"],
			Tasks: elastic.Tasks{
				AtSize: numbers["TASKS_AT_SIZE"], Fixed: values["SCALING"] == string(v1alpha2.TasksFixed),
				Constraint: elastic.Constraint(values["CONSTRAINT"]), MultipleOf: numbers["MULTIPLE_OF"],
			},
		},
	}, nil
}

// stretch returns how long the command runs on a number of nodes.
func (s *settings) stretch(runtime time.Duration, nodes int) time.Duration {
	full, got := s.sizing.Tasks.AtSize, s.sizing.TasksAt(nodes)
	if full == 0 {
		full, got = s.sizing.Size, nodes
	}
	return time.Duration(float64(runtime) * float64(full) / float64(got))
}
