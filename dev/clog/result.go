// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Experiment has the settings of an experiment.
type Experiment struct {
	Scenario string `json:"scenario,omitempty"`
	What     string `json:"what,omitempty"` // the scenario in a few words
	// System is the scheduler, and how its pods are made.
	System  string  `json:"system,omitempty"`
	Sizes   string  `json:"sizes"`
	Seed    uint64  `json:"seed"`
	Nodes   int     `json:"nodes"`
	Min     string  `json:"min"`
	Run     float64 `json:"run"`              // seconds
	Limit   float64 `json:"limit"`            // seconds
	Settle  float64 `json:"settle,omitempty"` // seconds that queues may take to get their shares
	Binder  string  `json:"binder"`
	Kueue   bool    `json:"kueue,omitempty"` // Kueue grants quota to the gangs
	Workers int     `json:"workers"`         // gangs that are submitted in parallel
	// Build is the digest of the program that is measured, and of its settings: another build
	// is another experiment.
	Build string `json:"build,omitempty"`
}

// Machine is the machine of the experiment. Load is its load at the start.
type Machine struct {
	Cores int    `json:"cores"`
	CPU   string `json:"cpu,omitempty"`
	Load  string `json:"load,omitempty"`
	// Busy is the part of the cores that all programs of the machine used during the
	// experiment. Others is the part that programs outside of the experiment used.
	Busy   float64 `json:"busy"`
	Others float64 `json:"others"`
}

// Process has the resources that a program of the experiment used.
type Process struct {
	Name       string  `json:"name"`
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMiB    float64 `json:"peakMiB"`
}

// Manager has values from the manager's metrics.
type Manager struct {
	Cycles   float64 `json:"cycles"`
	CycleP50 float64 `json:"cycleP50"` // seconds
	CycleP99 float64 `json:"cycleP99"`
	// Reconciles are the numbers of passes, by controller and result.
	Reconciles map[string]float64 `json:"reconciles"`
	// Queued is the mean time that a request waited for its pass, by controller, in seconds.
	Queued map[string]float64 `json:"queued"`
}

// Result is the result of an experiment.
type Result struct {
	Experiment Experiment `json:"experiment"`
	// Trouble is why the experiment failed; "" if it did not.
	Trouble  string  `json:"trouble,omitempty"`
	Machine  Machine `json:"machine"`
	Gangs    int     `json:"gangs"`
	Pods     int     `json:"pods"`
	Finished int     `json:"finished"`
	// Hopeless is the number of gangs that could not run, since pods of them never start.
	Hopeless int `json:"hopeless,omitempty"`
	// FinishedPods is the sum of the sizes at which the finished gangs ran.
	FinishedPods int `json:"finishedPods"`
	// Makespan is the time from the first submission to the end of the last pod, in seconds. If
	// not all gangs finished, it lasts to the end of the observation.
	Makespan float64 `json:"makespan"`
	// Bound is a lower bound of the makespan. If all gangs are submitted at once, it is the sum of
	// size times run time, divided by the number of nodes.
	Bound float64 `json:"bound"`
	Ratio float64 `json:"ratio"`
	// Useful is the part of the nodes' time that finished commands needed. Running, Waiting
	// and Idle are those of the timeline.
	Useful  float64 `json:"useful"`
	Running float64 `json:"running"`
	Waiting float64 `json:"waiting"`
	Idle    float64 `json:"idle"`

	Figures Figures `json:"figures"`
	// Violations, LongestPartial, Breakdown and Manager are those of MiniClusters.
	Violations     Violations         `json:"violations"`
	LongestPartial float64            `json:"longestPartial"` // seconds
	Breakdown      *Breakdown         `json:"breakdown,omitempty"`
	API            API                `json:"api"`
	Processes      []Process          `json:"processes"`
	CPUPerPod      float64            `json:"cpuPerPod"` // milliseconds
	Manager        Manager            `json:"manager"`
	Events         map[string]float64 `json:"events"`
}

// Tell sets the values that follow from the record.
func (o *Result) Tell(r *Record) {
	o.Gangs, o.Finished, o.Pods = len(r.lives), r.Finished(), Pods(r.gangs)
	useful := 0.0
	for _, l := range r.lives {
		if l.Hopeless() {
			o.Hopeless++
		}
		if l.succeeded {
			useful += l.Run.Seconds() * float64(l.Size)
			o.FinishedPods += l.held()
		}
	}
	first, last := r.bounds()
	o.Makespan, o.Bound = last.Sub(first).Seconds(), Bound(slices.DeleteFunc(slices.Clone(r.gangs), Gang.Hopeless), r.nodes).Seconds()
	if o.Makespan > 0 {
		o.Ratio = o.Makespan / o.Bound
		o.Useful = useful / (o.Makespan * float64(r.nodes))
	}
	o.Figures = r.Figures(time.Duration(o.Experiment.Settle * float64(time.Second)))
	if !r.jobs {
		o.Violations, o.LongestPartial = r.Violations(), r.LongestPartial().Seconds()
		o.Breakdown = new(r.Breakdown())
	}
}

// Verdict returns an error unless all gangs finished without violations.
func (o *Result) Verdict() error {
	if o.Finished != o.Gangs || o.Violations.Count() > 0 {
		return fmt.Errorf("%d of %d gangs finished, %d violations (%+v)", o.Finished, o.Gangs, o.Violations.Count(), o.Violations)
	}
	return nil
}

// Print writes the result as text.
func (o *Result) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	quota, more := "", ""
	if o.Experiment.Kueue {
		quota = ", quota of Kueue"
	}
	fmt.Fprintf(w, "%d of %d gangs finished (%s, seed %d, %s, %d nodes, binder %s%s)\n",
		o.Finished, o.Gangs, o.Experiment.Sizes, o.Experiment.Seed, o.Experiment.Min, o.Experiment.Nodes, o.Experiment.Binder, quota)
	if o.Finished < o.Gangs {
		more = "more than "
	}
	fmt.Fprintf(w, "makespan %s%.1f s, bound %.1f s, ratio %.2f; of the nodes' time %.0f %% useful, %.0f %% running, %.0f %% starting or ending, %.0f %% idle\n",
		more, o.Makespan, o.Bound, o.Ratio, o.Useful*100, o.Running*100, o.Waiting*100, o.Idle*100)
	fmt.Fprintf(w, "violations: %d half placed, %d gave up, %d not admitted, %d double booked; longest start with only some pods pinned %.2f s\n\n",
		o.Violations.HalfPlaced, o.Violations.GaveUp, o.Violations.NotAdmitted, o.Violations.DoubleBooked, o.LongestPartial)
	o.printTimes(w)
	o.printAPI(w)
	fmt.Fprintf(w, "\nprocess\tCPU s\tms per pod\tpeak MiB\t\n")
	for _, p := range o.Processes {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.0f\t\n", p.Name, p.CPUSeconds, p.CPUSeconds*1000/float64(max(o.FinishedPods, 1)), p.PeakMiB)
	}
	fmt.Fprintf(w, "all\t\t%.1f\t\t\n\n", o.CPUPerPod)
	fmt.Fprintf(w, "%.0f decision cycles, p50 %.1f ms, p99 %.1f ms; %d cores, load at the start %s, then %.0f %% busy, %.0f %% by other programs\n",
		o.Manager.Cycles, o.Manager.CycleP50*1000, o.Manager.CycleP99*1000, o.Machine.Cores, o.Machine.Load, o.Machine.Busy*100, o.Machine.Others*100)
	return w.Flush()
}

func (o *Result) printTimes(w io.Writer) {
	fmt.Fprintf(w, "phase\tmean s\tp50\tp99\tmax\tnode s\tof all\t\n")
	for _, p := range o.Breakdown.Phases {
		fmt.Fprintf(w, "%s\t%s%.0f\t%.1f %%\t\n", p.Name, p.Gangs.columns(), p.NodeSeconds, p.Share*100)
	}
	fmt.Fprintf(w, "gap of a node\t%s\t\t\nup to startTime\t%s\t\t\n", o.Breakdown.Gap.columns(), o.Breakdown.Waking.columns())
}

func (s Spread) columns() string {
	if s.Count == 0 {
		return "\t\t\t\t"
	}
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f\t", s.Mean, s.P50, s.P99, s.Max)
}

func (o *Result) printAPI(w io.Writer) {
	fmt.Fprintf(w, "\nwrite\tcount\tper pod\t\n")
	for _, write := range o.API.Writes {
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t\n", write.What, write.Count, write.PerPod)
	}
	fmt.Fprintf(w, "all\t\t%.2f\t\n", o.API.WritesPerPod)
	for _, write := range o.API.DryRuns {
		fmt.Fprintf(w, "dry run: %s\t%.0f\t%.2f\t\n", write.What, write.Count, write.PerPod)
	}
	fmt.Fprintf(w, "watch events\t\t%.2f\t\n\nrequests of\tmethod\tcount\t\n", o.API.WatchEventsPerPod)
	for _, name := range sortedKeys(o.API.Clients) {
		for _, method := range sortedKeys(o.API.Clients[name]) {
			fmt.Fprintf(w, "%s\t%s\t%.0f\t\n", name, method, o.API.Clients[name][method])
		}
	}
}
