// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
)

// match makes a match that has to fail for a reason. Without a reason, the match has to succeed.
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

// TestAfterLookingAhead: the planner of a library that has looked ahead must not be copied or
// changed.
func TestAfterLookingAhead(t *testing.T) {
	for name, op := range map[string]MatchOp{
		"without allocating": MatchWithoutAllocatingFuture, "to reserve": MatchAllocateOrElseReserve,
	} {
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

func TestState(t *testing.T) {
	client, err := OpenOracle(t).NewClient()
	wantReason(t, err, nil)
	job := makeJobspec(1, 1, 0)
	calls := map[string]func() error{
		"Match":          func() error { _, err := client.Match(MatchAllocate, job); return err },
		"MatchWithJobid": func() error { _, err := client.MatchWithJobid(MatchAllocate, 1, job); return err },
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
	// The client accepts this graph, in which two vertices have one uniq_id. The library does not.
	twice := makeGraph(2, 1).with(1, "uniq_id", 9).with(3, "uniq_id", 9)
	wantReason(t, client.InitContext(twice.text(), jgfOptions), ErrInvalid)
	check("after InitContext failed")
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), nil)
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), ErrState)
	client.Destroy()
	client.Destroy()
	check("after Destroy")
	wantReason(t, client.InitContext(makeGraph(1, 1).text(), jgfOptions), ErrState)
}

// TestConcurrent uses several clients in many goroutines. It is for the race detector, and for
// errno, which belongs to the thread.
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
