// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files are the files that the scripts of the tests use, by name.
var files = map[string]string{
	// A cluster of two nodes of two cores.
	"R": `{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}], "nodelist": ["n[0-1]"]}}`,
	"node.yaml": `
version: 9999
resources:
  - {type: slot, count: 1, label: default, with: [{type: node, count: 1, with: [{type: core, count: 2}]}]}
attributes: {system: {duration: 60}}
tasks: [{command: [app], slot: default, count: {per_slot: 1}}]
`,
	"nodes.json": `{"version": 9999,
  "resources": [{"type": "slot", "count": 3, "label": "default", "with": [{"type": "node", "count": 1}]}],
  "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}], "attributes": {}}`,
	"none.yaml": "a: [",
	"moon.json": `{"version": 9999, "resources": [{"type": "slot", "count": 1, "label": "default", "with": [{"type": "moon", "count": 1}]}],
  "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}], "attributes": {}}`,
	"part": `{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-1"}}], "nodelist": ["n0"]}}`,
}

const line = "INFO: =============================\n"

// told returns the messages about a match.
func told(id, what string) string {
	return line + "INFO: JOBID=" + id + "\nINFO: RESOURCES=" + what + "\n" + line
}

func node(n string) string {
	return "      ---------core0[1:x]\n      ---------core1[1:x]\n      ------" + n + "[1:x]\n      ---cluster0[1:s]\n"
}

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		args               []string
		script             string
		out, stdout, wrong string
	}{
		"jobs get nodes, until there is none": {
			script: "match allocate node.yaml\nm allocate node.yaml\nmatch allocate node.yaml",
			out: node("n0") + told("1", "ALLOCATED\nINFO: SCHEDULED AT=Now") + node("n1") + told("2", "ALLOCATED\nINFO: SCHEDULED AT=Now") +
				line + "INFO: No matching resources found\nINFO: JOBID=3\n" + line,
		},
		"multi-match ends with what gets nothing": {
			script: "multi-match allocate nodes.json node.yaml",
			out:    line + "INFO: No matching resources found\nINFO: JOBID=1\n" + line,
		},
		"a job that must wait is reserved, and quit ends": {
			script: "multi-match allocate_orelse_reserve node.yaml node.yaml node.yaml\ninfo 3\nquit\ninfo 4",
			out: node("n0") + told("1", "ALLOCATED\nINFO: SCHEDULED AT=Now") + node("n1") + told("2", "ALLOCATED\nINFO: SCHEDULED AT=Now") +
				node("n0") + told("3", "RESERVED\nINFO: SCHEDULED AT=60"),
			stdout: "INFO: 3, RESERVED, 60, node.yaml, ",
		},
		"what can never be is unsatisfiable": {
			script: "match allocate_with_satisfiability nodes.json\nmatch satisfiability nodes.json\nmatch satisfiability node.yaml",
			out: line + "INFO: No matching resources found\nINFO: Unsatisfiable request\nINFO: JOBID=1\n" + line +
				line + "INFO: Unsatisfiable request\n" + line + line + "INFO: Satisfiable request\n" + line,
		},
		"a match that gives nothing takes no id": {
			script: "match without_allocating node.yaml\nmatch without_allocating_future node.yaml",
			out:    node("n0") + told("1", "MATCHED\nINFO: SCHEDULED AT=Now") + node("n0") + told("1", "MATCHED\nINFO: SCHEDULED AT=Now"),
		},
		"a jobspec that is none, or not there": {
			script: "match allocate none.yaml\nmatch allocate_with_satisfiability moon.json\nmatch allocate nowhere\nmatch grab node.yaml",
			out:    strings.Repeat(line+"INFO: No matching resources found\nINFO: JOBID=1\n"+line, 2),
			wrong:  "match_allocate: ERROR: Jobspec error for 1: |ERROR: can't open nowhere\nERROR: unknown subcmd grab\n",
		},
		"a cancelled job is told of, and leaves room": {
			script: "match allocate node.yaml\ncancel 1\nlist\ncancel 1\ncancel one\nmatch allocate node.yaml",
			out:    node("n0") + told("1", "ALLOCATED\nINFO: SCHEDULED AT=Now") + node("n0") + told("2", "ALLOCATED\nINFO: SCHEDULED AT=Now"),
			stdout: "INFO: 1, CANCELED, 0, node.yaml, ",
			wrong:  "cancel: ERROR: nonexistent job 1\nERROR: \"one\" is no job id\n",
		},
		"partial-cancel gives back a rank": {
			script: "multi-match allocate node.yaml node.yaml\npartial-cancel 1 rv1exec part\npartial-cancel 1 rv1exec part\npartial-cancel 2 xml part\ninfo 1",
			out:    node("n0") + told("1", "ALLOCATED\nINFO: SCHEDULED AT=Now") + node("n1") + told("2", "ALLOCATED\nINFO: SCHEDULED AT=Now"),
			stdout: "INFO: 1, CANCELED, 0, node.yaml, ",
			wrong:  "ERROR: nonexistent job 1\nERROR: unsupported reader xml\n",
		},
		"an update gives a job what a file says, and ids go on from it": {
			script: "update allocate rv1exec part 7 0 60\nmatch allocate node.yaml\nupdate allocate rv1exec part 8 0 60\nupdate allocate rv1exec part 9 0 soon",
			out:    node("n0") + told("7", "ALLOCATED\nINFO: SCHEDULED AT=Now") + node("n1") + told("8", "ALLOCATED\nINFO: SCHEDULED AT=Now"),
			wrong:  "ERROR: existing job 8\nERROR: invalid time (0, soon)\n",
		},
		"status": {
			script: "get-status /cluster0/n0\nset-status /cluster0/n0 down\nget-status /cluster0/n0\nset-status /cluster0/n0 away\nset-status /x up\nget-status /x\nmatch allocate node.yaml",
			out: "/cluster0/n0 is up\n/cluster0/n0 is down\nCould not find path /x in resource graph.\nCould not find path /x in resource graph.\n" +
				node("n1") + told("1", "ALLOCATED\nINFO: SCHEDULED AT=Now"),
			wrong: "ERROR: unrecognized status\n",
		},
		"properties, in order": {
			script: "set-property /cluster0/n0 b=2\nset-property /cluster0/n0 a=1=1\nget-property /cluster0/n0\nget-property /x\nset-property /x a=1\nset-property /cluster0/n0 a",
			out: "a=1=1\nb=2\nCould not find path /x in resource graph.\nCouldn't find path /x in resource graph.\n" +
				"Incorrect input format. \nPlease use `set-property <resource> PROPERTY=VALUE`.\n",
		},
		"find": {
			args:   []string{"-F", "rlite"},
			script: "set-status /cluster0/n1/core0 down\nfind status=down or  status=down\nfind colour=red",
			out:    `[{"rank": "1", "children": {"core": "0"}}]` + "\n" + line + "INFO: EXPRESSION=\"status=down or status=down\"\n" + line,
			wrong:  "ERROR: invalid criteria: |",
		},
		"what is removed is not found": {
			script: "remove /cluster0/n0 true\nget-status /cluster0/n0\nremove [1] false\nget-status /cluster0/n1\nremove /x true\nremove x maybe",
			out:    "Could not find path /cluster0/n0 in resource graph.\nCould not find path /cluster0/n1 in resource graph.\n",
			wrong:  "ERROR: can't remove subgraph: |ERROR: is x a path, true or false?\n",
		},
		"what is no JGF is not attached": {
			script: "attach part\nattach nowhere",
			wrong:  "ERROR: can't attach JGF subgraph: |ERROR: can't open nowhere\n",
		},
		"commands that are none, and comments": {
			script: "# nothing\n\nfly\ncancel\ninfo 1 2\nhelp fly",
			wrong:  "ERROR: unknown command: fly; try help\nERROR: malformed command\nERROR: malformed command\nERROR: unknown command: fly\n",
		},
		"help, and a file": {
			script: "help q\ncat part",
			stdout: "quit (q) \n    quit\n" + files["part"] + "INFO: Jobspec in part\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFiles(t)
			stdout, stderr := &strings.Builder{}, &strings.Builder{}
			code := run(append([]string{"-L", "R", "-f", "rv1exec", "-P", "low", "-t", "out"}, tc.args...), strings.NewReader(tc.script), stdout, stderr)
			if code != 0 {
				t.Fatalf("Exit code %d: %s", code, stderr)
			}
			out, err := os.ReadFile("out")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.out, string(out)); diff != "" {
				t.Errorf("Output (-want, +got):\n%s", diff)
			}
			if got := stdout.String(); !strings.HasPrefix(got, tc.stdout) || tc.stdout == "" && got != "" {
				t.Errorf("Standard output is %q, want %q", got, tc.stdout)
			}
			for _, wrong := range strings.Split(tc.wrong, "|") {
				if !strings.Contains(stderr.String(), wrong) || tc.wrong == "" && stderr.Len() > 0 {
					t.Errorf("Errors are %q, want %q", stderr, wrong)
				}
			}
		})
	}
}

// inFiles runs the test in a new directory that has the files.
func inFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestElapsed(t *testing.T) {
	inFiles(t)
	stdout := &strings.Builder{}
	if code := run([]string{"-e", "-f=rv1exec", "--load-file=R"}, strings.NewReader("match allocate node.yaml\ncancel 1 stats\nstat"), stdout, stdout); code != 0 {
		t.Fatal(stdout)
	}
	for _, want := range []string{
		"INFO: Graph Load Time: ", "INFO: ELAPSE=0.0", "INFO: PREORDER VISIT COUNT=", "INFO: POSTORDER VISIT COUNT=",
		`INFO: CANCEL PREORDER COUNT="`, `INFO: CANCEL POSTORDER COUNT="`, "INFO: Num. of Jobs Matched: 1\nINFO: Min. Match Time: ",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("Output lacks %q:\n%s", want, stdout)
		}
	}
}

func TestOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no graph":               {nil, "-L"},
		"a graph that is gone":   {[]string{"-L", "nowhere"}, "nowhere"},
		"a graph that is none":   {[]string{"-L", "part", "-f", "jgf"}, "part"},
		"a format of graphs":     {[]string{"-L", "R", "-f", "hwloc"}, "grug, jgf"},
		"a format of matches":    {[]string{"-L", "R", "-F", "xml"}, "simple, pretty_simple"},
		"a policy":               {[]string{"-L", "R", "-f", "rv1exec", "-P", "best"}, "best"},
		"another subsystem":      {[]string{"-L", "R", "-S", "PA"}, "CA"},
		"another traverser":      {[]string{"-L", "R", "-T", "flexible"}, "simple"},
		"an argument":            {[]string{"-L", "R", "more"}, `"more"`},
		"an option":              {[]string{"-x"}, "-x"},
		"an output out of reach": {[]string{"-L", "R", "-f", "rv1exec", "-t", filepath.Join("nowhere", "out")}, "nowhere"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFiles(t)
			stdout, stderr := &strings.Builder{}, &strings.Builder{}
			code := run(tc.args, strings.NewReader("quit\n"), stdout, stderr)
			if code != 1 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "resource-query: ") || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("Exit code %d, errors %q, want one with %s", code, stderr, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	stdout, stderr := &strings.Builder{}, &strings.Builder{}
	if code := run([]string{"--help"}, strings.NewReader(""), stdout, stderr); code != 0 || !strings.Contains(stdout.String(), "--match-policy") || stderr.Len() > 0 {
		t.Errorf("Exit code %d, help:\n%s%s", code, stdout, stderr)
	}
}
