// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench compares schedulers of gangs. It says which runs there are, makes their gangs and
// objects, and compares the results. Callers run the clusters.
package bench

import (
	"cmp"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/dev/clog"
)

//go:embed bench.yaml
var file []byte

// Table says what is measured.
type Table struct {
	Seeds      []uint64    `json:"seeds"`
	Scenarios  []Scenario  `json:"scenarios"`
	Schedulers []Scheduler `json:"schedulers"`
}

// Scenario is a cluster with gangs.
type Scenario struct {
	Name  string   `json:"name"`
	What  string   `json:"what"` // in a few words
	Nodes int      `json:"nodes"`
	Limit Duration `json:"limit"` // of a run
	// Over is the time within which the gangs come; 0 if all come at once.
	Over    Duration `json:"over"`
	Classes []Class  `json:"classes"`
	// Elastic is the part of the gangs that may start with half of their pods.
	Elastic float64 `json:"elastic"`
	// NeverStart is the part of the pods that never start.
	NeverStart float64 `json:"neverStart"`
	// StartTimeout is how long a gang may take to start, before it is given up. Default 60s.
	StartTimeout Duration `json:"startTimeout"`
	// Settle is how long queues may take to get their shares.
	Settle Duration `json:"settle"`
	// Only are the schedulers that take part; empty for all.
	Only []string `json:"only"`
}

// Class is a number of gangs that are alike.
type Class struct {
	Size  int      `json:"size"`
	Count int      `json:"count"`
	Run   Duration `json:"run"`
	At    Duration `json:"at"`
	Queue string   `json:"queue"`
}

// Scheduler is a scheduler and its settings. With a binder it is ours.
type Scheduler struct {
	Name    string `json:"name"`
	Binder  string `json:"binder"`
	Elastic bool   `json:"elastic"` // gangs may start with half of their pods
	// Control are settings of the control plane.
	Control struct {
		FeatureGates  string `json:"featureGates"`
		RuntimeConfig string `json:"runtimeConfig"`
		Scheduler     string `json:"scheduler"`
	} `json:"control"`
	// Part is the name of the additional programs in localcluster, such as Volcano.
	Part string `json:"part"`
	// Replaces means that the program takes the place of kube-scheduler.
	Replaces bool `json:"replaces"`
	// Kueue is a part of Kueue's configuration.
	Kueue string `json:"kueue"`
	// Program is the name of the program that runs beside the cluster, and Args its arguments.
	// Config is the text of its configuration file.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Config  string   `json:"config"`
	// Definitions is the pattern of the files of the program's API, in its module.
	Definitions string `json:"definitions"`
	// Setup are objects of the cluster, Queue an object for each queue, Group an object for each
	// gang, and Job a patch (RFC 7396) of the gang's Job.
	Setup string `json:"setup"`
	Queue string `json:"queue"`
	Group string `json:"group"`
	Job   string `json:"job"`
}

// Duration is a duration in Go's format.
type Duration struct{ time.Duration }

// UnmarshalJSON reads a duration.
func (d *Duration) UnmarshalJSON(data []byte) error {
	text, err := strconv.Unquote(string(data))
	if err != nil {
		return fmt.Errorf("%s is no duration, as in \"10s\"", data)
	}
	d.Duration, err = time.ParseDuration(text)
	return err
}

// Ours reports whether the scheduler is the manager of this project.
func (s *Scheduler) Ours() bool { return s.Binder != "" }

// Read returns the table of a file; with "" that of this package.
func Read(path string) (*Table, error) {
	text := file
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	t := &Table{}
	if err := yaml.UnmarshalStrict(text, t); err != nil {
		return nil, fmt.Errorf("reading %s: %w", cmp.Or(path, "bench.yaml"), err)
	}
	for i := range t.Scenarios {
		timeout := &t.Scenarios[i].StartTimeout.Duration
		*timeout = cmp.Or(*timeout, time.Minute)
	}
	return t, nil
}

// Pods say how the pods of a scheduler are made.
const (
	Bare = "bare" // a Job of pause containers
	Same = "same" // the pods of a MiniCluster, with its Service, ConfigMap and Secret
)

// Run is one run of a scheduler.
type Run struct {
	Scenario  Scenario
	Scheduler Scheduler
	Pods      string // Bare or Same; "" for ours
	Seed      uint64
}

// System is the name of the scheduler and its pods.
func (r *Run) System() string { return strings.TrimSuffix(r.Scheduler.Name+" "+r.Pods, " ") }

// Dir is the name of the directory of the run.
func (r *Run) Dir() string {
	return fmt.Sprintf("%s/%s/%d", r.Scenario.Name, strings.ReplaceAll(r.System(), " ", "-"), r.Seed)
}

// Selection says which runs to take. Empty fields take all.
type Selection struct {
	Scenarios, Systems []string
	Seeds              []uint64
}

// Runs returns the selected runs in their order. A system is selected by its name, with or without
// its pods.
func (t *Table) Runs(s Selection) ([]Run, error) {
	if err := t.check(s); err != nil {
		return nil, err
	}
	seeds := s.Seeds
	if len(seeds) == 0 {
		seeds = t.Seeds
	}
	var out []Run
	for _, scenario := range t.Scenarios {
		if len(s.Scenarios) > 0 && !slices.Contains(s.Scenarios, scenario.Name) {
			continue
		}
		for _, seed := range seeds {
			for _, run := range t.round(scenario, seed) {
				if len(s.Systems) == 0 || slices.Contains(s.Systems, run.Scheduler.Name) || slices.Contains(s.Systems, run.System()) {
					out = append(out, run)
				}
			}
		}
	}
	return out, nil
}

// round returns one run of each scheduler.
func (t *Table) round(scenario Scenario, seed uint64) (out []Run) {
	for _, scheduler := range t.Schedulers {
		if len(scenario.Only) > 0 && !slices.Contains(scenario.Only, scheduler.Name) || scheduler.Elastic && scenario.Elastic == 0 {
			continue
		}
		pods := []string{Bare, Same}
		if scheduler.Ours() {
			pods = []string{""}
		}
		for _, pods := range pods {
			out = append(out, Run{Scenario: scenario, Scheduler: scheduler, Pods: pods, Seed: seed})
		}
	}
	return out
}

// check returns an error if the selection has a name that the table does not have.
func (t *Table) check(s Selection) error {
	var scenarios, systems []string
	for _, scenario := range t.Scenarios {
		scenarios = append(scenarios, scenario.Name)
	}
	for _, scheduler := range t.Schedulers {
		systems = append(systems, scheduler.Name)
		if !scheduler.Ours() {
			systems = append(systems, scheduler.Name+" "+Bare, scheduler.Name+" "+Same)
		}
	}
	for _, name := range s.Scenarios {
		if !slices.Contains(scenarios, name) {
			return fmt.Errorf("there is no scenario %q: %s", name, strings.Join(scenarios, ", "))
		}
	}
	for _, name := range s.Systems {
		if !slices.Contains(systems, name) {
			return fmt.Errorf("there is no scheduler %q: %s", name, strings.Join(systems, ", "))
		}
	}
	return nil
}

// Gangs returns the gangs of a run, in the order of their submission.
func (r *Run) Gangs() ([]clog.Gang, error) {
	var classes []clog.Class
	for _, class := range r.Scenario.Classes {
		classes = append(classes, clog.Class{
			Size: class.Size, Count: class.Count, Run: class.Run.Duration, At: class.At.Duration, Queue: class.Queue,
		})
	}
	gangs, err := clog.Gangs(classes, clog.Rigid, r.Seed)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(r.Seed, 1))
	for i := range gangs {
		gang := &gangs[i]
		gang.At += time.Duration(random.Float64() * float64(r.Scenario.Over.Duration))
		// All schedulers draw the same numbers, so that they get the same gangs.
		if elastic := random.Float64() < r.Scenario.Elastic; elastic && r.Scheduler.Elastic {
			gang.Min = (gang.Size + 1) / 2
		}
		var ranks []string
		for rank := range gang.Size {
			if random.Float64() < r.Scenario.NeverStart {
				ranks = append(ranks, strconv.Itoa(rank))
			}
		}
		gang.NeverStart = strings.Join(ranks, ",")
	}
	slices.SortStableFunc(gangs, func(a, b clog.Gang) int { return int(a.At - b.At) })
	return gangs, nil
}

// Queues returns the names of the scenario's queues. There is at least one.
func (s *Scenario) Queues() []string {
	var out []string
	for _, class := range s.Classes {
		if !slices.Contains(out, class.Queue) {
			out = append(out, class.Queue)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}
