// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

var eight = resource.MustParse("8")

func table(t *testing.T) *Table {
	t.Helper()
	out, err := Read("")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRuns(t *testing.T) {
	for name, test := range map[string]struct {
		selection Selection
		want      string // scenario, system and seed of each run
	}{
		"one peer": {
			Selection{Scenarios: []string{"clog"}, Systems: []string{"volcano"}, Seeds: []uint64{7}},
			"clog/volcano-bare/7 clog/volcano-same/7",
		},
		"interleaved": {
			Selection{Scenarios: []string{"clog"}, Systems: []string{"kube-gangs same", "ours-gate"}, Seeds: []uint64{1, 2}},
			"clog/ours-gate/1 clog/kube-gangs-same/1 clog/ours-gate/2 clog/kube-gangs-same/2",
		},
		"no such scenario": {Selection{Scenarios: []string{"clug"}}, `there is no scenario "clug": clog`},
		"no such system":   {Selection{Systems: []string{"ours-gate bare"}}, `there is no scheduler "ours-gate bare": ours-gate`},
	} {
		t.Run(name, func(t *testing.T) {
			runs, err := table(t).Runs(test.selection)
			var got []string
			for i := range runs {
				got = append(got, runs[i].Dir())
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if text := strings.Join(got, " "); text != test.want && (err == nil || !strings.HasPrefix(text, test.want)) {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
	all, err := table(t).Runs(Selection{})
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]bool{}
	for i := range all {
		dirs[all[i].Dir()] = true
	}
	if len(dirs) != len(all) {
		t.Error("two runs have the same directory")
	}
}

// A scenario without elastic gangs has no runs of schedulers that differ only by them.
func TestElasticRuns(t *testing.T) {
	c := table(t)
	c.Scenarios = []Scenario{{Name: "rigid"}}
	runs, err := c.Runs(Selection{})
	if err != nil || len(runs) == 0 {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Scheduler.Elastic {
			t.Errorf("%s runs", run.System())
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"scenarios: [{name: a, nodse: 3}]":    `unknown field "nodse"`,
		"scenarios: [{name: a, limit: 3}]":    `3 is no duration, as in "10s"`,
		"scenarios: [{name: a, limit: soon}]": `invalid duration "soon"`,
	} {
		path := filepath.Join(t.TempDir(), "bench.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// All schedulers get the same gangs. Only elastic ones have another minimum.
func TestGangs(t *testing.T) {
	scenario := Scenario{
		Nodes: 10, Over: Duration{time.Minute}, Elastic: 0.5, NeverStart: 0.1,
		Classes: []Class{{Size: 8, Count: 30, Run: Duration{time.Second}}, {Size: 4, Count: 30, At: Duration{time.Hour}, Queue: "late"}},
	}
	gangs := func(elastic bool, seed uint64) []clog.Gang {
		run := Run{Scenario: scenario, Scheduler: Scheduler{Elastic: elastic}, Seed: seed}
		out, err := run.Gangs()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	rigid, elastic := gangs(false, 1), gangs(true, 1)
	half, never := 0, 0
	for i, gang := range elastic {
		if gang.Min == gang.Size/2 {
			half++
		} else if gang.Min != gang.Size {
			t.Errorf("%+v", gang)
		}
		gang.Min = gang.Size
		if gang != rigid[i] {
			t.Errorf("%+v is not %+v", gang, rigid[i])
		}
		if gang.NeverStart != "" {
			never += 1 + strings.Count(gang.NeverStart, ",")
		}
		if (gang.Queue == "late") != (gang.At >= time.Hour) || gang.At >= time.Hour+time.Minute || i > 0 && gang.At < elastic[i-1].At {
			t.Errorf("%+v", gang)
		}
	}
	if half < 20 || half > 40 || never < 18 || never > 54 {
		t.Errorf("%d of 60 gangs are elastic, %d of 360 pods never start", half, never)
	}
	if slices.Equal(rigid, gangs(false, 2)) || !slices.Equal(rigid, gangs(false, 1)) {
		t.Error("the gangs do not depend on the seed alone")
	}
}

// The objects of each scheduler are valid YAML without variables, and its Job is a gang for the simulator.
func TestObjects(t *testing.T) {
	runs, err := table(t).Runs(Selection{Scenarios: []string{"clog"}, Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	gang := clog.Gang{Name: "gang-1", Size: 3, Min: 3, Run: 5 * time.Second, NeverStart: "2", Queue: "a"}
	for _, run := range runs {
		if run.Scheduler.Ours() {
			continue
		}
		t.Run(run.System(), func(t *testing.T) {
			objects, err := run.Objects(gang, eight)
			if err != nil {
				t.Fatal(err)
			}
			kinds, last := map[string]int{}, 0
			for i, object := range objects {
				kinds[object.GetObjectKind().GroupVersionKind().Kind]++
				if object.GetObjectKind().GroupVersionKind().Kind == "Job" {
					last = i
				}
			}
			files := kinds["Service"]*100 + kinds["ConfigMap"]*10 + kinds["Secret"]
			if want := map[string]int{Bare: 0, Same: 111}[run.Pods]; files != want || kinds["Job"] != 1 || len(objects) > 5 {
				t.Errorf("objects: %v", kinds)
			}
			job := jobOf(t, objects[last])
			pod := job.Spec.Template
			if *job.Spec.Parallelism != 3 || *job.Spec.Completions != 3 || len(pod.Spec.SchedulingGates) > 0 || job.Name != "gang-1" {
				t.Errorf("Job: %+v", job.Spec)
			}
			if pod.Annotations[simulator.GangSize] != "3" || pod.Annotations[simulator.Runtime] != "5s" || pod.Annotations[simulator.NeverStart] != "2" {
				t.Errorf("annotations: %v", pod.Annotations)
			}
			if limit := pod.Spec.Containers[0].Resources.Limits.Cpu(); limit.Cmp(eight) != 0 {
				t.Errorf("a pod may use %s CPUs", limit)
			}
			if _, err := run.Prepare(eight); err != nil {
				t.Error(err)
			}
			if text := fmt.Sprint(objects[last]); strings.Contains(text, "$") && run.Pods == Bare {
				t.Errorf("a variable is left: %s", text)
			}
		})
	}
}

func jobOf(t *testing.T, object client.Object) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, job); err != nil {
		t.Fatal(err)
	}
	return job
}

func TestExpand(t *testing.T) {
	if got, err := Expand("a $NAME, ${SIZE}", map[string]string{"NAME": "b", "SIZE": "3"}); got != "a b, 3" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Expand("$NOTHING", nil); err == nil || err.Error() != "there is no variable $NOTHING" {
		t.Errorf("error %v", err)
	}
}

func result(system, binder string, seed uint64, makespan float64, change ...func(*clog.Result)) *clog.Result {
	r := &clog.Result{
		Experiment: clog.Experiment{Scenario: "clog", What: "all at once", System: system, Binder: binder, Seed: seed, Nodes: 4},
		Gangs:      2, Finished: 2, Pods: 8, FinishedPods: 8, Makespan: makespan, Bound: 10, Ratio: makespan / 10,
		Processes: []clog.Process{{Name: "kube-apiserver", CPUSeconds: makespan / 10, PeakMiB: 100}},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func TestCompare(t *testing.T) {
	limit := func(r *clog.Result) { r.Finished = 1 }
	failed := func(r *clog.Result) { r.Trouble = "volcano ended" }
	c := Compare([]*clog.Result{
		result("ours", "gate", 1, 12), result("fast", "", 1, 15), result("stuck", "", 1, 5, limit),
		result("ours", "gate", 2, 18), result("fast", "", 2, 25), result("stuck", "", 2, 0, failed),
		result("ours", "gate", 3, 14), result("slow", "", 3, 40),
	})
	if len(c.Scenarios) != 1 || len(c.Scenarios[0].Rows) != 4 {
		t.Fatalf("%+v", c)
	}
	ours, stuck := c.Scenarios[0].Rows[0], c.Scenarios[0].Rows[2]
	// The best other scheduler is fast with 20 s: the one that is stuck has not finished all gangs.
	if v := ours.Figures["makespan"]; v != (Value{Median: 14, Least: 12, Most: 18, Ratio: 0.7}) || !ours.Ours || ours.Runs != 3 {
		t.Errorf("%+v", ours)
	}
	if stuck.remark() != "2, 1 failed, 1 at the limit" || stuck.Troubles[0] != "volcano ended" {
		t.Errorf("%+v", stuck)
	}
	if p := ours.Programs["kube-apiserver"]; p.CPUSeconds != 1.4 || p.PeakMiB != 100 {
		t.Errorf("%+v", p)
	}
	text := c.Markdown()
	for _, want := range []string{
		"### clog: all at once\n\n2 gangs with 8 pods on 4 nodes, bound 10.0 s.", "| scheduler | runs | gangs finished | makespan, s |",
		"| ours | 3 | 2, ×1.00 | 14.0 (12.0 to 18.0), ×0.70 |", "| stuck | 2, 1 failed, 1 at the limit | 1 | 5.0 |", "| ours | 1.4, 100 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "unfair") {
		t.Error("a column without values")
	}
	drawing := string(c.SVG())
	if err := xml.Unmarshal([]byte(drawing), new(struct{})); err != nil {
		t.Error(err)
	}
	for what, want := range map[string]int{`class="c0" x`: 7, `class="gray tint2" x`: 13, `class="gray tint2 pale"`: 6, `class="strong"`: 1, ">times the bound<": 1, "unfair": 0} {
		if got := strings.Count(drawing, what); got != want {
			t.Errorf("%d times %s in the drawing, want %d", got, what, want)
		}
	}
}

func TestUnfair(t *testing.T) {
	r := &clog.Result{}
	r.Figures.Shares = map[string]float64{"a": 0.53, "b": 0.47}
	if got := unfair(r); fmt.Sprintf("%.1f", got) != "3.0" {
		t.Errorf("%g", got)
	}
}

func TestLine(t *testing.T) {
	if got := Line(result("ours", "gate", 1, 12)); !strings.Contains(got, "2 of 2 gangs, 12.0 s (1.20 times the bound)") {
		t.Error(got)
	}
	if got := Line(&clog.Result{Trouble: "no answer"}); got != "  failed: no answer" {
		t.Error(got)
	}
}
