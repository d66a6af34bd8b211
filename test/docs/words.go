// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
)

// pronouns are words that stand for a noun which the reader has to find. "that" and "other" count in every use, since a
// count of words knows no grammar.
var pronouns = []string{"one", "other", "others", "it", "that", "such"}

var (
	word     = regexp.MustCompile(`[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*`)
	spans    = regexp.MustCompile("(?s)(``+|`).+?(``+|`)")
	comments = regexp.MustCompile(`(?s)<!--.*?-->|<[^>\n]*>`)
	bullet   = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s`)
	sentence = regexp.MustCompile(`[.!?](?:\s|$)|\n\n`)
)

// Reading says how hard the prose of a page is to read.
type Reading struct {
	// Pronouns are pronouns for each 100 words, and Sentence is the mean number of words in a sentence outside of tables.
	Pronouns, Sentence float64
	// Lines are the lines of the file.
	Lines int
}

// Read counts the words of a page. Code blocks, headings, comments and addresses of links do not count, and a code span
// counts as a word. An item of a list ends a sentence.
func (p *Page) Read() (r Reading) {
	text, tables := p.text()
	plain := func(s string) string {
		return linkText.ReplaceAllString(spans.ReplaceAllString(comments.ReplaceAllString(s, ""), "code"), "$1")
	}
	text, tables = plain(text), plain(tables)
	count, sentences := 0, 0
	for _, part := range sentence.Split(text, -1) {
		if words := len(word.FindAllString(part, -1)); words > 0 {
			count += words
			sentences++
		}
	}
	all := word.FindAllString(text+tables, -1)
	found := 0
	for _, w := range all {
		if slices.Contains(pronouns, strings.ToLower(w)) {
			found++
		}
	}
	r.Pronouns = 100 * float64(found) / max(1, float64(len(all)))
	r.Sentence = float64(count) / max(1, float64(sentences))
	r.Lines = len(p.Prose) - 1 // the text ends with a line end
	return r
}

// text is the prose of a page without headings, and the rows of its tables.
func (p *Page) text() (prose, tables string) {
	var text, rows strings.Builder
	for _, line := range p.Prose {
		switch {
		case heading.MatchString(line), definition.MatchString(line):
			text.WriteString("\n\n")
		case strings.HasPrefix(strings.TrimSpace(line), "|"):
			rows.WriteString(line + "\n")
			text.WriteString("\n\n")
		case bullet.MatchString(line):
			text.WriteString("\n\n" + bullet.ReplaceAllString(line, "") + "\n")
		default:
			text.WriteString(line + "\n")
		}
	}
	return text.String(), rows.String()
}
