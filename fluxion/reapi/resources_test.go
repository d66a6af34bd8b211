// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

// TestGrowthIsNotCounted shows the defect that AddSubgraph is documented with. This test fails
// once upstream has corrected the defect.
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
