// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// checkoutFiles are those of a small checkout, in which a suite runs a program that uses a library.
var checkoutFiles = map[string]string{
	"go.mod":               "module example.test/small\n\ngo 1.26\n",
	"Makefile":             phony + "suite:\n\tgo test ./suite\nother:\n\ttrue\n",
	"suite/suite_test.go":  "package suite\n\nimport _ \"example.test/small/helper\"\n",
	"helper/helper.go":     "package helper\n\nimport _ \"embed\"\n\n//go:embed text\nvar Text string\n",
	"helper/text":          "hello\n",
	"helper/own_test.go":   "package helper\n",
	"program/main.go":      "package main\n\nimport (\n\t_ \"example.test/small/library\"\n\t_ \"example.test/small/unused/deep\"\n)\n\nfunc main() {}\n",
	"library/library.go":   "package library\n",
	"library/real.go":      "//go:build real\n\npackage library\n",
	"unused/deep/deep.go":  "package deep\n",
	"manifests/a.yaml":     "a: 1\n",
	"manifests/more/b.txt": "b\n",
	"elsewhere/page.md":    "# Page\n",
	"elsewhere/else.go":    "package elsewhere\n",
}

const phony = ".PHONY: suite other\n"

var smallSuite = suite{
	target: "suite", packages: []string{"./suite"}, programs: []string{"./program"}, idle: []string{"unused"},
	files: []string{"manifests"}, variables: []string{"SUITES_TEST"}, commands: [][]string{{"cat", "version"}},
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// put writes a file of a checkout.
func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newCheckout(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range checkoutFiles {
		put(t, root, name, text)
	}
	if out, err := exec.Command("git", "-C", root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return root
}

func inputsIn(t *testing.T, root string, s *suite) inputs {
	t.Helper()
	in, err := inputsOf(t.Context(), root, s)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestWhatASuiteDependsOn(t *testing.T) {
	before := inputsIn(t, newCheckout(t), &smallSuite)
	for name, c := range map[string]struct {
		change func(t *testing.T, root string)
		want   []string // names of what differs
	}{
		"nothing":                       {func(*testing.T, string) {}, nil},
		"a test":                        {appended("suite/suite_test.go"), []string{"suite"}},
		"what a test imports":           {appended("helper/helper.go"), []string{"helper"}},
		"an embedded file":              {appended("helper/text"), []string{"helper"}},
		"a test of an import":           {appended("helper/own_test.go"), nil},
		"a program":                     {appended("program/main.go"), []string{"program"}},
		"what a program imports":        {appended("library/library.go"), []string{"library"}},
		"a file that is not built":      {appended("library/real.go"), nil},
		"a new file of a package":       {written("library/new.go", "package library\n"), []string{"library"}},
		"a file that is gone":           {removed("manifests/a.yaml"), []string{"manifests"}},
		"a package that does nothing":   {appended("unused/deep/deep.go"), nil},
		"a manifest":                    {appended("manifests/more/b.txt"), []string{"manifests"}},
		"a new manifest":                {written("manifests/c.yaml", "c\n"), []string{"manifests"}},
		"the commands of the target":    {written("Makefile", phony+"suite:\n\tgo test -v ./suite\n"), []string{"make suite"}},
		"the commands of others":        {written("Makefile", phony+"suite:\n\tgo test ./suite\nother:\n\tfalse\n"), nil},
		"a page, and a package of none": {both(appended("elsewhere/page.md"), appended("elsewhere/else.go")), nil},
		"a program of the machine":      {written("version", "2\n"), []string{"`cat version`"}},
		"a variable":                    {set("SUITES_TEST", "1"), []string{"$SUITES_TEST"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := newCheckout(t)
			c.change(t, root)
			if got := before.differs(inputsIn(t, root, &smallSuite)); !slices.Equal(got, c.want) {
				t.Errorf("%v differ, want %v", got, c.want)
			}
		})
	}
}

func appended(name string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		put(t, root, name, checkoutFiles[name]+"\n// changed\n")
	}
}

func written(name, text string) func(*testing.T, string) {
	return func(t *testing.T, root string) { t.Helper(); put(t, root, name, text) }
}

func both(first, second func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, root string) { t.Helper(); first(t, root); second(t, root) }
}

func removed(name string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func set(name, value string) func(*testing.T, string) {
	return func(t *testing.T, _ string) { t.Helper(); t.Setenv(name, value) }
}

// A pattern without files is a mistake in the table: it would never change.
func TestPatternWithoutFiles(t *testing.T) {
	s := smallSuite
	s.files = []string{"nowhere"}
	if _, err := inputsOf(t.Context(), newCheckout(t), &s); err == nil || !strings.Contains(err.Error(), `"nowhere" matches no file`) {
		t.Errorf("the error is %v", err)
	}
}

// A suite is left out while a record has what the suite depends on, also if a later record has something else.
func TestVerdicts(t *testing.T) {
	r := records{t.TempDir()}
	verdict := func(now inputs, due bool, parts ...string) {
		t.Helper()
		got, why, err := r.verdict("suite", now)
		if err != nil {
			t.Fatal(err)
		}
		if got != due {
			t.Errorf("due is %v: %s", got, why)
		}
		for _, part := range parts {
			if !strings.Contains(why, part) {
				t.Errorf("it says %q, and not %q", why, part)
			}
		}
	}
	pass := func(days int, in inputs) {
		t.Helper()
		if err := r.add(&record{Suite: "suite", At: noon.AddDate(0, 0, days), Revision: "abc", Inputs: in}); err != nil {
			t.Fatal(err)
		}
	}
	one, two := inputs{"a": "1", "b": "1"}, inputs{"a": "2", "b": "1", "c": "1"}
	verdict(one, true, "never passed on this machine")
	pass(0, one)
	verdict(one, false, "passed on 2026-11-26 12:00 at abc", filepath.Join(r.dir, "suite", one.key()+".json"))
	verdict(two, true, "a, c differ from when it passed on 2026-11-26")
	pass(1, two)
	verdict(two, false, "2026-11-27")
	verdict(one, false, "2026-11-26")
	verdict(inputs{}, true, "a, b, c differ", "2026-11-27")
	verdict(inputs{"p": "", "q": "", "r": ""}, true, "a, b, c, p and 2 more differ")
	for i := range kept {
		pass(2+i, inputs{"a": strings.Repeat("x", i)})
	}
	if all, err := r.of("suite"); err != nil || len(all) != kept {
		t.Errorf("%d records are kept, %v", len(all), err)
	}
	verdict(two, true)
}

// A suite that began and passed is left out. If what it depends on changed meanwhile, it is not.
func TestBeginAndPassed(t *testing.T) {
	defer func(all []suite) { suites = all }(suites)
	suites = []suite{smallSuite}
	root := newCheckout(t)
	var out, log bytes.Buffer
	p := &program{root: root, records: records{t.TempDir()}, clock: clocktesting.NewFakePassiveClock(noon), out: &out, log: &log}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	due := func(want, why string) {
		t.Helper()
		out.Reset()
		log.Reset()
		step(p.due(t.Context()))
		if got := strings.TrimSpace(out.String()); got != want || !strings.Contains(log.String(), why) {
			t.Errorf("%q is due, want %q; it says %s", got, want, log.String())
		}
	}
	due("suite", "suite runs: it never passed")
	step(p.begin(t.Context(), "suite"))
	due("suite", "suite runs: it never passed")
	put(t, root, "library/library.go", "package library // changed\n")
	step(p.passed(t.Context(), "suite"))
	due("suite", "suite runs: it never passed")
	step(p.begin(t.Context(), "suite"))
	step(p.passed(t.Context(), "suite"))
	due("", "suite is left out: it passed on")
	put(t, root, "library/library.go", "package library // changed again\n")
	due("suite", "suite runs: library differ from when it passed on")
	put(t, root, "library/library.go", "a mistake")
	due("suite", "suite runs: go list")
	if err := p.begin(t.Context(), "none"); err == nil {
		t.Error("there is no suite none")
	}
}

// What the suites of this checkout depend on: everything of the table is there, and the manager's parts count only where
// they have something to do.
func TestSuitesOfTheCheckout(t *testing.T) {
	root, err := localcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	lifeOf, kueue, scaleup := "pkg/elastic/life", "controllers/kueue", "controllers/scaleup"
	for target, c := range map[string]struct{ with, without []string }{
		"e2e-real":        {[]string{lifeOf, "test/e2e-real", "test/lives", "test/fakeflux", "internal/broker", "config", "$FLUX_ROOT", "controllers/minicluster"}, []string{kueue, scaleup, "test/e2e"}},
		"e2e-kueue":       {[]string{lifeOf, kueue, "internal/kueue", "test/harness", "sigs.k8s.io/kueue"}, []string{scaleup, "internal/dashboard"}},
		"e2e-autoscale":   {[]string{lifeOf, scaleup, "internal/scaleup", "test/harness"}, []string{kueue}},
		"e2e-kueue-facts": {[]string{"hack/controlplane/kueue", "docs"}, []string{lifeOf, kueue, "controllers/minicluster"}},
		"e2e-tools":       {[]string{"cmd/localcluster", "dev/clog", "dev/bench", "dev/simulator", "examples", "controllers/scheduler"}, []string{"controllers/minicluster"}},
		"e2e-upgrade":     {[]string{lifeOf, "test/e2e", "controllers/minicluster"}, []string{kueue, scaleup}},
		"e2e-older":       {[]string{"hack/controlplane/v1.36", "go.mod"}, []string{lifeOf, "test/e2e"}},
		"test-fluxion":    {[]string{"fluxion", "pkg/fluxion", "github.com/ebitengine/purego"}, []string{lifeOf, "controllers/minicluster"}},
		"test-browser":    {[]string{"hack/browser", "internal/dashboard", "dev/stage/serve", "github.com/chromedp/chromedp"}, []string{kueue}},
	} {
		t.Run(target, func(t *testing.T) {
			s, err := find(target)
			if err != nil {
				t.Fatal(err)
			}
			in := inputsIn(t, root, s)
			for _, name := range c.with {
				if _, ok := in[name]; !ok {
					t.Errorf("it does not depend on %s", name)
				}
			}
			for _, name := range c.without {
				if _, ok := in[name]; ok {
					t.Errorf("it depends on %s", name)
				}
			}
			for _, dir := range s.idle {
				if info, err := os.Stat(filepath.Join(root, dir)); err != nil || !info.IsDir() {
					t.Errorf("%s is no directory: %v", dir, err)
				}
			}
		})
	}
	for i := range suites {
		if _, err := output(t.Context(), root, "make", "--dry-run", suites[i].target); err != nil {
			t.Error(err)
		}
	}
}
