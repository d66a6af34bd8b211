// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/dev/clog"
)

// Comparison has the figures of all schedulers, by scenario.
type Comparison struct {
	Scenarios []ScenarioRows `json:"scenarios"`
}

// ScenarioRows are the rows of a scenario.
type ScenarioRows struct {
	Name  string  `json:"name"`
	What  string  `json:"what"`
	Gangs int     `json:"gangs"`
	Pods  int     `json:"pods"`
	Nodes int     `json:"nodes"`
	Bound float64 `json:"bound"` // of the makespan in seconds, the median over the seeds
	Rows  []Row   `json:"rows"`
}

// Row has the figures of one scheduler in one scenario, over all seeds.
type Row struct {
	System string `json:"system"`
	Ours   bool   `json:"ours"`
	Runs   int    `json:"runs"`
	// Troubles are why runs failed.
	Troubles []string `json:"troubles,omitempty"`
	// Limits is the number of runs in which not all gangs finished.
	Limits     int              `json:"limits"`
	Violations int              `json:"violations"`
	Figures    map[string]Value `json:"figures"` // by the name of the figure
	// Programs are the medians of the programs, by name.
	Programs map[string]clog.Process `json:"programs"`
}

// Value is the median of a figure over the seeds, with its range.
type Value struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	// Ratio is the median divided by that of the best other scheduler; 0 if there is none.
	Ratio float64 `json:"ratio,omitempty"`
}

// figure is a column of the table.
type figure struct {
	name   string // in JSON
	title  string
	format string
	less   bool // less is better
	cost   bool // in the second table
	value  func(*clog.Result) float64
}

var figures = []figure{
	{"finished", "gangs finished", "%.0f", false, false, func(r *clog.Result) float64 { return float64(r.Finished) }},
	{"makespan", "makespan, s", "%.1f", true, false, func(r *clog.Result) float64 { return r.Makespan }},
	{"ratio", "times the bound", "%.2f", true, false, func(r *clog.Result) float64 { return r.Ratio }},
	{"useful", "useful, %", "%.0f", false, false, func(r *clog.Result) float64 { return r.Useful * 100 }},
	{"hostage", "hostage node s", "%.0f", true, false, func(r *clog.Result) float64 { return r.Figures.Hostage }},
	{"longestHostage", "longest hostage, s", "%.1f", true, false, func(r *clog.Result) float64 { return r.Figures.LongestHostage }},
	{"waitP50", "wait p50, s", "%.1f", true, false, func(r *clog.Result) float64 { return r.Figures.Wait.P50 }},
	{"waitP95", "wait p95, s", "%.1f", true, false, func(r *clog.Result) float64 { return r.Figures.Wait.P95 }},
	{"waitP99", "wait p99, s", "%.1f", true, false, func(r *clog.Result) float64 { return r.Figures.Wait.P99 }},
	{"gangsPerSecond", "gangs/s", "%.2f", false, false, func(r *clog.Result) float64 { return r.Figures.GangsPerSecond }},
	{"podsPerSecond", "pods/s", "%.1f", false, false, func(r *clog.Result) float64 { return r.Figures.PodsPerSecond }},
	{"cpu", "CPU, s", "%.0f", true, true, func(r *clog.Result) float64 { return cpu(r, "") }},
	{"cpuPerPod", "CPU per pod, ms", "%.0f", true, true, func(r *clog.Result) float64 { return r.CPUPerPod }},
	{"apiServerPerPod", "API server, ms", "%.0f", true, true, func(r *clog.Result) float64 {
		return cpu(r, "kube-apiserver") * 1000 / float64(max(r.FinishedPods, 1))
	}},
	{"writesPerPod", "writes per pod", "%.1f", true, true, func(r *clog.Result) float64 { return r.API.WritesPerPod }},
	{"bindingsPerPod", "Bindings per pod", "%.2f", true, true, bindings},
	{"watchEventsPerPod", "watch events per pod", "%.0f", true, true, func(r *clog.Result) float64 { return r.API.WatchEventsPerPod }},
	{"placing", "placing, s", "%.1f", true, false, placing},
	{"unfair", "unfair, %", "%.1f", true, false, unfair},
	{"others", "busy with others, %", "%.0f", true, true, func(r *clog.Result) float64 { return r.Machine.Others * 100 }},
}

// cpu returns the CPU time of a program, or of all programs.
func cpu(r *clog.Result, name string) float64 {
	sum := 0.0
	for _, p := range r.Processes {
		if name == "" || p.Name == name {
			sum += p.CPUSeconds
		}
	}
	return sum
}

// bindings is how many pods were bound by a request of their own, for each pod of a finished gang: none that were bound
// at their admission.
func bindings(r *clog.Result) float64 {
	for _, w := range r.API.Writes {
		if w.What == "POST pods binding" {
			return w.PerPod
		}
	}
	return 0
}

// unfair is how far, in percent of the nodes in use, the share of a queue is from that of the others;
// NaN without queues.
func unfair(r *clog.Result) float64 {
	if len(r.Figures.Shares) == 0 {
		return math.NaN()
	}
	most := 0.0
	for _, share := range r.Figures.Shares {
		most = max(most, math.Abs(share-1/float64(len(r.Figures.Shares))))
	}
	return most * 100
}

// placing is the longest time, in seconds, from the admission of a MiniCluster until its last pod was
// bound; NaN for other schedulers.
func placing(r *clog.Result) float64 {
	if r.Breakdown == nil {
		return math.NaN()
	}
	most := 0.0
	for _, gang := range r.Breakdown.Gangs {
		most = max(most, gang.Until[clog.PhaseBinding]-gang.Until[clog.PhaseDecision])
	}
	return most
}

// Compare compares the results. Results of the same scenario and scheduler are one row.
func Compare(results []*clog.Result) *Comparison {
	out := &Comparison{}
	for _, name := range distinct(results, func(r *clog.Result) string { return r.Experiment.Scenario }) {
		of := slices.DeleteFunc(slices.Clone(results), func(r *clog.Result) bool { return r.Experiment.Scenario != name })
		s := ScenarioRows{Name: name, What: of[0].Experiment.What, Gangs: of[0].Gangs, Pods: of[0].Pods, Nodes: of[0].Experiment.Nodes}
		s.Bound = valueOf(of, func(r *clog.Result) float64 { return r.Bound }).Median
		for _, system := range distinct(of, func(r *clog.Result) string { return r.Experiment.System }) {
			s.Rows = append(s.Rows, rowOf(slices.DeleteFunc(slices.Clone(of), func(r *clog.Result) bool { return r.Experiment.System != system })))
		}
		s.relate()
		out.Scenarios = append(out.Scenarios, s)
	}
	return out
}

func distinct(results []*clog.Result, key func(*clog.Result) string) (out []string) {
	for _, r := range results {
		if !slices.Contains(out, key(r)) {
			out = append(out, key(r))
		}
	}
	return out
}

func rowOf(results []*clog.Result) Row {
	about := results[0].Experiment
	row := Row{System: about.System, Ours: about.Binder != "", Figures: map[string]Value{}}
	var whole []*clog.Result
	for _, r := range results {
		row.Runs++
		if r.Trouble != "" {
			row.Troubles = append(row.Troubles, r.Trouble)
			continue
		}
		whole = append(whole, r)
		if r.Finished < r.Gangs-r.Hopeless {
			row.Limits++
		}
		row.Violations += r.Violations.Count()
	}
	for _, f := range figures {
		if v := valueOf(whole, f.value); !math.IsNaN(v.Median) {
			row.Figures[f.name] = v
		}
	}
	row.Programs = programs(whole)
	return row
}

// programs returns the medians of the programs.
func programs(results []*clog.Result) map[string]clog.Process {
	out := map[string]clog.Process{}
	for _, r := range results {
		for _, p := range r.Processes {
			of := func(value func(clog.Process) float64) float64 {
				return valueOf(results, func(r *clog.Result) float64 {
					for _, other := range r.Processes {
						if other.Name == p.Name {
							return value(other)
						}
					}
					return math.NaN()
				}).Median
			}
			out[p.Name] = clog.Process{
				Name:       p.Name,
				CPUSeconds: of(func(p clog.Process) float64 { return p.CPUSeconds }),
				PeakMiB:    of(func(p clog.Process) float64 { return p.PeakMiB }),
			}
		}
	}
	return out
}

// valueOf returns the median of a figure; NaN if no result has the figure.
func valueOf(results []*clog.Result, figure func(*clog.Result) float64) Value {
	var values []float64
	for _, r := range results {
		if v := figure(r); r.Trouble == "" && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	n := len(values)
	if n == 0 {
		return Value{Median: math.NaN()}
	}
	slices.Sort(values)
	return Value{Median: (values[(n-1)/2] + values[n/2]) / 2, Least: values[0], Most: values[n-1]}
}

// relate sets the ratios to the best other scheduler. Only those with the most finished gangs count.
func (s *ScenarioRows) relate() {
	finished := 0.0
	for _, row := range s.Rows {
		if !row.Ours {
			finished = max(finished, row.Figures["finished"].Median)
		}
	}
	for _, f := range figures {
		best := 0.0
		for _, row := range s.Rows {
			if v, ok := row.Figures[f.name]; ok && !row.Ours && row.Figures["finished"].Median == finished && (best == 0 || f.less == (v.Median < best)) {
				best = v.Median
			}
		}
		for _, row := range s.Rows {
			if v, ok := row.Figures[f.name]; ok && best != 0 {
				v.Ratio = v.Median / best
				row.Figures[f.name] = v
			}
		}
	}
}

// Line describes a result in one line.
func Line(r *clog.Result) string {
	if r.Trouble != "" {
		return "  failed: " + r.Trouble
	}
	return fmt.Sprintf("  %d of %d gangs, %.1f s (%.2f times the bound), hostage %.0f node s, wait p95 %.1f s, %.0f ms of CPU and %.1f writes per pod",
		r.Finished, r.Gangs, r.Makespan, r.Ratio, r.Figures.Hostage, r.Figures.Wait.P95, r.CPUPerPod, r.API.WritesPerPod)
}

// Markdown returns the comparison as tables: medians, with ranges and ratios to the best other
// scheduler.
func (c *Comparison) Markdown() string {
	var out bytes.Buffer
	for _, s := range c.Scenarios {
		fmt.Fprintf(&out, "### %s: %s\n\n%d gangs with %d pods on %d nodes, bound %.1f s.\n\n", s.Name, s.What, s.Gangs, s.Pods, s.Nodes, s.Bound)
		for _, cost := range []bool{false, true} {
			s.table(&out, slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return f.cost != cost }))
		}
		s.programs(&out)
	}
	return out.String()
}

// table writes a table of some figures.
func (s *ScenarioRows) table(out *bytes.Buffer, of []figure) {
	of = slices.DeleteFunc(of, func(f figure) bool {
		return !slices.ContainsFunc(s.Rows, func(row Row) bool { _, ok := row.Figures[f.name]; return ok })
	})
	fmt.Fprint(out, "| scheduler | runs |")
	for _, f := range of {
		fmt.Fprintf(out, " %s |", f.title)
	}
	fmt.Fprintf(out, "\n%s\n", strings.Repeat("|---", len(of)+2)+"|")
	for _, row := range s.Rows {
		fmt.Fprintf(out, "| %s | %s |", row.System, row.remark())
		for _, f := range of {
			fmt.Fprintf(out, " %s |", row.cell(f))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

// programs writes the table of the CPU time and the memory of the programs.
func (s *ScenarioRows) programs(out *bytes.Buffer) {
	var names []string
	for _, row := range s.Rows {
		for name := range row.Programs {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	fmt.Fprintf(out, "CPU seconds, and peak MiB:\n\n| scheduler | %s |\n%s\n", strings.Join(names, " | "), strings.Repeat("|---", len(names)+1)+"|")
	for _, row := range s.Rows {
		fmt.Fprintf(out, "| %s |", row.System)
		for _, name := range names {
			if p, ok := row.Programs[name]; ok {
				fmt.Fprintf(out, " %.1f, %.0f", p.CPUSeconds, p.PeakMiB)
			}
			fmt.Fprint(out, " |")
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

// remark says how many runs there were, and how many of them failed or came to the limit.
func (r Row) remark() string {
	out := fmt.Sprint(r.Runs)
	for _, what := range []struct {
		n    int
		text string
	}{{len(r.Troubles), "failed"}, {r.Limits, "at the limit"}, {r.Violations, "violations"}} {
		if what.n > 0 {
			out += fmt.Sprintf(", %d %s", what.n, what.text)
		}
	}
	return out
}

// cell returns the median, the range if there is one, and for ours the ratio to the best other one.
func (r Row) cell(f figure) string {
	v, ok := r.Figures[f.name]
	if !ok {
		return ""
	}
	out := fmt.Sprintf(f.format, v.Median)
	if v.Least != v.Most {
		out += fmt.Sprintf(" ("+f.format+" to "+f.format+")", v.Least, v.Most)
	}
	if r.Ours && v.Ratio != 0 && f.name != "others" {
		out += fmt.Sprintf(", ×%.2f", v.Ratio)
	}
	return cmp.Or(out, "-")
}
