// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// resident is the memory of this process in KiB.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// repeated is a call that must not leak.
type repeated struct {
	calls  int
	perJob int // the bytes that the library keeps of each job that there was
	call   func(client *Client, kept Allocation) error
}

// oneSlot is a slot of all four cores of a node.
var oneSlot = makeJobspec(1, 4, 0)

func repeatedCalls() map[string]repeated {
	const calls = 25_000
	matches := func(op MatchOp, jobspec string) func(*Client, Allocation) error {
		return func(client *Client, _ Allocation) error { _, err := client.Match(op, jobspec); return err }
	}
	return map[string]repeated{
		"match without allocating": {calls, 0, matches(MatchWithoutAllocating, oneSlot)},
		"satisfiability":           {calls, 0, matches(MatchSatisfiability, oneSlot)},
		"error texts": {calls, 0, func(client *Client, _ Allocation) error {
			if _, err := client.Match(MatchAllocate, `{"version": 1}`); !errors.Is(err, ErrInvalid) {
				return err
			}
			return nil
		}},
		"find": {calls, 0, func(client *Client, _ Allocation) error {
			_, err := client.Find("status=up", "jgf")
			return err
		}},
		"status": {calls, 0, func(client *Client, _ Allocation) error { return client.SetStatus("/cluster0", StatusUp) }},
		"update, and one job id": {calls, 0, func(client *Client, kept Allocation) error {
			if err := client.Cancel(kept.JobID, false); err != nil {
				return err
			}
			_, err := client.UpdateAllocate(kept.JobID, kept.R)
			return err
		}},
		"match and cancel": {calls, 600, func(client *Client, _ Allocation) error {
			job, err := client.Match(MatchAllocate, oneSlot)
			if err == nil {
				err = client.Cancel(job.JobID, false)
			}
			return err
		}},
		"clone": {500, 0, func(client *Client, _ Allocation) error {
			clone, err := client.Clone()
			if err == nil {
				clone.Destroy()
			}
			return err
		}},
	}
}

// TestMemory checks that every string of the library is freed. Each string has hundreds of
// bytes, so calls that leak need tens of MiB.
func TestMemory(t *testing.T) {
	for name, test := range repeatedCalls() {
		t.Run(name, func(t *testing.T) {
			client := openClient(t, makeGraph(2, 4), jgfOptions)
			kept := match(t, client, MatchAllocate, oneSlot, nil)
			run := func(calls int) {
				for range calls {
					if err := test.call(client, kept); err != nil {
						t.Fatal(err)
					}
				}
			}
			run(test.calls / 10)
			before := resident(t)
			run(test.calls)
			grown := resident(t) - before
			t.Logf("%d calls: %d KiB more", test.calls, grown)
			if limit := 3<<10 + test.calls*test.perJob>>10; grown > limit {
				t.Errorf("%d KiB more, limit %d", grown, limit)
			}
		})
	}
}
