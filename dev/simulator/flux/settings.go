// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"fmt"
	"strconv"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// alone is how much longer than the controller the lead waits for its quorum.
const alone = 10 * time.Second

// Settings are the settings that the lead's script reads from its files.
type Settings struct {
	Sizing        elastic.Sizing
	QuorumTimeout time.Duration
	// Users is true if there is no command, and users work in the instance.
	Users bool
	// CompleteWorkers is true if a follower ends with its broker, instead of starting it again.
	CompleteWorkers bool
	kind            kind
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

// ReadSettings reads the settings from the files of an attempt (broker.Files).
func ReadSettings(files map[string]string) (*Settings, error) {
	values := broker.ParseSettings(files)
	_, asks := files["checkpoint-command.sh"]
	numbers := map[string]int{}
	for _, name := range []string{"SIZE", "MIN_SIZE", "OPERAND", "TASKS_AT_SIZE", "MULTIPLE_OF", "QUORUM_TIMEOUT"} {
		n, err := strconv.Atoi(values[name])
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		numbers[name] = n
	}
	return &Settings{
		QuorumTimeout: time.Duration(numbers["QUORUM_TIMEOUT"]) * time.Second,
		Users:         values["MODE"] == "interactive",

		CompleteWorkers: values["COMPLETE_WORKERS"] == "true",
		kind:            kinds[values["MODE"]],
		restarts:        values["RESIZE"] == string(v1alpha2.ResizeRestart),
		rescued:         values["ON_LOSS"] == string(v1alpha2.LossRecreate),
		asks:            values["CHECKPOINT_SIGNAL"] != "" || asks,
		Sizing: elastic.Sizing{
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
func (s *Settings) stretch(runtime time.Duration, nodes int) time.Duration {
	full, got := s.Sizing.Tasks.AtSize, s.Sizing.TasksAt(nodes)
	if full == 0 {
		full, got = s.Sizing.Size, nodes
	}
	return time.Duration(float64(runtime) * float64(full) / float64(got))
}
