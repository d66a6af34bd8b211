// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/flux-elastic/flux-elastic/dev/bench"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// timelineFile is the record of a timeline, in the directory of its run.
const timelineFile = "timeline.json"

// drawNodes draws what the nodes did under each scheduler, in one file for each scenario. It takes the
// runs with the first seed, and those of other schedulers first.
func drawNodes(dir string, runs []bench.Run, results []*clog.Result) error {
	var order []int
	for i := range runs {
		if runs[i].Seed == runs[0].Seed && results[i].Trouble == "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return rank(&runs[i]) - rank(&runs[j]) })
	panels, titles := map[string][]timeline.Panel{}, map[string]string{}
	for _, i := range order {
		record, err := readTimeline(filepath.Join(dir, filepath.FromSlash(runs[i].Dir()), timelineFile))
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(record.Stories) == 0 { // the run is older than this file
			continue
		}
		if err != nil {
			return err
		}
		name, r := runs[i].Scenario.Name, results[i]
		titles[name] = fmt.Sprintf("%d gangs with %d pods on %d nodes, one row for each node", r.Gangs, r.Pods, r.Experiment.Nodes)
		panels[name] = append(panels[name], timeline.Panel{Title: title(&runs[i]), Note: note(r), Record: record})
	}
	for name, list := range panels {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), timeline.Panels(titles[name], list).File(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rank is 1 for ours, and 0 for another scheduler.
func rank(run *bench.Run) int {
	if run.Scheduler.Ours() {
		return 1
	}
	return 0
}

// title is the name of a scheduler for readers who do not know the table.
func title(run *bench.Run) string {
	switch {
	case run.Scheduler.Ours():
		return "flux-elastic (" + run.Scheduler.Name + ")"
	case run.Pods == bench.Same:
		return run.Scheduler.Name + " (with our pods)"
	}
	return run.Scheduler.Name
}

// note is a result in a few words.
func note(r *clog.Result) string {
	within := fmt.Sprintf("in %.0f s", r.Makespan)
	if r.Finished < r.Gangs {
		within = fmt.Sprintf("within %.0f s", r.Experiment.Limit)
	}
	return fmt.Sprintf("%d of %d gangs finished %s, and used %.0f %% of the nodes' time", r.Finished, r.Gangs, within, r.Useful*100)
}

func readTimeline(path string) (*timeline.Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	record := &timeline.Record{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return record, nil
}
