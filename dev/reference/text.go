// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"unicode/utf8"
)

// width is the number of columns of a page.
const width = 118

// wrap fills the lines of a paragraph. The lines after the first are indented.
func wrap(text, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range words(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String() + "\n"
}

// words splits a text at spaces, but not inside of code spans: Markdown of a span is on one line.
func words(text string) (words []string) {
	inCode := false
	start := -1
	for i, r := range text {
		switch {
		case r == '`':
			inCode = !inCode
			if start < 0 {
				start = i
			}
		case r != ' ' && r != '\n' && start < 0:
			start = i
		case (r == ' ' || r == '\n') && !inCode && start >= 0:
			words = append(words, text[start:i])
			start = -1
		}
	}
	if start >= 0 {
		words = append(words, text[start:])
	}
	return words
}

// prose makes Markdown of the text of a comment: what is no code span keeps its meaning.
func prose(comment string) string {
	parts := strings.Split(strings.Join(strings.Fields(comment), " "), "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("*", `\*`, "<", `\<`, "[", `\[`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

// code is a code span.
func code(text string) string { return "`" + text + "`" }
