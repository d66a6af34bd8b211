// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// request is a line of the trace about a request of a manager: the verb, the path, and whether it is a dry run.
var request = regexp.MustCompile(`^ *[0-9.]+ m1 (GET|POST|PUT|PATCH|DELETE) (/\S+)(.*)$`)

// The requests of the manager for one MiniCluster of 15 brokers, which need half a minute to come up, until nothing is left to do
// for it. The API server is what is scarce where many MiniClusters start at once. `go test -v` prints the requests by kind.
func TestRequests(t *testing.T) {
	result := &Result{}
	synctest.Test(t, func(*testing.T) {
		w := newWorld(Options{Seed: 1}, result)
		w.busy = 4 * time.Minute
		gang := fixture.MiniCluster("gang").In("team-a").Size(15).CPU("2").PodAnnotation(simulator.Runtime, "60s")
		l := &life{name: "gang", namespace: "team-a", wrapper: gang}
		l.deeds = []deed{{w.began.Add(time.Minute), "create gang", func() { w.makeLife(l) }}}
		w.lives = append(w.lives, l)
		w.plan(part{name: "life gang", deeds: l.deeds})
		w.exist()
	})
	if result.Violation != nil {
		t.Fatal(result.Violation)
	}
	kinds, sums := map[string]int{}, map[string]int{}
	within := false
	for _, line := range result.Trace {
		switch m := request.FindStringSubmatch(line); {
		case strings.HasSuffix(line, "create gang"):
			within = true
		case strings.HasSuffix(line, "delete all"):
			within = false
		case within && m != nil && !strings.Contains(m[2], "/leases"):
			how, what := kindOfRequest(m[1], m[2], m[3])
			kinds[how+" "+what]++
			sums[how]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%3d %s", kinds[kind], kind)
	}
	for how, most := range map[string]int{"dry run": 20, "read": 20, "write": 45} {
		if n := sums[how]; n == 0 || n > most {
			t.Errorf("%d requests are of the kind %q, may be %d", n, how, most)
		}
	}
}

// kindOfRequest says how a request uses which resource, with its subresource.
func kindOfRequest(verb, path, rest string) (how, what string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:]
	}
	what = parts[0]
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	switch {
	case strings.Contains(rest, "dry run"):
		return "dry run", what
	case verb == "GET":
		return "read", what
	}
	return "write", what + ": " + verb
}
