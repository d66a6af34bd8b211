// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"
)

// These are the ends of a process that gives an input of dangers to the library.
const (
	crashes  = "crashes"
	hangs    = "hangs"
	loses    = "loses resources"
	survives = "survives"
)

// lost is the exit code of a process that has lost resources.
const lost = 5

// raw is a context of the library without the checks of a Client, in a process of its own.
type raw struct {
	*Oracle
	context uintptr
}

func (r raw) init(graph, options string) bool {
	return r.initialize(r.context, graph, options) == 0
}

func (r raw) allocate(jobspec string) (rc int32, set string) { return r.allocateAs(1, jobspec) }

func (r raw) allocateAs(jobid uint64, jobspec string) (rc int32, set string) {
	return r.matchAs(MatchAllocate, jobid, jobspec)
}

func (r raw) matchAs(op MatchOp, jobid uint64, jobspec string) (rc int32, set string) {
	var text *byte
	var reserved bool
	var at int64
	var overhead float64
	rc = r.match(r.context, int32(op), jobspec, jobid, &reserved, &text, &at, &overhead)
	return rc, r.take(text)
}

// danger is an input that a Client refuses.
type danger struct {
	// want is what becomes of a process that gives the input to the library.
	want string
	// raw gives the input to the library. It returns false if resources are lost.
	raw func(r raw) bool
	// checked gives the input to a Client.
	checked func(c *Client) error
	// reason is the reason of the Client. It is ErrInvalid if not given.
	reason error
}

// initialized is a danger in InitContext. After the raw call, a match looks ahead and a vertex
// is set down. Both walk the graph.
func initialized(want, graph, options string) danger {
	return danger{
		want: want,
		raw: func(r raw) bool {
			if r.init(graph, options) {
				r.matchAs(MatchAllocateOrElseReserve, 1, makeJobspec(99, 1, 0))
				r.setStatus(r.context, "/cluster0/node0", int32(StatusDown))
			}
			return true
		},
		checked: func(c *Client) error { return c.InitContext(graph, options) },
	}
}

// on is a danger on a graph of two nodes of two cores.
func on(want string, unchecked func(r raw) bool, checked func(c *Client) error) danger {
	graph := makeGraph(2, 2).text()
	return danger{
		want: want,
		raw:  func(r raw) bool { return !r.init(graph, jgfOptions) || unchecked(r) },
		checked: func(c *Client) error {
			if err := c.InitContext(graph, jgfOptions); err != nil {
				return err
			}
			return checked(c)
		},
	}
}

// because is the danger with another reason.
func (d danger) because(reason error) danger {
	d.reason = reason
	return d
}

func dangers() map[string]danger {
	out := map[string]danger{}
	for _, group := range []map[string]danger{
		optionDangers(), graphDangers(), jobDangers(), updateDangers(), partDangers(), changeDangers(),
	} {
		maps.Copy(out, group)
	}
	return out
}

// TestDangers gives each danger to a Client, which refuses it. It also gives each danger to the
// library, in a process of its own. So no check stays after the library has lost its defect.
func TestDangers(t *testing.T) {
	if name := os.Getenv("REAPI_DANGER"); name != "" {
		oracle, err := openOracle(os.Getenv("FLUXION_LIBRARY"))
		wantReason(t, err, nil)
		if !dangers()[name].raw(raw{oracle, oracle.create()}) {
			os.Exit(lost)
		}
		os.Exit(0)
	}
	oracle := OpenOracle(t)
	for name, test := range dangers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := oracle.NewClient()
			wantReason(t, err, nil)
			defer client.Destroy()
			reason := test.reason
			if reason == nil {
				reason = ErrInvalid
			}
			if err := test.checked(client); !errors.Is(err, reason) {
				t.Errorf("checked: %v, want %v", err, reason)
			}
			if got, output := unchecked(t, name); got != test.want {
				t.Errorf("unchecked it %s, want %s\n%s", got, test.want, output)
			}
		})
	}
}

// unchecked runs a danger in a process of its own, and returns what became of the process.
func unchecked(t *testing.T, name string) (result, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDangers$")
	command.Env = append(os.Environ(), "REAPI_DANGER="+name, "GOTRACEBACK=none")
	text, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return hangs, string(text)
	case err == nil:
		return survives, string(text)
	case command.ProcessState.ExitCode() == lost:
		return loses, string(text)
	default:
		return crashes, string(text)
	}
}
