// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

const study = `
apiVersion: experiment.flux-framework.org/v1alpha1
kind: Experiment
name: study
template:
  metadata: {labels: {team: a}}
  spec:
    containers:
      - {image: lammps, command: "lmp -v x ${{x}} -v name ${{ name }}", environment: {X: "${{x}}"}}
matrix:
  size: [1, 2]
  x: [8, 16]
  tasksPerNode: [4]
repetitions: 3
figures:
  - {name: loop, regexp: 'Loop time of (\S+)', unit: s}
`

// with returns the study with some lines instead of others.
func with(t *testing.T, replacements ...string) string {
	t.Helper()
	text := strings.NewReplacer(replacements...).Replace(study)
	if len(replacements) > 0 && text == study {
		t.Fatalf("nothing is replaced: %q", replacements)
	}
	return text
}

func read(t *testing.T, text string) (*Definition, []Run) {
	t.Helper()
	d, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := d.Runs()
	if err != nil {
		t.Fatal(err)
	}
	return d, runs
}

func TestRuns(t *testing.T) {
	d, runs := read(t, study)
	var names []string
	for _, run := range runs {
		names = append(names, run.Name+": "+Describe(run.Parameters))
	}
	if len(runs) != 12 || names[0] != "study-1-1: size=1 tasksPerNode=4 x=8" || names[3] != "study-4-1: size=2 tasksPerNode=4 x=16" || runs[4].Name != "study-1-2" {
		t.Errorf("%q", names)
	}
	mc, err := d.MiniCluster(runs[3])
	if err != nil {
		t.Fatal(err)
	}
	c := mc.Spec.Containers[0]
	want := map[string]string{"team": "a", NameLabel: "study", CaseLabel: "4", RepetitionLabel: "1"}
	if diff := cmp.Diff(want, mc.Labels); diff != "" || mc.Name != "study-4-1" || mc.Spec.Size != 2 || *mc.Spec.Tasks != 8 || c.Command != "lmp -v x 16 -v name study-4-1" || c.Environment["X"] != "16" {
		t.Errorf("%+v %s", mc, diff)
	}
}

// The order is that of the seed, and has the same runs.
func TestShuffled(t *testing.T) {
	order := func(text string) (names []string) {
		_, runs := read(t, text)
		for _, run := range runs {
			names = append(names, run.Name)
		}
		return names
	}
	written, shuffled := order(study), order(with(t, "repetitions: 3", "repetitions: 3\norder: shuffled\nseed: 7"))
	again, other := order(with(t, "repetitions: 3", "repetitions: 3\norder: shuffled\nseed: 7")), order(with(t, "repetitions: 3", "repetitions: 3\norder: shuffled\nseed: 8"))
	if !slices.Equal(shuffled, again) || slices.Equal(shuffled, other) || slices.Equal(shuffled, written) {
		t.Errorf("%v, again %v, with another seed %v", shuffled, again, other)
	}
	if slices.Sort(shuffled); !slices.Equal(shuffled, slices.Sorted(slices.Values(written))) {
		t.Errorf("the shuffled runs are %v", shuffled)
	}
}

func TestReadErrors(t *testing.T) {
	for want, replacements := range map[string][]string{
		`apiVersion: it has to be`:                         {"v1alpha1", "v2"},
		`kind: it has to be Experiment`:                    {"kind: Experiment", "kind: Study"},
		`name: it has to start with a letter`:              {"name: study", "name: Study"},
		`unknown field "repeat"`:                           {"repetitions: 3", "repeat: 3"},
		`key "name" already set`:                           {"name: study", "name: study\nname: twice"},
		`repetitions: it cannot be a string`:               {"repetitions: 3", "repetitions: many"},
		`repetitions: it has to be at least 1`:             {"repetitions: 3", "repetitions: -1"},
		`order: "sorted": it can be`:                       {"repetitions: 3", "order: sorted"},
		`template.spec: it is missing`:                     {study[strings.Index(study, "  spec:"):strings.Index(study, "matrix:")], "  spec: {}\n"},
		`template.spec.cleanup: it cannot be set`:          {"    containers:", "    cleanup: true\n    containers:"},
		`template.spec.suspend: it cannot be set`:          {"    containers:", "    suspend: true\n    containers:"},
		`matrix.x: it has no values`:                       {"x: [8, 16]", "x: []"},
		`matrix.x[1]: the value 8 is there twice`:          {"x: [8, 16]", "x: [8, 8]"},
		`matrix.x-y: the name of a parameter`:              {"x: [8, 16]", "x: [8]\n  x-y: [1]"},
		`is no text, number or truth value`:                {"x: [8, 16]", "x: [{a: 1}]"},
		`matrix: they make more than 100000 runs`:          {"repetitions: 3", "repetitions: 100000"},
		`they make more than 100000 runs`:                  {"repetitions: 3", "repetitions: 9223372036854775807"},
		`they make more than 100000`:                       {study[strings.Index(study, "matrix:"):strings.Index(study, "figures:")], "repetitions: 1000000000\n"},
		`figures[0]: its regexp or jq has more than 4096`:  {`(\S+)`, strings.Repeat("(", 2000) + "x" + strings.Repeat(")", 2000) + strings.Repeat("x", 100)},
		`the values of its parameters have more than`:      {"x: [8, 16]", "x: [" + strings.Repeat("8", 1<<20) + "]"},
		`cases[0].x: matrix has the parameter too`:         {"matrix:", "cases: [{x: 1}]\nmatrix:"},
		`there is no parameter "y"`:                        {"${{x}}", "${{y}}"},
		`unknown field "spec.sizes"`:                       {"    containers:", "    sizes: 2\n    containers:"},
		`the parameter size: "big" is no number of size`:   {"size: [1, 2]", "size: [big]"},
		`tasks and tasksPerNode exclude each other`:        {"x: [8, 16]", "x: [8]\n  tasks: [3]"},
		`limits.wait: "soon" is no duration`:               {"repetitions: 3", "limits: {wait: soon}"},
		`limits.atOnce: it cannot be negative`:             {"repetitions: 3", "limits: {atOnce: -1}"},
		`figures[0].regexp: it has to have one group`:      {`(\S+)`, `\S+`},
		`figures[0].regexp: error parsing`:                 {`(\S+)`, `(`},
		`figures[0].jq: unexpected EOF`:                    {`regexp: 'Loop time of (\S+)'`, "jq: '.a |'"},
		`figures[0].jq: function not defined`:              {`regexp: 'Loop time of (\S+)'`, "jq: loop_time"},
		`figures[0]: it has to have either regexp or jq`:   {"unit: s", "jq: .a"},
		`figures[0]: it has to have either`:                {`, regexp: 'Loop time of (\S+)'`, ""},
		`figures[0].take: "all": it can be`:                {"unit: s", "take: all"},
		`figures: figures are read from logs`:              {"repetitions: 3", "logs: false"},
		"kind: it has to be Experiment\nname: it has to":   {"kind: Experiment\nname: study", "kind: x\nname: X"},
		`figures[1].name: loop is there twice`:             {"unit: s}", "unit: s}\n  - {name: loop, regexp: '(.)'}"},
		`figures[0].name: it has to start with a letter a`: {"name: loop", "name: '%'"},
	} {
		if _, err := Read([]byte(with(t, replacements...))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", replacements, err, want)
		}
	}
}

// property is a part of a JSON schema.
type property struct {
	Properties map[string]property `json:"properties"`
	Items      *property           `json:"items"`
}

// The schema has the fields of the definition.
func TestSchema(t *testing.T) {
	var schema property
	if err := json.Unmarshal(own, &schema); err != nil {
		t.Fatal(err)
	}
	var compare func(path string, kind reflect.Type, p property)
	compare = func(path string, kind reflect.Type, p property) {
		want := map[string]bool{}
		for _, field := range reflect.VisibleFields(kind) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				continue // embedded
			}
			want[name] = true
			inner, below := field.Type, p.Properties[name]
			if inner.Kind() == reflect.Slice && below.Items != nil {
				inner, below = inner.Elem(), *below.Items
			}
			if inner.Kind() == reflect.Struct {
				compare(path+"."+name, inner, below)
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(p.Properties))); diff != "" {
			t.Errorf("the fields of %s (-definition +schema):\n%s", path, diff)
		}
	}
	compare("experiment", reflect.TypeFor[Definition](), schema)
}

// validate checks the text of an experiment by the schema.
func validate(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(content)
}

// An editor that has the schema accepts what is right, and marks what is wrong, also in the MiniCluster.
func TestEditor(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("experiment.json", content); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("experiment.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range examples(t) {
		if err := validate(t, schema, file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, replacements := range [][]string{
		nil, {"    containers:", "    network: {headlessName: \"${{name}}\"}\n    elastic: {onLoss: \"${{x}}\"}\n    containers:"},
		{`regexp: 'Loop time of (\S+)'`, "jq: .loop"}, {"image: lammps,", "image: lammps, resources: {limits: {cpu: 7, memory: \"${{x}}\"}},"},
	} {
		if err := validate(t, schema, with(t, replacements...)); err != nil {
			t.Errorf("%q: %v", replacements, err)
		}
	}
	for want, replacements := range map[string][]string{
		"additional properties 'repeat'":    {"repetitions: 3", "repeat: 3"},
		"at '/repetitions': got string":     {"repetitions: 3", "repetitions: many"},
		"at '/figures/0': 'oneOf' failed":   {"unit: s", "jq: .a"},
		"additional properties 'sizes'":     {"    containers:", "    sizes: 2\n    containers:"},
		"at '/template/spec/size'":          {"    containers:", "    size: two\n    containers:"},
		"at '/template/spec/elastic/onLoss": {"    containers:", "    elastic: {onLoss: Explode}\n    containers:"},
		"missing property 'containers'":     {"containers:", "volumes:"},
	} {
		if err := validate(t, schema, with(t, replacements...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", replacements, err, want)
		}
	}
}

// examples are the examples, and what the page shows.
func examples(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/scaling-study.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	out := map[string]string{"the page": shown}
	files, err := filepath.Glob("../../examples/scaling-study/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = string(text)
	}
	return out
}

// The examples are experiments, and so is what the page shows.
func TestExamples(t *testing.T) {
	for name, text := range examples(t) {
		if _, runs := read(t, text); !slices.Contains([]int{15, 25, 500}, len(runs)) {
			t.Errorf("%s has %d runs", name, len(runs))
		}
	}
}

func TestExtract(t *testing.T) {
	log := []byte("Loop time of 3.5 on 4\nLoop time of 1.5 on 4\nLoop time of 4 on 4\nGpus 0x1\n")
	for take, want := range map[Take]float64{TakeLast: 4, TakeFirst: 3.5, TakeMin: 1.5, TakeMax: 4, TakeSum: 9, TakeMean: 3} {
		d := &Definition{Figures: []Figure{{Name: "loop", Regexp: `Loop time of (\S+)`, Take: take}, {Name: "none", Regexp: "(nothing)"}}}
		if got, err := d.Extract(t.Context(), log); err != nil || !maps.Equal(got, map[string]float64{"loop": want}) {
			t.Errorf("%s: %v, %v; want %v", take, got, err, want)
		}
	}
	d := &Definition{Figures: []Figure{{Name: "gpus", Regexp: `Loop (\S+)`}}}
	if _, err := d.Extract(t.Context(), log); err == nil || !strings.Contains(err.Error(), `the figure gpus: "time" is no number`) {
		t.Errorf("got %v", err)
	}
}

// jq gets the JSON in a log: objects and arrays that begin on a line of their own.
func TestExtractJSON(t *testing.T) {
	log := []byte("start {\n{\"step\": 1, \"time\": 3.5}\n[1] a job\n{\"step\": 2, \"time\": \"1.5\"}\n{broken\n{\n  \"all\": {\"time\": 9}\n}\n{\"time\": null}\n[4, 5]\n{\"un\": ")
	for filter, want := range map[string]float64{
		".time": 1.5, ".all.time": 9, ".[1]": 5, "select(.step == 1).time * 2": 7, `.time // empty | tonumber`: 1.5,
	} {
		d := &Definition{Figures: []Figure{{Name: "x", JQ: filter, Take: TakeLast}}}
		if got, err := d.Extract(t.Context(), log); err != nil || !maps.Equal(got, map[string]float64{"x": want}) {
			t.Errorf("%s: %v, %v; want %v", filter, got, err, want)
		}
	}
	for filter, want := range map[string]string{
		".all": "the figure x: map[time:9] is no number", "tonumber": "the figure x: tonumber cannot be applied to", `"a"`: `the figure x: "a" is no number`, ".none": "",
	} {
		d := &Definition{Figures: []Figure{{Name: "x", JQ: filter}}}
		got, err := d.Extract(t.Context(), log)
		if len(got) > 0 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", filter, got, err, want)
		}
	}
}

// What becomes of finite numbers may be infinite, and matches may be long.
func TestExtractTooLarge(t *testing.T) {
	log := []byte("x=1e308\nx=1e308\ny=" + strings.Repeat("y", 1000) + "\n{\"z\": [" + strings.Repeat("1,", 1000) + "1]}\n")
	for want, figure := range map[string]Figure{
		"the sum of 2 numbers is too large":                {Regexp: `x=(\S+)`, Take: TakeSum},
		"the mean of 2 numbers is too large":               {Regexp: `x=(\S+)`, Take: TakeMean},
		`"` + strings.Repeat("y", 100) + `…" is no number`: {Regexp: `y=(\S+)`},
		"[" + strings.Repeat("1 ", 49) + "1… is no number": {JQ: ".z"},
	} {
		figure.Name = "f"
		got, err := (&Definition{Figures: []Figure{figure}}).Extract(t.Context(), log)
		if len(got) > 0 || err == nil || err.Error() != "the figure f: "+want {
			t.Errorf("%v, %v; want %q", got, err, want)
		}
	}
}

// A filter that does not end is stopped, and named.
func TestEndlessFilter(t *testing.T) {
	for _, filter := range []string{"last(repeat(1))", "[range(1e12)] | length", "try last(repeat(1)) catch 1", "def f: f; f", "[limit(1e9; repeat(1))] | length"} {
		d := &Definition{Figures: []Figure{{Name: "x", JQ: filter}}}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		got, err := d.Extract(ctx, []byte("{}\n{}\n"))
		cancel()
		if want := "the figure x: the filter " + filter + " did not end in time"; len(got) > 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %q", got, err, want)
		}
	}
}

// at returns a time, in seconds after noon.
func at(seconds int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, seconds, 0, time.UTC)}
}

// ran returns the MiniCluster of a run that began and ended.
func ran(t *testing.T, d *Definition, run Run, created, admitted, started, finished int, reason string) *v1alpha2.MiniCluster {
	t.Helper()
	mc, err := d.MiniCluster(run)
	if err != nil {
		t.Fatal(err)
	}
	mc.CreationTimestamp = *at(created)
	size := mc.Spec.Size
	mc.Status = v1alpha2.MiniClusterStatus{
		Tasks: 4 * size, QueueingStatus: v1alpha2.QueueingStatus{Queue: "default"}, StartTime: at(started), CompletionTime: at(finished), ExitCode: new(int32(0)),
		Admission: &v1alpha2.Admission{Size: size, Quorum: size, Wanted: size, Nodes: fmt.Sprintf("n[1-%d]", size), Time: *at(admitted)},
		Conditions: []metav1.Condition{
			{Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason, Message: "The command ended, \"well\""},
			{Type: v1alpha2.ConditionReady, Status: metav1.ConditionTrue, Reason: reason},
		},
	}
	return mc
}

// Records are the same after a round trip, and a line that was not written to its end is not read.
func TestLines(t *testing.T) {
	d, runs := read(t, study)
	var data []byte
	var want []*Record
	for i, run := range runs {
		r := NewRecord(run, ran(t, d, run, i, i+1, i+3, i+13, v1alpha2.StateSucceeded), "")
		r.Figures = map[string]float64{"loop": 1.25}
		line, err := r.Line()
		if err != nil {
			t.Fatal(err)
		}
		data, want = append(data, line...), append(want, r)
	}
	half := append(slices.Clone(data), `{"name":"stu`...)
	got, whole, err := ParseLines(half)
	if diff := cmp.Diff(want, got); err != nil || whole != len(data) || diff != "" {
		t.Errorf("%d of %d bytes, %v: %s", whole, len(data), err, diff)
	}
	for message, text := range map[string]string{"line 13: the run study-1-1 is there twice": string(data) + string(data), "line 1: ": "{\n"} {
		if _, _, err := ParseLines([]byte(text)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want %q", err, message)
		}
	}
	var table bytes.Buffer
	if err := WriteCSV(&table, got); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 13 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	cells := map[string]string{}
	for i, name := range rows[0] {
		cells[name] = rows[1][i]
	}
	for name, want := range map[string]string{
		"name": "study-1-1", "state": "Succeeded", "message": `The command ended, "well"`, "submitted": "2026-03-01T12:00:00Z", "waitSeconds": "1", "runSeconds": "10",
		"nodes": "n[1-1]", "parameter.x": "8", "figure.loop": "1.25", "exitCode": "0", "givenUp": "0", "givenUpReasons": "", "hostageNodeSeconds": "2",
	} {
		if cells[name] != want {
			t.Errorf("%s: %q, want %q", name, cells[name], want)
		}
	}
}

// Nodes are hostages from the admission of each attempt until its command begins, or until the attempt ends.
func TestHostageTime(t *testing.T) {
	d, runs := read(t, study)
	life := ran(t, d, runs[3], 0, 20, 23, 30, v1alpha2.StateSucceeded)
	life.Status.Attempts = []v1alpha2.Attempt{
		{Size: 4, Admitted: *at(1), Ended: *at(6), Reason: "NotStarted"},
		{Size: 3, Admitted: *at(7), Started: at(9), Ended: *at(19), Reason: "BrokersLost"},
	}
	r := NewRecord(runs[3], life, "")
	if got, known := r.HostageTime(); !known || got != 4*5+3*2+2*3 {
		t.Errorf("got %g, %t", got, known)
	}
	var table bytes.Buffer
	if err := WriteCSV(&table, []*Record{r}); err != nil || !strings.Contains(table.String(), "NotStarted BrokersLost") {
		t.Errorf("%v: %s", err, table.String())
	}
	// An attempt that failed is listed, and is also the last one. Its brokers grew and shrank.
	life.Status.Attempts = append(life.Status.Attempts, v1alpha2.Attempt{Size: 2, Admitted: *at(20), Started: at(23), Ended: *at(30), Reason: "CommandFailed"})
	life.Status.Admission.Quorum, life.Status.Admission.Usage = 1, &v1alpha2.AttemptUsage{StartingNodeSeconds: 5}
	failed := NewRecord(runs[3], life, "")
	if got, known := failed.HostageTime(); !known || got != 4*5+3*2+5 || len(failed.GivenUp) != 2 || failed.Size != 1 {
		t.Errorf("got %g, %t, %d attempts before, size %d", got, known, len(failed.GivenUp), failed.Size)
	}
	never := *r
	never.Started = nil
	if got, known := never.HostageTime(); !known || got != 4*5+3*2+2*10 {
		t.Errorf("never started: got %g, %t", got, known)
	}
	if never.Finished = nil; func() bool { _, known := never.HostageTime(); return known }() {
		t.Error("the end is not known")
	}
	never.Admitted, never.GivenUp = nil, nil
	if got, known := never.HostageTime(); !known || got != 0 {
		t.Errorf("never admitted: got %g, %t", got, known)
	}
}

func TestScaling(t *testing.T) {
	d, runs := read(t, study)
	var records []*Record
	for _, run := range runs {
		// At twice the size the command takes 10 s and not 16 s: a speedup of 1.6, and an efficiency of 0.8.
		seconds := map[string]int{"1": 16, "2": 10}[run.Parameters[Size]] + run.Repetition - 2
		records = append(records, NewRecord(run, ran(t, d, run, 0, 1, 2, 2+seconds, v1alpha2.StateSucceeded), ""))
	}
	failed := NewRecord(runs[0], ran(t, d, runs[0], 0, 1, 2, 3, v1alpha2.StateFailed), "")
	series := d.Scaling(d.Measures()[1], append(records, failed))
	if len(series) != 2 || series[0].Name != "x=16" || len(series[0].Points) != 2 {
		t.Fatalf("%+v", series)
	}
	for _, s := range series {
		first, second := s.Points[0], s.Points[1]
		if first.Efficiency != 1 || second.Spread.Median != 10 || math.Abs(second.Speedup-1.6) > 1e-9 || math.Abs(second.Efficiency-.8) > 1e-9 || len(first.Values) != 3 {
			t.Errorf("%s: %+v", s.Name, s.Points)
		}
	}
	var halved []*Record
	for _, r := range records[1:] {
		half := *r
		end := half.Started.Add(half.Finished.Sub(*half.Started) / 2)
		half.Finished = &end
		halved = append(halved, &half)
	}
	rows, alone := Compare(d, d, records, halved[:1])
	if len(rows) != 3 || len(alone) != 3 || rows[0].Measure.Name != "run time" || math.Abs(rows[0].Ratio.Median-.5) > .04 {
		t.Errorf("%+v, alone %v", rows, alone)
	}
}

// Records that an earlier version wrote are read.
func TestEarlierRecord(t *testing.T) {
	records, _, err := ParseLines([]byte(`{"name":"s-1-1","case":1,"repetition":1,"parameters":{"size":"2"},"state":"Succeeded","reason":"Succeeded","submitted":"2026-03-01T12:00:00Z",` +
		`"admitted":"2026-03-01T12:01:00Z","started":"2026-03-01T12:01:05Z","finished":"2026-03-01T12:02:00Z","wanted":2,"size":2,"tasks":8,"nodes":"n[1-2]","queue":"default","exitCode":0,` +
		`"givenUp":[{"attempt":1,"size":2,"admitted":"2026-03-01T12:00:10Z","ended":"2026-03-01T12:00:30Z","nodeSeconds":33,"reason":"NotStarted"}],` +
		`"usefulNodeSeconds":110,"lostNodeSeconds":43,"log":"logs/s-1-1.log","figures":{"loop":1.5}}` + "\n"))
	if err != nil || len(records) != 1 {
		t.Fatal(err)
	}
	r := records[0]
	s := r.Story()
	if hostage, known := r.HostageTime(); !known || hostage != 33+2*5 || len(s.Phases(time.Time{})) != 5 || len(s.Attempts[1].Stays) != 2 || r.Figures["loop"] != 1.5 {
		t.Errorf("%g, %+v", hostage, s)
	}
}

// The life of a run has its waits, starts and commands, of all attempts.
func TestPhases(t *testing.T) {
	at := func(seconds int) *time.Time { at := time.Unix(int64(seconds), 0); return &at }
	when := func(seconds int) metav1.Time { return metav1.NewTime(*at(seconds)) }
	given := []v1alpha2.Attempt{{Size: 4, Admitted: when(10), Ended: when(20)}, {Size: 2, Admitted: when(25), Started: new(when(27)), Ended: when(40)}}
	for name, tc := range map[string]struct {
		record Record
		want   string
	}{
		"waits":     {Record{Submitted: at(5)}, "w:5-100"},
		"runs":      {Record{Submitted: at(5), Admitted: at(6), Started: at(8), Finished: at(30), Size: 3}, "w:5-6 s:6-8x3 r:8-30x3"},
		"at once":   {Record{Submitted: at(5), Admitted: at(5), Started: at(5), Finished: at(30), Size: 3}, "r:5-30x3"},
		"no start":  {Record{Submitted: at(5), Admitted: at(6), Size: 3}, "w:5-6 s:6-100x3"},
		"attempts":  {Record{Submitted: at(5), Admitted: at(50), Started: at(51), Finished: at(60), Size: 1, GivenUp: given}, "w:5-10 s:10-20x4 w:20-25 s:25-27x2 r:27-40x2 w:40-50 s:50-51x1 r:51-60x1"},
		"gave up":   {Record{Submitted: at(5), Finished: at(40), GivenUp: given}, "w:5-10 s:10-20x4 w:20-25 s:25-27x2 r:27-40x2"},
		"had ended": {Record{Submitted: at(5), Finished: at(30)}, "w:5-30"},
	} {
		var got []string
		s := tc.record.Story()
		for _, p := range s.Phases(*at(100)) {
			text := fmt.Sprintf("%s:%d-%d", p.Kind[:1], p.From.Unix(), p.To.Unix())
			if p.Kind != story.KindWaiting {
				text += fmt.Sprintf("x%d", p.Size)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %v, want %s", name, got, tc.want)
		}
	}
}
