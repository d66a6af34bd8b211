// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// bounds hold for every page without an entry in raised: pronouns for each 100 words, words in a sentence, lines. Most pages
// were below these bounds when the bounds were set. So such a page may get worse up to the bounds, and no further.
var bounds = Reading{Pronouns: 4, Sentence: 16, Lines: 300}

// slack is how far a page may be below a raised bound. A page that was mended needs its bound lowered, or its entry
// removed.
const slack = 0.5

// raised are the pages with a bound of their own, a little above what the page had, and why. A zero keeps the bound of all
// pages. Better rewrite the page than raise its bound.
var raised = map[string]struct {
	Reading

	why string
}{
	"dev/bench/README.md":   {Reading{Lines: 600}, "settings and numbers of every run, for developers"},
	"docs/reference/api.md": {Reading{Lines: 1300}, "generated: every field of the API"},
}

func TestWords(t *testing.T) {
	pages := read(t, checkout)
	for path, own := range raised {
		if own.why == "" || !slices.ContainsFunc(pages, func(p *Page) bool { return p.Path == path }) {
			t.Errorf("%s has a bound of its own without a reason, or is no page", path)
		}
	}
	for _, page := range pages {
		own := raised[page.Path]
		for _, problem := range hard(page.Read(), own.Reading) {
			t.Errorf("%s: %s", page.Path, problem)
		}
	}
}

// hard says in what a page is beyond its bounds, or far below a bound of its own.
func hard(r, own Reading) (problems []string) {
	check := func(what string, value, all, own float64) {
		bound := max(all, own)
		switch {
		case value > bound:
			problems = append(problems, fmt.Sprintf("%.1f %s, and %.1f are allowed", value, what, bound))
		case own > 0 && value <= all:
			problems = append(problems, fmt.Sprintf("%.1f %s need no bound of their own", value, what))
		case own > 0 && value < own-slack:
			problems = append(problems, fmt.Sprintf("%.1f %s are far below the bound of %.1f: lower the bound", value, what, own))
		}
	}
	check("pronouns for each 100 words (repeat the noun)", r.Pronouns, bounds.Pronouns, own.Pronouns)
	check("words in a sentence", r.Sentence, bounds.Sentence, own.Sentence)
	if lines := max(bounds.Lines, own.Lines); r.Lines > lines {
		problems = append(problems, fmt.Sprintf("%d lines, and %d are allowed", r.Lines, lines))
	}
	return problems
}

func TestRead(t *testing.T) {
	t.Parallel()
	page := "# It is such a heading\n\nOne node, or an-other. `it that` waits for\nit!\n\n- Such [others](it.md) go\n- v1.2 is that\n\n" +
		"| it | that |\n|---|---|\n\n```\nit it it\n```\n<!-- it\nis --> <br>\n[it]: https://it\n"
	pages, err := Pages(fstest.MapFS{"a.md": {Data: []byte(page)}})
	if err != nil {
		t.Fatal(err)
	}
	got := pages[0].Read()
	// One node or an-other | code waits for it | Such others go | v1 2 is that | it that
	want := Reading{Pronouns: 100 * 7. / 17, Sentence: 15. / 4, Lines: 17}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHardPagesAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		page, own Reading
		want      string
	}{
		"good":              {Reading{4, 16, 300}, Reading{}, ""},
		"pronouns":          {Reading{4.2, 16, 300}, Reading{}, "4.2 pronouns"},
		"sentences":         {Reading{4, 16.1, 300}, Reading{}, "16.1 words"},
		"lines":             {Reading{4, 16, 301}, Reading{}, "301 lines"},
		"raised":            {Reading{5, 17, 900}, Reading{5, 17, 900}, ""},
		"raised, and worse": {Reading{5.1, 16, 300}, Reading{5, 0, 0}, "5.1 pronouns"},
		"needless":          {Reading{4, 16, 300}, Reading{5, 0, 0}, "need no bound"},
		"mended":            {Reading{4.4, 16, 300}, Reading{5, 0, 0}, "lower the bound"},
	} {
		if got := hard(test.page, test.own); (test.want == "") != (len(got) == 0) || !strings.Contains(strings.Join(got, "\n"), test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
