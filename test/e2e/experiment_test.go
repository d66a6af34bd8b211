// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

const experimentFile = `
apiVersion: experiment.flux-framework.org/v1alpha1
kind: Experiment
name: sweep
template:
  spec:
    queue: %[1]s
    pod: {nodeSelector: {%[2]s: %[1]s}, annotations: {%[3]s: 1s}}
    containers: [{image: app, command: "true", resources: {limits: {cpu: "8"}}}]
matrix: {size: [1, 2]}
repetitions: 6
limits: {atOnce: 3}
logs: false
`

// A user of one namespace runs an experiment. The program is killed twice, and goes on: each run has one record, and
// was submitted once.
func TestExperiment(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	p := s.userProgram()
	dir := t.TempDir()
	file, results := filepath.Join(dir, "sweep.yaml"), filepath.Join(dir, "results")
	text := fmt.Sprintf(experimentFile, s.namespace, siteLabel, simulator.Runtime)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.expect(0, []string{"experiment", "run", "--dry-run", file}, "NAME CASE REPETITION", "sweep-2-6 2 6 2 1 size=2")
	refused := filepath.Join(dir, "refused.yaml")
	if err := os.WriteFile(refused, []byte(strings.Replace(text, "matrix: {", "matrix: {minSize: [2], ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.expect(1, []string{"experiment", "run", "--out=" + filepath.Join(dir, "none"), refused}, "case 1 (minSize=2 size=1): MiniCluster", "minSize must be at most size")
	var mutex sync.Mutex
	made := map[string]map[types.UID]bool{} // by name
	s.watch(func(object any, _ bool) {
		mc, ok := object.(*v1alpha2.MiniCluster)
		if !ok {
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		if made[mc.Name] == nil {
			made[mc.Name] = map[types.UID]bool{}
		}
		made[mc.Name][mc.UID] = true
	}, &v1alpha2.MiniCluster{})

	records := func() int {
		lines, err := os.ReadFile(filepath.Join(results, "runs.jsonl"))
		if err != nil {
			return 0
		}
		return strings.Count(string(lines), "\n")
	}
	for i, args := range [][]string{{"experiment", "run", "--out=" + results, file}, {"experiment", "resume", results}} {
		cmd := p.command(args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if n := records(); n < 2+3*i {
				return fmt.Errorf("%d runs are recorded", n)
			}
			return nil
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	p.expect(0, []string{"experiment", "status", results}, "sweep: 12 runs in namespace "+s.namespace)
	p.expect(1, []string{"experiment", "run", "--out=" + results, file}, "has results: go on with kubectl minicluster experiment resume")
	p.expect(0, []string{"experiment", "resume", results}, "12 of 12 runs are recorded", "12 of them succeeded")

	table, err := os.Open(filepath.Join(results, "runs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	rows, err := csv.NewReader(table).ReadAll()
	if err != nil || len(rows) != 13 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var names []string
	for _, row := range rows[1:] {
		names = append(names, row[0])
	}
	if slices.Sort(names); len(slices.Compact(names)) != 12 {
		t.Errorf("records of %v", names)
	}
	mutex.Lock()
	defer mutex.Unlock()
	for name, uids := range made {
		if len(uids) != 1 {
			t.Errorf("%s was submitted %d times", name, len(uids))
		}
	}
	var left v1alpha2.MiniClusterList
	if err := env.client.List(s.ctx, &left, client.InNamespace(s.namespace)); err != nil || len(left.Items) > 0 {
		t.Errorf("%d MiniClusters are left, %v", len(left.Items), err)
	}
	p.expect(0, []string{"experiment", "report", results}, "report.html, and beside it", "hostage.svg")
	p.expect(0, []string{"experiment", "compare", "--out=" + filepath.Join(dir, "compared"), results, results}, "run time", "report.html, and beside it", "a-hostage.svg, b-hostage.svg")
}
