// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2etools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
)

// tinyTable has a gang that kube-scheduler alone can run, and Kubernetes' gang scheduling.
const tinyTable = `
seeds: [1]
scenarios:
  - name: tiny
    nodes: 4
    limit: 10m
    classes: [{size: 4, count: 1, run: 1s}]
schedulers:
  - {name: ours, binder: gate}
  - {name: plain}
  - name: gangs
    control: {featureGates: "GenericWorkload=true", runtimeConfig: scheduling.k8s.io/v1beta1=true}
    group: |
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: $NAME, namespace: default}
      spec: {schedulingPolicy: {gang: {minCount: $SIZE}}}
    job: |
      spec: {template: {spec: {schedulingGroup: {podGroupName: $NAME}}}}
`

// A benchmark runs ours and other schedulers by the same rules, and compares them. When it runs
// again, it takes the results that are there, and repeats the others.
func TestBenchmark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	table := filepath.Join(t.TempDir(), "table.yaml")
	if err := os.WriteFile(table, []byte(tinyTable), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(only string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(env.Bin, "localcluster"), "bench",
			"--dir="+dir, "--table="+table, "--manager="+filepath.Join(env.Bin, "manager"), "--only="+only)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const each = "starting etcd"
	if out := run("ours,plain same"); strings.Count(out, each) != 2 {
		t.Error("not two runs")
	}
	if out := run("ours,plain same,gangs bare"); strings.Count(out, each) != 1 {
		t.Error("finished runs were repeated")
	}
	var comparison bench.Comparison
	read(t, filepath.Join(dir, "bench.json"), &comparison)
	rows := comparison.Scenarios[0].Rows
	if len(rows) != 3 || rows[0].System != "ours" || rows[1].System != "plain same" || rows[2].System != "gangs bare" {
		t.Fatalf("%+v", rows)
	}
	for _, row := range rows {
		// Four pods on four nodes for a second: the bound is a second.
		if row.Figures["finished"].Median != 1 || row.Figures["ratio"].Median < 1 || row.Limits+row.Violations+len(row.Troubles) > 0 {
			t.Errorf("%+v", row)
		}
		for _, figure := range []string{"waitP50", "podsPerSecond", "writesPerPod", "watchEventsPerPod", "cpuPerPod"} {
			if row.Figures[figure].Median <= 0 {
				t.Errorf("%s: %s is %+v", row.System, figure, row.Figures[figure])
			}
		}
	}
	var result clog.Result
	read(t, filepath.Join(dir, "tiny", "gangs-bare", "1", "result.json"), &result)
	if result.FinishedPods != 4 || result.Figures.Hostage < 0 || result.Breakdown != nil {
		t.Errorf("%+v", result)
	}
	for _, file := range []string{"bench.md", "bench.svg", "tiny/gangs-bare/1/timeline.svg", "tiny.svg"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
