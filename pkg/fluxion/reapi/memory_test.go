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

// Every string that the library returns is freed: each is hundreds of bytes, so
// calls that leak show as tens of MiB.
func TestMemory(t *testing.T) {
	const calls = 25_000
	client := openClient(t, makeGraph(2, 4), jgfOptions)
	one := makeJobspec(1, 4, 0)
	kept := match(t, client, MatchAllocate, one, nil)
	for name, test := range map[string]struct {
		calls  int
		perJob int // bytes that the library keeps for every job there was
		call   func() error
	}{
		"match without allocating": {calls, 0, func() error { _, err := client.Match(MatchWithoutAllocating, one); return err }},
		"satisfiability":           {calls, 0, func() error { _, err := client.Match(MatchSatisfiability, one); return err }},
		"error texts": {calls, 0, func() error {
			if _, err := client.Match(MatchAllocate, `{"version": 1}`); !errors.Is(err, ErrInvalid) {
				return err
			}
			return nil
		}},
		"find":   {calls, 0, func() error { _, err := client.Find("status=up", "jgf"); return err }},
		"status": {calls, 0, func() error { return client.SetStatus("/cluster0", StatusUp) }},
		"update, and one job id": {calls, 0, func() error {
			if err := client.Cancel(kept.JobID, false); err != nil {
				return err
			}
			_, err := client.UpdateAllocate(kept.JobID, kept.R)
			return err
		}},
		"match and cancel": {calls, 600, func() error {
			job, err := client.Match(MatchAllocate, one)
			if err == nil {
				err = client.Cancel(job.JobID, false)
			}
			return err
		}},
		"clone": {500, 0, func() error {
			clone, err := client.Clone()
			if err == nil {
				clone.Destroy()
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(calls int) {
				for range calls {
					if err := test.call(); err != nil {
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
