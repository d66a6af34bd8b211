// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLife(t *testing.T) {
	client := openClient(t, makeGraph(2, 4), `{"load_format": "jgf", "matcher_policy": "lonode"}`)
	job := makeJobspec(1, 4, 0)
	first := match(t, client, MatchAllocate, job, nil)
	if diff := cmp.Diff([]string{"/cluster0/node0"}, nodesOf(t, first.R)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	second := match(t, client, MatchAllocate, job, nil)
	if first.JobID != 1 || second.JobID != 2 || first.Reserved || first.At != 0 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	match(t, client, MatchAllocate, job, ErrBusy)
	match(t, client, MatchAllocateOrElseReserve, job, ErrBusy) // the other jobs last as long as the graph

	wantReason(t, client.Cancel(1, false), nil)
	wantReason(t, client.Cancel(1, false), ErrNotFound)
	wantReason(t, client.Cancel(1, true), nil)
	again := match(t, client, MatchAllocate, job, nil)
	if again.JobID != 3 || !strings.Contains(again.R, "node0") {
		t.Errorf("refill: %+v", again)
	}
}

func TestReserve(t *testing.T) {
	client := openClient(t, makeGraph(1, 2), jgfOptions)
	match(t, client, MatchAllocate, makeJobspec(1, 2, 10), nil)
	reserved := match(t, client, MatchAllocateOrElseReserve, makeJobspec(1, 2, 10), nil)
	if !reserved.Reserved || reserved.At != 10 {
		t.Errorf("reservation: %+v", reserved)
	}
	_, err := client.PartialCancel(reserved.JobID, part(t, reserved.R, ofRank(0)), false)
	wantReason(t, err, ErrNotFound)
	wantReason(t, client.Cancel(reserved.JobID, false), nil)

	future := match(t, client, MatchWithoutAllocatingFuture, makeJobspec(1, 1, 0), nil)
	if future.JobID != NoJob || future.At != 10 || future.R == "" {
		t.Errorf("future: %+v", future)
	}
	match(t, client, MatchWithoutAllocating, makeJobspec(1, 1, 0), ErrBusy)
}

func TestWhyNot(t *testing.T) {
	busy, never, nodes := makeJobspec(1, 2, 0), makeJobspec(9, 2, 0), makeNodeJobspec(9)
	unknown := strings.ReplaceAll(busy, `"core"`, `"teapot"`)
	for op, want := range map[MatchOp]struct{ busy, never, nodes error }{
		MatchAllocate:                   {ErrBusy, ErrBusy, ErrBusy},
		MatchAllocateWithSatisfiability: {ErrBusy, ErrUnsatisfiable, ErrUnsatisfiable},
		MatchAllocateOrElseReserve:      {ErrBusy, ErrUnsatisfiable, ErrBusy},
		MatchSatisfiability:             {nil, ErrUnsatisfiable, ErrUnsatisfiable},
		MatchWithoutAllocating:          {ErrBusy, ErrBusy, ErrBusy},
		MatchWithoutAllocatingFuture:    {ErrBusy, ErrUnsatisfiable, ErrBusy},
	} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			client := openClient(t, makeGraph(2, 2), jgfOptions)
			match(t, client, MatchAllocate, makeJobspec(2, 2, 0), nil)
			match(t, client, op, busy, want.busy)
			match(t, client, op, never, want.never)
			match(t, client, op, nodes, want.nodes)
			match(t, client, op, unknown, ErrInvalid)
			match(t, client, op, makeJobspec(1, 2, -1), ErrInvalid)
			_, err := client.Match(op, `{"version": 1}`)
			wantReason(t, err, ErrInvalid)
			if text := err.Error(); !strings.Contains(text, "version") && !strings.Contains(text, "resource") {
				t.Errorf("text %q", text)
			}
		})
	}
	client := openClient(t, makeGraph(1, 1), jgfOptions)
	match(t, client, 0, busy, ErrInvalid)
	match(t, client, 7, busy, ErrInvalid)
	// A jobspec without a slot fails with errno 0.
	match(t, client, MatchAllocate, strings.ReplaceAll(makeJobspec(1, 1, 0), `"slot", "label": "s"`, `"node"`), ErrFailed)
}

func TestRestart(t *testing.T) {
	for name, options := range map[string]string{
		"jgf":         jgfOptions,
		"rv1":         `{"load_format": "jgf", "match_format": "rv1"}`,
		"rv1_nosched": `{"load_format": "jgf", "match_format": "rv1_nosched"}`,
	} {
		t.Run(name, func(t *testing.T) {
			before := openClient(t, makeGraph(2, 2), options)
			job := makeJobspec(1, 2, 0)
			kept := match(t, before, MatchAllocate, job, nil)

			after := openClient(t, makeGraph(2, 2), options)
			got, err := after.UpdateAllocate(kept.JobID, kept.R)
			wantReason(t, err, nil)
			// The library writes the children in the order of the graph's edges here.
			if name == "jgf" && len(got.R) != len(kept.R) {
				t.Errorf("R %s, want %s", got.R, kept.R)
			}
			_, err = after.UpdateAllocate(kept.JobID, kept.R)
			wantReason(t, err, ErrExists)
			if other := match(t, after, MatchAllocate, job, nil); other.JobID != 2 {
				t.Errorf("job id %d, want the first that is free, 2", other.JobID)
			}
			match(t, after, MatchAllocate, job, ErrBusy)
			wantReason(t, after.Cancel(kept.JobID, false), nil)
			match(t, after, MatchAllocate, job, nil)
		})
	}
	t.Run("other graphs", func(t *testing.T) {
		before := openClient(t, makeGraph(2, 2), jgfOptions)
		kept := match(t, before, MatchAllocate, makeJobspec(2, 2, 0), nil)
		_, err := openClient(t, makeGraph(1, 2), jgfOptions).UpdateAllocate(1, kept.R)
		wantReason(t, err, ErrNotFound)
		larger := openClient(t, makeGraph(2, 2).with(2, "size", 2), jgfOptions)
		_, err = larger.UpdateAllocate(1, kept.R)
		wantReason(t, err, ErrInvalid)
		match(t, larger, MatchAllocate, makeJobspec(2, 2, 0), nil) // nothing was kept
	})
}

func TestPartialCancel(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	job := match(t, client, MatchAllocate, makeNodeJobspec(2), nil)
	give := func(r string, want error) bool {
		t.Helper()
		full, err := client.PartialCancel(job.JobID, r, false)
		wantReason(t, err, want)
		return full
	}
	give(job.R, ErrInvalid) // the cluster is shared
	if give(part(t, job.R, ofRank(0)), nil) {
		t.Error("one node of two was all")
	}
	other := match(t, client, MatchAllocate, makeNodeJobspec(1), nil)
	if diff := cmp.Diff([]string{"/cluster0/node0"}, nodesOf(t, other.R)); diff != "" {
		t.Errorf("given back (-want +got):\n%s", diff)
	}
	give(part(t, other.R, ofRank(0)), ErrInvalid) // another job's
	if !give(strings.NewReplacer(`"0"`, `"1"`, "node0", "node1").Replace(ranksOnly), nil) {
		t.Error("two nodes of two were not all")
	}
	give(part(t, job.R, ofRank(1)), ErrNotFound)
	wantReason(t, client.Cancel(job.JobID, false), ErrNotFound)
	if full, err := client.PartialCancel(job.JobID, part(t, job.R, ofRank(1)), true); full || err != nil {
		t.Errorf("%v, %v", full, err)
	}
}

func TestJobIDs(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	one := makeJobspec(1, 1, 0)
	with := func(jobid uint64, want error) {
		t.Helper()
		got, err := client.MatchWithJobid(MatchAllocate, jobid, one)
		wantReason(t, err, want)
		if err == nil && got.JobID != jobid {
			t.Errorf("job id %d, want %d", got.JobID, jobid)
		}
	}
	with(2, nil)
	with(2, ErrExists)
	with(1<<63-1, nil)
	with(1<<63, ErrInvalid)
	with(0, ErrInvalid)
	for _, want := range []uint64{1, 3} {
		if got := match(t, client, MatchAllocate, one, nil); got.JobID != want {
			t.Errorf("job id %d, want %d", got.JobID, want)
		}
	}
	with(4, ErrBusy)
	wantReason(t, client.Cancel(1<<63-1, false), nil)
	wantReason(t, client.Cancel(2, false), nil)
	with(2, nil) // free again
	match(t, client, MatchAllocate, one, nil)
	match(t, client, MatchAllocate, one, ErrBusy)
	if got, err := client.MatchWithJobid(MatchWithoutAllocating, 2, one); !errors.Is(err, ErrBusy) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNothingToSay: a job of which the writer writes nothing is cancelled.
func TestNothingToSay(t *testing.T) {
	graph := makeGraph(1, 2).with(2, "type", "slice").with(3, "type", "slice")
	client := openClient(t, graph, `{"load_format": "jgf", "match_format": "rv1"}`)
	slices := strings.ReplaceAll(makeJobspec(1, 2, 0), `"core"`, `"slice"`)
	match(t, client, MatchAllocate, slices, ErrInvalid)
	if r, err := client.Find("sched-now=allocated", "jgf"); r != "" || err != nil {
		t.Errorf("%s, %v", r, err)
	}
}
