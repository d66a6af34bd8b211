// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

// Each node runs one task by default. With a file, the tasks of the file count, and those of each node stay.
func TestSubmitTasks(t *testing.T) {
	with := func(lines string) string { return strings.Replace(template, "  queue:", lines+"\n  queue:", 1) }
	for name, tc := range map[string]struct {
		file string
		args []string
		want int32 // -1: the default of the API
	}{
		"nothing said":         {"", nil, 1},
		"nodes":                {"", []string{"-N8-16"}, 16},
		"tasks":                {"", []string{"-N16", "-n112"}, 112},
		"one for each node":    {"", []string{"-N16", "-n0"}, 0},
		"tasks of each node":   {"", []string{"-N16", "--ntasks-per-node=7"}, 112},
		"a launcher":           {"", []string{"-N16", "--launcher"}, -1},
		"nothing to run":       {"", []string{"-N16", "--", " "}, -1},
		"a file as it is":      {with("  tasks: 30"), nil, 30},
		"a file with more":     {with("  tasks: 28"), []string{"-N16"}, 112},
		"a file with fewer":    {with("  tasks: 28"), []string{"-N2"}, 14},
		"an uneven file":       {with("  tasks: 30"), []string{"-N16"}, 30},
		"a file with as many":  {with("  tasks: 28\n  elastic: {tasks: {scaling: Fixed}}"), []string{"-N16"}, 28},
		"Flux chooses":         {with("  tasks: 0"), []string{"-N16"}, 0},
		"a file without tasks": {template, []string{"-N16"}, -1},
		"a file and tasks":     {with("  tasks: 28"), []string{"--ntasks-per-node=3"}, 12},
	} {
		args := append([]string{"--image=x"}, tc.args...)
		if tc.file != "" {
			args = append(args, "-f", "-")
		} else if name != "nothing to run" {
			args = append(args, "--", "lmp")
		}
		mc, err := submitted(tc.file, args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := ptr.Deref(mc.Spec.Tasks, -1); got != tc.want {
			t.Errorf("%s: %d tasks, want %d", name, got, tc.want)
		}
	}
}

// Submit says what the MiniCluster asks for, and what does not go without saying.
func TestCost(t *testing.T) {
	const noTask, noCPU = "will run no task", "asks for no CPUs"
	for want, tc := range map[string]struct {
		args         []string
		idle, shared bool
	}{
		"asks for 1 node with 1 task.": {nil, false, true},
		"asks for 16 nodes (or as few as 8) with 112 tasks, and on each node for cpu 7, memory 16Gi.": {[]string{"-N8-16", "-n112", "--cpu=7", "--memory=16Gi"}, false, false},
		"asks for 4 nodes with 2 tasks, and on each node for nvidia.com/gpu 2.":                       {[]string{"-N4", "-n2", "--gpus=2"}, true, true},
		"asks for 4 nodes with one task on each node.":                                                {[]string{"-N4", "-n0", "--exclusive"}, false, false},
		"asks for 4 nodes, and on each node for cpu 8.":                                               {[]string{"-N4", "--launcher", "--cpu=8"}, false, false},
	} {
		mc, err := submitted("", append(append([]string{"--image=x"}, tc.args...), "--", "lmp")...)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(costOf(mc), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, noTask) != tc.idle || strings.Contains(got, noCPU) != tc.shared {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// Options of Flux may say the tasks. A Flux container without resources has those of the pod.
func TestCostOfFile(t *testing.T) {
	for lines, want := range map[string]string{
		"  flux: {optionFlags: -N4 --tasks-per-node=2}": "The MiniCluster asks for 4 nodes (or as few as 2), and on each node for cpu 1, memory 1Gi.",
		"  flux: {submitCommand: flux submit -n8}":      "The MiniCluster asks for 4 nodes (or as few as 2), and on each node for cpu 1, memory 1Gi.",
		"  pod: {resources: {cpu: 3}}":                  "The MiniCluster asks for 4 nodes (or as few as 2) with 4 tasks, and on each node for cpu 1, memory 1Gi.",
		"  pod: {resources: {cpu: 2}}":                  "The MiniCluster asks for 4 nodes (or as few as 2) with 4 tasks, and on each node for cpu 2.",
	} {
		text := strings.Replace(template, "  queue:", lines+"\n  tasks: 4\n  queue:", 1)
		if strings.Contains(lines, "cpu: 2") {
			text = strings.Replace(text, `, resources: {requests: {cpu: "1"}, limits: {cpu: "1", memory: 1Gi}}`, "", 1)
		}
		mc, err := submitted(text, "-f", "-")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(lines, "flux") {
			mc.Spec.Tasks = new(int32(1)) // that nodes run no task is not known
		}
		if got := strings.Join(costOf(mc), "\n"); got != want {
			t.Errorf("%s: got %s\nwant %s", lines, got, want)
		}
	}
}
