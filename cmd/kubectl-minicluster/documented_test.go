// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/test/docs"
)

// Every verb and flag of the plugin in a code span or a console block of a page exists, with a value of its type.
func TestDocumentedCommands(t *testing.T) {
	checked, problems := documented(t, os.DirFS("../.."))
	for _, problem := range problems {
		t.Error(problem)
	}
	if checked < 50 {
		t.Errorf("only %d commands are found", checked)
	}
}

func TestDocumentedProblemsAreFound(t *testing.T) {
	page := "Type `kubectl minicluster lsit` or\n`kubectl minicluster list -A`.\n```console\n$ kubectl minicluster submit -N 4 \\\n    --until=2m -- lmp --any\n" +
		"$ kubectl minicluster resize a 4 | tail -n3   # --comment\n$ kubectl minicluster wait a --timeout=soon\n```\n"
	checked, problems := documented(t, fstest.MapFS{"a.md": {Data: []byte(page)}})
	want := []string{
		`a.md:1: kubectl minicluster lsit: unknown verb`,
		`a.md:4: kubectl minicluster submit -N 4 --until=2m -- lmp --any: unknown flag: --until`,
		`a.md:7: kubectl minicluster wait a --timeout=soon: invalid argument "soon" for "--timeout" flag: time: invalid duration "soon"`,
	}
	if diff := cmp.Diff(want, problems); diff != "" || checked != 5 {
		t.Errorf("%d commands: %s", checked, diff)
	}
}

// usage is a command in a page; what a shell would do with its output or a comment is left out.
var usage = regexp.MustCompile(`(?:kubectl minicluster|bin/kubectl-minicluster)((?: [^|>#\n]+)?)`)

// typed is a line that begins with a command of the plugin.
var typed = regexp.MustCompile(`^(\$ )?(kubectl minicluster|bin/kubectl-minicluster) `)

// documented parses all commands of the plugin in pages.
func documented(t *testing.T, root fs.FS) (checked int, problems []string) {
	t.Helper()
	pages, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	check := func(page string, line int, text string) {
		for _, match := range usage.FindAllStringSubmatch(text, -1) {
			checked++
			if problem := refused(strings.Fields(match[1])); problem != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", page, line, strings.Join(strings.Fields(match[0]), " "), problem))
			}
		}
	}
	for _, page := range pages {
		for line, spans := range page.Code() {
			for _, span := range spans {
				check(page.Path, line, span)
			}
		}
		for _, block := range page.Blocks {
			lines := strings.SplitAfter(block.Text, "\n")
			for i, line := range lines {
				if block.Language == "console" && typed.MatchString(line) {
					check(page.Path, block.Line+i, strings.ReplaceAll(whole(lines[i:]), "\\\n", " "))
				}
			}
		}
	}
	return checked, problems
}

// whole is the first line with the lines that continue it.
func whole(lines []string) string {
	text := ""
	for _, line := range lines {
		text += line
		if !strings.HasSuffix(line, "\\\n") {
			break
		}
	}
	return text
}

// refused says why the program would not understand its arguments; "" if it would.
func refused(args []string) string {
	var out bytes.Buffer
	root := newRoot(access.New(strings.NewReader(""), &out, &out))
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if cmd == root && len(rest) > 0 {
		return "unknown verb"
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	return ""
}
