// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var checkout = os.DirFS("../..")

// Every link to a file of the repository, and to a heading of one, leads somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, problem := range brokenLinks(t, checkout) {
		t.Error(problem)
	}
}

// The index lists every page of docs.
func TestIndex(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"docs/README.md": true}
	pages := read(t, checkout)
	for _, page := range pages {
		if page.Path == "docs/README.md" {
			for _, link := range page.Links() {
				listed[path.Join("docs", link.Target)] = true
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page.Path, "docs/") && !listed[page.Path] && !listed[path.Dir(page.Path)] {
			t.Errorf("docs/README.md does not list %s", page.Path)
		}
	}
}

// Every file, make target and test that a page names exists.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, problem := range brokenNames(t, checkout) {
		t.Error(problem)
	}
}

func TestProblemsAreFound(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"Makefile":           {Data: []byte("VAR ?= 1\ntest: build ## Test\n")},
		"pkg/a/a.go":         {Data: []byte("package a\n")},
		"pkg/a/a_test.go":    {Data: []byte("package a\n\nfunc TestThis(t *testing.T) {}\n")},
		"docs/b.md":          {Data: []byte("# Same\n# Same\n## The `x/y` of [z](b.md), it's\n<a id=\"own\"></a>\n```\n# no heading\n```\n")},
		".hidden/c.md":       {Data: []byte("[c](nowhere.md)\n")},
		"docs/deep/links.md": {Data: []byte(links)},
		"docs/names.md":      {Data: []byte(names)},
	}
	wantLinks := []string{
		"docs/deep/links.md:8: there is no heading #same-2 in docs/b.md",
		"docs/deep/links.md:9: there is no heading #no-heading in docs/b.md",
		"docs/deep/links.md:10: there is no docs/deep/c.md",
		"docs/deep/links.md:11: there is no c.png",
		"docs/deep/links.md:12: there is no heading #here in docs/deep/links.md",
		"docs/deep/links.md:13: ../../../d.md is outside of the repository",
		"docs/deep/links.md:14: #L3 is no heading of a page",
		"docs/deep/links.md:15: there is no docs/deep/e.md",
	}
	if diff := cmp.Diff(wantLinks, brokenLinks(t, root)); diff != "" {
		t.Error(diff)
	}
	wantNames := []string{
		"docs/names.md:4: there is no pkg/b",
		"docs/names.md:5: there is no b.go",
		"docs/names.md:6: there is no make target tset",
		"docs/names.md:7: there is no test TestThat",
		"docs/names.md:9: there is no make target demo",
	}
	if diff := cmp.Diff(wantNames, brokenNames(t, root)); diff != "" {
		t.Error(diff)
	}
}

const links = "[a](../b.md#same-1) [b](/docs/b.md#the-xy-of-z-its) `[code](no.md)` [web](https://example.com/x.md)\n" +
	"[own](../b.md#own)\n![dir](../../pkg) [esc](../%62.md)\n\n```\n[block](no.md)\n```\n" +
	"[c](../b.md#same-2)\n[c](../b.md#no-heading)\n[c](c.md)\n<img src=\"/c.png\">\n[c](#here)\n[d](../../../d.md)\n" +
	"[l](../../pkg/a/a.go#L3)\n[e]: e.md\n"

const names = "`pkg/a`, `a.go`, `a/a.go`, `pkg/a/...`, `docs/{b,names}.md`, `make test VAR=2`, `TestThis/Part`\n" +
	"`make`, `internal`, `example.com/b.go`\n\n`pkg/b`\n`b.go`\n`make tset`\n`TestThat`\n```console\n$ make demo\nmake test # tests\n```\n"

func read(t *testing.T, root fs.FS) []*Page {
	t.Helper()
	pages, err := Pages(root)
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	return pages
}

var elsewhere = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:|//)`)

func brokenLinks(t *testing.T, root fs.FS) (problems []string) {
	t.Helper()
	pages := read(t, root)
	anchors := map[string]map[string]bool{}
	for _, page := range pages {
		anchors[page.Path] = page.Anchors()
	}
	for _, page := range pages {
		for _, link := range page.Links() {
			if elsewhere.MatchString(link.Target) {
				continue
			}
			if problem := broken(root, anchors, page.Path, link.Target); problem != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", page.Path, link.Line, problem))
			}
		}
	}
	return problems
}

// broken says what is wrong with a link of a page; "" if nothing is.
func broken(root fs.FS, anchors map[string]map[string]bool, from, link string) string {
	target, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	file := from
	switch {
	case strings.HasPrefix(target.Path, "/"):
		file = path.Clean(target.Path[1:])
	case target.Path != "":
		file = path.Join(path.Dir(from), target.Path)
	}
	if !fs.ValidPath(file) {
		return link + " is outside of the repository"
	}
	if _, err := fs.Stat(root, file); err != nil {
		return "there is no " + file
	}
	headings, isPage := anchors[file]
	switch {
	case target.Fragment == "":
		return ""
	case !isPage:
		return "#" + target.Fragment + " is no heading of a page"
	case !headings[target.Fragment]:
		return "there is no heading #" + target.Fragment + " in " + file
	}
	return ""
}

// inventory is what pages can name.
type inventory struct {
	files, targets, tests []string
	top                   []string // directories of the root
}

var (
	target   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	makes    = regexp.MustCompile(`(?m)^(?:\$ )?make ([a-z][a-z0-9-]*)`)
	aTest    = regexp.MustCompile(`^(Test[A-Z]\w*)(?:/\w+)*$`)
	aPath    = regexp.MustCompile(`^([A-Za-z0-9_-]+)(/[A-Za-z0-9_{},*.-]+)*$`)
	goFile   = regexp.MustCompile(`^([a-z0-9_]+/)*[a-z0-9_]+\.go$`)
)

func take(t *testing.T, root fs.FS) (inv inventory) {
	t.Helper()
	err := walk(root, func(name string) error {
		inv.files = append(inv.files, name)
		var pattern *regexp.Regexp
		var into *[]string
		switch {
		case name == "Makefile":
			pattern, into = target, &inv.targets
		case strings.HasSuffix(name, "_test.go"):
			pattern, into = testFunc, &inv.tests
		default:
			return nil
		}
		text, err := fs.ReadFile(root, name)
		for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
			*into = append(*into, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "bin" {
			inv.top = append(inv.top, entry.Name())
		}
	}
	return inv
}

func brokenNames(t *testing.T, root fs.FS) (problems []string) {
	t.Helper()
	inv := take(t, root)
	for _, page := range read(t, root) {
		code := page.Code()
		for _, block := range page.Blocks {
			for i, line := range strings.Split(block.Text, "\n") {
				if block.Language == "console" && makes.MatchString(line) {
					code[block.Line+i] = append(code[block.Line+i], strings.TrimPrefix(line, "$ "))
				}
			}
		}
		for line := range len(page.Prose) {
			for _, span := range code[line+1] {
				if missing := inv.missing(span); missing != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no %s", page.Path, line+1, missing))
				}
			}
		}
	}
	return problems
}

// missing is what a code span names and does not exist; "" if there is no such thing.
func (inv inventory) missing(span string) string {
	if match := makes.FindStringSubmatch(span); len(match) > 1 && !slices.Contains(inv.targets, match[1]) {
		return "make target " + match[1]
	}
	if match := aTest.FindStringSubmatch(span); len(match) > 1 && !slices.Contains(inv.tests, match[1]) {
		return "test " + match[1]
	}
	match := aPath.FindStringSubmatch(span)
	switch {
	case goFile.MatchString(span):
		if !slices.ContainsFunc(inv.files, func(file string) bool { return file == span || strings.HasSuffix(file, "/"+span) }) {
			return span
		}
	case len(match) > 2 && match[2] != "" && slices.Contains(inv.top, match[1]):
		for _, name := range alternatives(strings.TrimSuffix(strings.TrimSuffix(span, "/..."), "/")) {
			if !slices.ContainsFunc(inv.files, func(file string) bool { return covers(name, file) }) {
				return span
			}
		}
	}
	return ""
}

// alternatives are the names for which `a{b,c}` stands.
func alternatives(name string) []string {
	before, rest, found := strings.Cut(name, "{")
	middle, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{name}
	}
	var names []string
	for _, part := range strings.Split(middle, ",") {
		names = append(names, before+part+after)
	}
	return names
}

// covers reports whether a pattern is that of a file or of a directory above it.
func covers(pattern, file string) bool {
	for ; file != "."; file = path.Dir(file) {
		if match, err := path.Match(pattern, file); err == nil && match {
			return true
		}
	}
	return false
}

func TestObjects(t *testing.T) {
	t.Parallel()
	object := "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
	root := fstest.MapFS{
		"README.md":       {Data: []byte("- item\n\n  ```yaml\n  apiVersion: v1\n  kind: Namespace\n  spec: {}\n  ```\n\n```yaml\nspec: {}\n---\n" + object + "---\napiVersion: c/v1\nkind: Config\n```\n")},
		"examples/a.yaml": {Data: []byte("# first\n" + object + "---\n" + object)},
		"config/b.yaml":   {Data: []byte(object)},
	}
	objects, err := Objects(root)
	if err != nil {
		t.Fatal(err)
	}
	var where []string
	for _, o := range objects {
		where = append(where, o.Where+" "+o.GetKind())
	}
	if diff := cmp.Diff([]string{"README.md:4 Namespace", "README.md:10 Namespace", "examples/a.yaml Namespace", "examples/a.yaml Namespace"}, where); diff != "" {
		t.Error(diff)
	}
	root["README.md"].Data = []byte("```yaml\na: 1\na: 2\n```\n")
	if _, err := Objects(root); err == nil || !strings.Contains(err.Error(), "README.md:2") {
		t.Errorf("a key that is there twice: %v", err)
	}
}
