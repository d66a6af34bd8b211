// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

var noon = fixture.Noon

// seen returns a watcher of three MiniClusters: one runs at a smaller size than it wants, one
// waits, and one has finished.
func seen(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{rows: map[string]*row{}, held: map[string]bool{}, record: clog.NewRecord(2, 0), nodes: []string{"n1", "n2"}, begun: noon}
	ready := func(state, message string) func(*v1alpha2.MiniClusterStatus) {
		return func(s *v1alpha2.MiniClusterStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha2.ConditionReady, Reason: state, Message: message})
		}
	}
	w.take(change{object: fixture.MiniCluster("small").Size(4).Obj(), at: noon})
	for _, mc := range []*v1alpha2.MiniCluster{
		fixture.MiniCluster("small").Size(4).Admitted(1, 2, "n[1-2]").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Size, s.Tasks, s.Nodes, s.StartTime = 2, 16, 2, &metav1.Time{Time: noon.Add(30 * time.Second)}
		}).Status(ready(v1alpha2.StateRunning, "2 of 2 brokers up")).Obj(),
		fixture.MiniCluster("next").Size(64).Status(ready(v1alpha2.StateQueued, "Needs room for 64 brokers")).Obj(),
		fixture.MiniCluster("done").Size(1).Admitted(1, 1, "n1").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).
			Status(ready(v1alpha2.StateSucceeded, "The command ended with exit code 0")).Obj(),
	} {
		w.take(change{object: mc, at: noon.Add(30 * time.Second)})
	}
	return w
}

func TestTable(t *testing.T) {
	w := seen(t)
	var out strings.Builder
	(&table{out: &out, begun: noon, shown: map[string]string{}}).show(w.rows, noon.Add(90*time.Second))
	want := `  90.0s  done       Succeeded    0/1      0 tasks   0 nodes  The command ended with exit code 0
  90.0s  next       Queued       0/64     0 tasks   0 nodes  Needs room for 64 brokers
  90.0s  small      Running      2/4     16 tasks   2 nodes  2 of 2 brokers up
`
	if out.String() != want {
		t.Errorf("without a terminal it prints\n%s", out.String())
	}
	rows := []*row{w.rows["small"], w.rows["next"], w.rows["done"]}
	lines := format(rows, noon.Add(90*time.Second))
	for i, want := range []string{
		"NAME   STATE      SIZE  TASKS  NODES  AGE    REASON",
		"small  Running    2/4   16     2      1m30s  2 of 2 brokers up",
		"next   Queued     0/64  0      0      1m30s  Needs room for 64 brokers",
		"done   Succeeded  0/1   0      0      30s    The command ended with exit code 0", // the age of a finished MiniCluster does not grow
	} {
		if lines[i] != want {
			t.Errorf("line %d is\n%s\nwant\n%s", i, lines[i], want)
		}
	}
	if got := (&table{begun: noon}).totals(rows, noon.Add(90*time.Second)); got != "90 s, 1 running, 1 queued, 1 succeeded, 2 nodes held" {
		t.Errorf("the totals are %q", got)
	}
}

// Without a terminal, each state is printed once.
func TestLogSaysWhatIsNew(t *testing.T) {
	w := seen(t)
	var out strings.Builder
	display := &table{out: &out, begun: noon, shown: map[string]string{}}
	for range 3 {
		display.show(w.rows, noon)
	}
	w.rows["next"].state = v1alpha2.StateStarting
	display.show(w.rows, noon)
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

func TestVerdict(t *testing.T) {
	w := seen(t)
	if w.finished() != 1 || w.verdict(1) != nil {
		t.Errorf("%d finished; %v", w.finished(), w.verdict(1))
	}
	if err := w.verdict(3); err == nil || err.Error() != "2 of 3 MiniClusters did not succeed" {
		t.Errorf("verdict %v", err)
	}
	var out strings.Builder
	w.summary(&out, "timeline.svg")
	for _, part := range []string{"3 MiniClusters, 1 succeeded", "small wanted 4 nodes, and ran after 30 s on 2, with 16 tasks", "Which node ran what: timeline.svg"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the summary is without %q:\n%s", part, out.String())
		}
	}
}

// A node counts as held from the pod's placement until it has ended.
func TestHolding(t *testing.T) {
	w := seen(t)
	pod := func() *fixture.PodWrapper { return fixture.BrokerPod("lmp", 0).On("n1") }
	w.take(change{object: pod().Up().Obj()})
	if w.holding() != 1 {
		t.Errorf("%d are held", w.holding())
	}
	w.take(change{object: pod().Ended(0).Obj()})
	if w.holding() != 0 {
		t.Errorf("%d are held after the end", w.holding())
	}
}
