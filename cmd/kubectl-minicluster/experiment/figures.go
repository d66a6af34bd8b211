// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"time"

	"github.com/spf13/cobra"

	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// bounds are for reading the figures of a log.
type bounds struct {
	time   time.Duration
	memory uint64 // bytes
}

var usual = bounds{10 * time.Second, 1 << 30}

// answer is what the process prints that reads the figures.
type answer struct {
	Figures map[string]float64 `json:"figures,omitempty"`
	Error   string             `json:"error,omitempty"`
}

// figures reads the figures of a log. Another process of this program does it, which has no environment and ends itself at
// the bounds: nothing else stops a filter of jq that writes or compares a value of any size.
func figures(ctx context.Context, wanted []core.Figure, log string, b bounds) (map[string]float64, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "experiment", figuresVerb, log, "--time="+b.time.String(), fmt.Sprint("--memory=", b.memory)) //nolint:gosec // this program
	cmd.Env, cmd.Stdin = []string{}, bytes.NewReader(text)
	out, err := cmd.Output()
	var found answer
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(out)).Decode(&found)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the figures: %w", err)
	case found.Error != "":
		return found.Figures, errors.New(found.Error)
	}
	return found.Figures, nil
}

const figuresVerb = "figures"

// newFigures is the verb of the process that reads the figures of a log. The standard input has the figures as JSON.
func newFigures() *cobra.Command {
	b := usual
	cmd := &cobra.Command{
		Use: figuresVerb + " LOG", Short: "Read the figures of a log, as run does after each run", Hidden: true, Args: cobra.ExactArgs(1),
		Example: "  kubectl minicluster experiment figures scaling/logs/scaling-1-1.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			var d core.Definition
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&d.Figures); err != nil {
				return err
			}
			log, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			go b.keep(cmd.OutOrStdout())
			ctx, cancel := context.WithTimeout(cmd.Context(), b.time)
			defer cancel()
			var found answer
			if found.Figures, err = d.Extract(ctx, log); err != nil {
				found.Error = err.Error()
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(found)
		},
	}
	cmd.Flags().DurationVar(&b.time, "time", b.time, "how long it may take")
	cmd.Flags().Uint64Var(&b.memory, "memory", b.memory, "how many bytes of memory it may take")
	return cmd
}

// keep ends the process at the bounds. A filter that heeds its context has ended before that.
func (b bounds) keep(out io.Writer) {
	const look, grace = 10 * time.Millisecond, time.Second
	end, memory := time.Now().Add(b.time+grace), []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	for now := range time.Tick(look) {
		metrics.Read(memory)
		found := answer{}
		switch {
		case memory[0].Value.Uint64() > b.memory:
			found.Error = fmt.Sprintf("the figures of the log need more than %d MiB of memory", b.memory>>20)
		case now.After(end):
			found.Error = fmt.Sprintf("the figures of the log need more than %s", b.time)
		default:
			continue
		}
		_ = json.NewEncoder(out).Encode(found) // nobody else would hear of an error
		os.Exit(0)
	}
}
