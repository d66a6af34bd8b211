// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// match is a match that has to be answered with a reason, nil for success.
func match(tb testing.TB, client *Client, op MatchOp, jobspec string, want error) Allocation {
	tb.Helper()
	out, err := client.Match(op, jobspec)
	wantReason(tb, err, want)
	return out
}

func wantReason(tb testing.TB, err, want error) {
	tb.Helper()
	if (want == nil) != (err == nil) || !errors.Is(err, want) {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

// nodesOf lists the paths of the nodes in R.
func nodesOf(tb testing.TB, r string) []string {
	tb.Helper()
	var d document
	if err := json.Unmarshal([]byte(r), &d); err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, n := range d.Graph.Nodes {
		if n.Metadata["type"] == "node" {
			out = append(out, n.Metadata["paths"].(map[string]any)["containment"].(string))
		}
	}
	return out
}

func TestLife(t *testing.T) {
	client := openClient(t, makeGraph(2, 4), `{"load_format": "jgf", "matcher_policy": "lonode"}`)
	job := makeJobspec(1, 4, 0)
	first := match(t, client, MatchAllocate, job, nil)
	if diff := cmp.Diff([]string{"/cluster0/node0"}, nodesOf(t, first.R)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	second, err := client.MatchAllocate(false, job)
	wantReason(t, err, nil)
	if first.JobID != 1 || second.JobID != 2 || first.Reserved || first.At != 0 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	match(t, client, MatchAllocate, job, ErrBusy)
	_, err = client.MatchAllocate(true, job)
	wantReason(t, err, ErrBusy) // the others last as long as the graph

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
	if !give(`{"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {"core": "0-1"}}], "nodelist": ["node1"], "starttime": 0, "expiration": 0}}`, nil) {
		t.Error("two nodes of two were not all")
	}
	give(part(t, job.R, ofRank(1)), ErrNotFound)
	wantReason(t, client.Cancel(job.JobID, false), ErrNotFound)
	if full, err := client.PartialCancel(job.JobID, part(t, job.R, ofRank(1)), true); full || err != nil {
		t.Errorf("%v, %v", full, err)
	}
}

func TestClone(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	job := makeJobspec(1, 2, 0)
	match(t, client, MatchAllocate, job, nil)
	clone, err := client.Clone()
	wantReason(t, err, nil)
	if got := match(t, clone, MatchAllocate, job, nil); got.JobID != 2 {
		t.Errorf("job id %d, want 2", got.JobID)
	}
	match(t, clone, MatchAllocate, job, ErrBusy)
	wantReason(t, clone.Cancel(1, false), nil)
	wantReason(t, clone.SetStatus("/cluster0/node0", StatusDown), nil)
	wantReason(t, clone.AddSubgraph(makeGraph(3, 2).text()), nil)

	_, err = client.MatchWithJobid(MatchAllocate, 1, job)
	wantReason(t, err, ErrExists)
	wantReason(t, client.RemoveSubgraph("/cluster0/node2"), ErrNotFound)
	match(t, client, MatchAllocate, job, nil)
	match(t, client, MatchAllocate, job, ErrBusy)
	client.Destroy()
	wantReason(t, clone.RemoveSubgraph("/cluster0/node2"), nil)
	clone.Destroy()
}

// The planner of a library that has looked ahead is not to be copied or changed.
func TestAfterLookingAhead(t *testing.T) {
	for name, op := range map[string]MatchOp{"without allocating": MatchWithoutAllocatingFuture, "to reserve": MatchAllocateOrElseReserve} {
		t.Run(name, func(t *testing.T) {
			client := openClient(t, makeGraph(2, 2), jgfOptions)
			match(t, client, op, makeJobspec(1, 3, 0), ErrUnsatisfiable)
			match(t, client, MatchAllocate, makeJobspec(1, 2, 0), nil)
			_, err := client.Clone()
			wantReason(t, err, ErrState)
			wantReason(t, client.AddSubgraph(makeGraph(3, 2).text()), ErrState)
			wantReason(t, client.RemoveSubgraph("/cluster0/node1"), nil)
		})
	}
}

func TestSubgraphs(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	job := makeJobspec(1, 2, 0)
	for range 2 {
		match(t, client, MatchAllocate, job, nil)
	}
	match(t, client, MatchAllocate, job, ErrBusy)
	// Two more nodes, down at first so that the library counts them when they come up.
	wantReason(t, client.AddSubgraph(makeGraph(4, 2).with(7, "status", 1).with(10, "status", 1).text()), nil)
	match(t, client, MatchAllocate, job, ErrBusy)
	for _, node := range []string{"/cluster0/node2", "/cluster0/node3"} {
		wantReason(t, client.SetStatus(node, StatusUp), nil)
	}
	third := match(t, client, MatchAllocate, job, nil)
	wantReason(t, client.Cancel(third.JobID, false), nil)
	for _, jobid := range []uint64{1, 2} {
		wantReason(t, client.Cancel(jobid, false), nil)
	}
	all := match(t, client, MatchAllocate, makeNodeJobspec(4), nil)
	wantReason(t, client.Cancel(all.JobID, false), nil)

	for _, node := range []string{"/cluster0/node0", "/cluster0/node1", "/cluster0/node2"} {
		wantReason(t, client.RemoveSubgraph(node), nil)
		wantReason(t, client.RemoveSubgraph(node), ErrNotFound)
	}
	wantReason(t, client.RemoveSubgraph("/cluster0/node3"), ErrInvalid) // the last
	wantReason(t, client.RemoveSubgraph("/cluster0"), ErrInvalid)
	match(t, client, MatchAllocate, job, nil)
	match(t, client, MatchAllocate, job, ErrBusy)

	wantReason(t, client.AddSubgraph(makeGraph(2, 2).text()), nil)
	match(t, client, MatchAllocate, job, nil)
	wantReason(t, client.AddSubgraph(makeGraph(2, 2).with(1, "rank", 7).text()), ErrInvalid)
	wantReason(t, client.AddSubgraph("{}"), ErrInvalid)
}

// The defect that AddSubgraph is documented with; once this fails, upstream has
// mended it.
func TestGrowthIsNotCounted(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	wantReason(t, client.AddSubgraph(makeGraph(4, 2).text()), nil)
	match(t, client, MatchAllocate, makeNodeJobspec(4), ErrBusy)
	match(t, client, MatchSatisfiability, makeNodeJobspec(4), nil)
	client = openClient(t, makeGraph(2, 2), `{"load_format": "jgf", "prune_filters": "ALL:core"}`)
	wantReason(t, client.AddSubgraph(makeGraph(4, 2).text()), nil)
	match(t, client, MatchAllocate, makeNodeJobspec(4), nil)
}

func TestFind(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), `{"load_format": "jgf", "match_format": "simple"}`)
	match(t, client, MatchAllocate, makeJobspec(1, 2, 0), nil)
	wantReason(t, client.SetStatus("/cluster0/node0", StatusDown), nil)
	for criteria, want := range map[string][]string{
		"sched-now=allocated":                       {"/cluster0/node1"},
		"jobid-alloc=1":                             {"/cluster0/node1"},
		"status=down":                               {"/cluster0/node0"},
		"status=down or names=node1":                {"/cluster0/node0", "/cluster0/node1"},
		"status=down and sched-now=allocated":       nil,
		"jobid-alloc=9 or (property=a and names=b)": nil,
	} {
		r, err := client.Find(criteria, "jgf")
		wantReason(t, err, nil)
		if want == nil && r != "" {
			t.Errorf("%s: %s, want nothing", criteria, r)
		}
		if want == nil {
			continue
		}
		if diff := cmp.Diff(want, nodesOf(t, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", criteria, diff)
		}
	}
	r, err := client.Find("jobid-alloc=1", "rv1_nosched")
	if err != nil || !strings.Contains(r, `"rank":"1"`) {
		t.Errorf("%s, %v", r, err)
	}
	_, err = client.Find("jobid-alloc=1", "")
	wantReason(t, err, ErrInvalid) // match_format simple
	_, err = client.Find("color=red", "jgf")
	wantReason(t, err, ErrInvalid)
}

func TestStatus(t *testing.T) {
	client := openClient(t, makeGraph(2, 2), jgfOptions)
	job := makeJobspec(1, 2, 0)
	wantReason(t, client.SetStatus("/cluster0/node1", StatusDown), nil)
	if got := match(t, client, MatchAllocate, job, nil); !strings.Contains(got.R, "node0") {
		t.Errorf("R %s", got.R)
	}
	match(t, client, MatchAllocate, job, ErrBusy)
	wantReason(t, client.SetStatus("/cluster0/node1", StatusUp), nil)
	match(t, client, MatchAllocate, job, nil)

	wantReason(t, client.SetStatus("/cluster0/node7", StatusUp), ErrNotFound)
	wantReason(t, client.SetStatus("", StatusUp), ErrInvalid)
	wantReason(t, client.SetStatus("/cluster0", 5), ErrInvalid)
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

// A job of which the writer has nothing to say is given back.
func TestNothingToSay(t *testing.T) {
	graph := makeGraph(1, 2).with(2, "type", "slice").with(3, "type", "slice")
	client := openClient(t, graph, `{"load_format": "jgf", "match_format": "rv1"}`)
	slices := strings.ReplaceAll(makeJobspec(1, 2, 0), `"core"`, `"slice"`)
	match(t, client, MatchAllocate, slices, ErrInvalid)
	if r, err := client.Find("sched-now=allocated", "jgf"); r != "" || err != nil {
		t.Errorf("%s, %v", r, err)
	}
}

func TestState(t *testing.T) {
	client, err := OpenLibrary(t).NewClient()
	wantReason(t, err, nil)
	calls := map[string]func() error{
		"Match":          func() error { _, err := client.Match(MatchAllocate, makeJobspec(1, 1, 0)); return err },
		"MatchWithJobid": func() error { _, err := client.MatchWithJobid(MatchAllocate, 1, makeJobspec(1, 1, 0)); return err },
		"UpdateAllocate": func() error { _, err := client.UpdateAllocate(1, makeGraph(1, 1).text()); return err },
		"Cancel":         func() error { return client.Cancel(1, true) },
		"PartialCancel":  func() error { _, err := client.PartialCancel(1, "{}", true); return err },
		"Clone":          func() error { _, err := client.Clone(); return err },
		"AddSubgraph":    func() error { return client.AddSubgraph(makeGraph(1, 1).text()) },
		"RemoveSubgraph": func() error { return client.RemoveSubgraph("/cluster0/node0") },
		"Find":           func() error { _, err := client.Find("status=up", "jgf"); return err },
		"SetStatus":      func() error { return client.SetStatus("/cluster0", StatusUp) },
	}
	check := func(when string) {
		t.Helper()
		for name, call := range calls {
			if err := call(); !errors.Is(err, ErrState) {
				t.Errorf("%s %s: %v", name, when, err)
			}
		}
	}
	check("before InitContext")
	// A graph that this package passes and the library does not: an id twice below one.
	wantReason(t, client.InitContext(makeGraph(2, 1).with(1, "uniq_id", 9).with(3, "uniq_id", 9).text(), jgfOptions), ErrInvalid)
	check("after InitContext failed")
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), nil)
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), ErrState)
	client.Destroy()
	client.Destroy()
	check("after Destroy")
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), ErrState)
}

// Many goroutines on several clients; for the race detector, and for errno, which
// belongs to the thread.
func TestConcurrent(t *testing.T) {
	clients := make([]*Client, 3)
	for i := range clients {
		clients[i] = openClient(t, makeGraph(2, 2), jgfOptions)
	}
	job, never := makeJobspec(1, 2, 0), makeJobspec(9, 2, 0)
	var wait sync.WaitGroup
	for worker := range 24 {
		client := clients[worker%len(clients)]
		wait.Go(func() {
			for range 50 {
				got, err := client.Match(MatchAllocate, job)
				switch {
				case err == nil:
					err = client.Cancel(got.JobID, false)
				case errors.Is(err, ErrBusy):
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
				if _, err := client.Match(MatchAllocateWithSatisfiability, never); !errors.Is(err, ErrUnsatisfiable) {
					t.Error(err)
				}
				if err := client.Cancel(1<<40, false); !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
				if clone, err := client.Clone(); err != nil {
					t.Error(err)
				} else {
					clone.Destroy()
				}
			}
		})
	}
	wait.Wait()
	for _, client := range clients {
		match(t, client, MatchAllocate, makeJobspec(2, 2, 0), nil)
	}
}
