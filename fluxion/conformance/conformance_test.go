// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance runs the test scripts of flux-sched, as they are, against
// our resource-query. None of flux-sched is part of this repository: the tests
// are skipped unless FLUX_SCHED_SRC names a checkout of it.
//
//	FLUX_SCHED_SRC   a checkout of flux-sched
//	RESOURCE_QUERY   the resource-query to run; ours is built if it is not set
//	CONFORMANCE_DIR  a directory to run in and to leave for a look; else a temporary one
//
// The scripts run with a sharness of our own (sharness.sh). Cases that need flux
// or jq are skipped where these are not in the PATH. With
//
//	go test ./conformance -v -run //t3008
//
// one script is run, and what differs is shown.
package conformance

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// floor is how many cases have not failed: they have passed, or were skipped with
// a reason. Fewer is a step back; raise it.
const floor = 646

// scripts are those of flux-sched that run resource-query.
const scripts = "t/t3*.t"

// scriptTimeout is for a script that waits; one that runs astray is ended sooner,
// by a limit in sharness.sh.
const scriptTimeout = 10 * time.Minute

//go:embed sharness.sh
var sharness []byte

// unlike is where ours is not like flux-sched's, and means not to be, by a text in
// the case or its names: such a case is skipped if it fails.
var unlike = []struct{ text, why string }{
	{"-f hwloc", "ours does not read hwloc"},
	{"-T flexible", "ours has no flexible traverser"},
	{"-S PA", "ours matches in the containment only"},
	{"-S C+PA", "ours matches in the containment only"},
	{"t3021-resource-mtl3.t", "ours has no vertex in two places (ASSOCIATE_IN)"},
	{"requesting nonexistent resources results in an error", "ours says what is wrong in words of its own"},
	{"can't grow with a different root in the subgraph", "ours says what is wrong in words of its own"},
	{"ensure proper resource graph reinitialization", "ours reserves earlier: flux-sched's planner misses what was added"},
}

// testCase is a case of a script and what came of it.
type testCase struct {
	script, number, name, body, log string
	// outcome is "pass", "fail" or "skip: " and why.
	outcome string
}

func (c *testCase) String() string {
	return c.script + " " + c.number + " " + c.name
}

// validator is the name of flux-sched's checker of jobspecs, and ours: it is this
// test, called by that name.
const validator = "flux-jobspec-validate"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == validator {
		os.Exit(validate(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// validate reads jobspecs, up to the first that is none.
func validate(files []string) (exitCode int) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			data, err = yaml.YAMLToJSON(data)
		}
		if err == nil {
			_, err = jobspec.Parse(data)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func TestFluxSched(t *testing.T) {
	source := os.Getenv("FLUX_SCHED_SRC")
	if source == "" {
		t.Skip("FLUX_SCHED_SRC names no checkout of flux-sched")
	}
	paths, err := filepath.Glob(filepath.Join(source, scripts))
	if err != nil || len(paths) == 0 {
		t.Fatalf("There are no %s in %s (%v)", scripts, source, err)
	}
	dir := layOut(t)
	results := make([][]testCase, len(paths))
	t.Run("scripts", func(t *testing.T) {
		for i, path := range paths {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".t"), func(t *testing.T) {
				t.Parallel()
				results[i] = runScript(t, dir, source, path)
				logCases(t, results[i])
			})
		}
	})
	failed := report(t, slices.Concat(results...))
	all := !slices.ContainsFunc(results, func(cases []testCase) bool { return cases == nil })
	if notFailed := len(slices.Concat(results...)) - failed; all && isOurs() && notFailed < floor {
		t.Errorf("%d cases do not fail; it has been %d", notFailed, floor)
	}
}

// isOurs reports whether it is our resource-query that is run.
func isOurs() bool { return os.Getenv("RESOURCE_QUERY") == "" }

// layOut makes a directory that looks to the scripts like the one in which
// flux-sched was built.
func layOut(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	dir, err := filepath.Abs(dir)
	check(t, err)
	query := filepath.Join(dir, "resource", "utilities", "resource-query")
	validate := filepath.Join(dir, "resource", "libjobspec", validator)
	for _, made := range []string{filepath.Dir(query), filepath.Dir(validate), filepath.Join(dir, "t")} {
		check(t, os.MkdirAll(made, 0o755))
	}
	check(t, os.WriteFile(filepath.Join(dir, "t", "sharness.sh"), sharness, 0o644))
	if given := os.Getenv("RESOURCE_QUERY"); given != "" {
		link(t, given, query)
		link(t, filepath.Join(filepath.Dir(given), "..", "libjobspec", validator), validate)
	} else {
		self, err := os.Executable()
		check(t, err)
		link(t, self, validate)
		build := exec.Command("go", "build", "-o", query, "../cmd/resource-query")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("Building resource-query: %v\n%s", err, out)
		}
	}
	return dir
}

func link(t *testing.T, from, to string) {
	t.Helper()
	from, err := filepath.Abs(from)
	check(t, err)
	check(t, os.RemoveAll(to))
	check(t, os.Symlink(from, to))
}

// runScript runs a script in a directory of its own.
func runScript(t *testing.T, dir, source, path string) []testCase {
	t.Helper()
	name := filepath.Base(path)
	link(t, path, filepath.Join(dir, "t", name))
	work := filepath.Join(dir, "run", name) // two below dir: the scripts say ../../resource
	outcomes := filepath.Join(dir, "results", name)
	for _, fresh := range []string{work, outcomes} {
		check(t, os.RemoveAll(fresh))
		check(t, os.MkdirAll(fresh, 0o755))
	}

	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", filepath.Join(dir, "t", name))
	shell.Dir = work
	shell.WaitDelay = time.Second
	shell.Env = append(os.Environ(),
		"CONFORMANCE_RESULTS="+outcomes,
		"SHARNESS_TEST_SRCDIR="+filepath.Join(source, "t"),
		"SHARNESS_BUILD_DIRECTORY="+dir,
		// flux ion-R is a command of flux-sched.
		"FLUX_EXEC_PATH_PREPEND="+filepath.Join(source, "src", "cmd"),
		"FLUX_PYTHONPATH_PREPEND="+filepath.Join(source, "src", "python"),
	)
	out, err := shell.CombinedOutput()
	if len(out) > 0 || err != nil {
		t.Logf("%s: %v\n%s", name, err, clip(string(out)))
	}
	return readCases(t, name, outcomes)
}

// readCases reads what sharness.sh has left. A case without an outcome is one in
// which the script ended.
func readCases(t *testing.T, script, outcomes string) []testCase {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(outcomes, "*.name"))
	check(t, err)
	var cases []testCase
	for _, path := range names {
		number := strings.TrimSuffix(path, ".name")
		read := func(ext string) string {
			content, _ := os.ReadFile(number + ext) // none is ""
			return strings.TrimSpace(string(content))
		}
		c := testCase{
			script: script, number: filepath.Base(number),
			name: read(".name"), body: read(".body"), log: read(".log"), outcome: cmp.Or(read(".outcome"), "fail"),
		}
		for _, u := range unlike {
			if c.outcome == "fail" && isOurs() && strings.Contains(c.String()+c.body, u.text) {
				c.outcome = "skip: " + u.why
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// logCases says what has failed in a script, and how.
func logCases(t *testing.T, cases []testCase) {
	t.Helper()
	for _, c := range cases {
		if c.outcome != "pass" {
			t.Logf("%s: %s\n%s\n%s", &c, c.outcome, c.body, clip(c.log))
		}
	}
}

// report counts, lists what did not pass, and returns how many have failed.
func report(t *testing.T, cases []testCase) (failed int) {
	t.Helper()
	var lines []string
	for _, c := range cases {
		if c.outcome == "fail" {
			failed++
		}
		if c.outcome != "pass" {
			lines = append(lines, fmt.Sprintf("%-5s %s", c.outcome, &c))
		}
	}
	slices.Sort(lines)
	t.Logf("passed %d of %d\n%s", len(cases)-len(lines), len(cases), strings.Join(lines, "\n"))
	return failed
}

// clip shortens a text to what one reads: its first lines, and of each its start.
func clip(text string) string {
	const maxLines, maxWidth = 40, 200
	var out bytes.Buffer
	for i, line := range strings.Split(text, "\n") {
		if i == maxLines {
			out.WriteString("...\n")
			break
		}
		if len(line) > maxWidth {
			line = line[:maxWidth] + "..."
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
