// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden narratives")

// Whole runs of queues, for people to read.
func TestQueueNarratives(t *testing.T) {
	high := ofPriority(100)
	lent := queue("lent", func(q *Queue) { q.Reclaimable = true })
	upTo := func(n int) func(*Running) { return func(r *Running) { r.Max = n } }
	for name, c := range map[string]*cluster{
		"backfill": newCluster(10).wait(
			with(gang("a", 6, 0), limited(60*time.Second)), with(gang("b", 8, 1), limited(30*time.Second)),
			with(gang("c", 4, 2), limited(90*time.Second)), with(gang("d", 3, 3), limited(50*time.Second)), with(gang("e", 1, 4), limited(90*time.Second))),
		"preempt": newCluster(12).run(elasticGang("elastic", 2, 6, 0, 0), 6, 0, malleable).run(gang("rigid", 6, 0), 6, 0).
			wait(with(gang("urgent", 3, 1), high), with(gang("vital", 7, 2), ofPriority(200))),
		"reclaim": newCluster(10, easy("default"), lent).run(with(gang("old", 5, 0), inQueue("lent")), 5, -20).
			run(with(elasticGang("wide", 2, 5, 0, 0), inQueue("lent")), 5, -10, malleable).wait(gang("own", 3, 0), gang("more", 2, 1)),
		"grow":        newCluster(10).run(elasticGang("a", 2, 4, 0, 0), 4, 0, malleable, upTo(8)).wait(gang("b", 4, 1)),
		"joint-sizes": newCluster(16).wait(elasticGang("a", 4, 16, 0, 0), elasticGang("b", 4, 8, 1, 0), gang("c", 5, 2), gang("d", 12, 3)),
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(c, func(g Gang, _ int) time.Duration { return cmp.Or(g.Limit, 40*time.Second) })
			s.limits = name == "backfill"
			var log strings.Builder
			s.say = func(format string, args ...any) {
				fmt.Fprintf(&log, "%4ds  %s\n", int(s.now.Sub(noon).Seconds()), fmt.Sprintf(format, args...))
			}
			s.now = noon.Add(5 * time.Second)
			s.finish()
			checkNarrative(t, name, log.String())
		})
	}
}

// checkNarrative compares what was told of a run with the file of its name.
func checkNarrative(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the run is another than in %s (go test -update writes it):\n%s", path, got)
	}
}
