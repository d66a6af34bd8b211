// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs reads the Markdown files and the examples of a checkout, for tests of what they say.
package docs

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// Page is a Markdown file.
type Page struct {
	// Path is the path from the root of the checkout.
	Path string
	// Prose are the lines outside of code blocks; a line of a code block is empty here.
	Prose []string
	// Blocks are the code blocks between fences.
	Blocks []Block
}

// Block is a code block.
type Block struct {
	Language string
	// Line is the number of its first line in the file.
	Line int
	Text string
}

// Pages reads all Markdown files below the root, except those in hidden directories.
func Pages(root fs.FS) (pages []*Page, err error) {
	err = walk(root, func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		pages = append(pages, parse(name, string(text)))
		return nil
	})
	return pages, err
}

// walk calls a function for every file that is not in a hidden directory.
func walk(root fs.FS, visit func(name string) error) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return visit(name)
	})
}

var fence = regexp.MustCompile("^ *(```+|~~~+) *([A-Za-z0-9_-]*)")

func parse(name, text string) *Page {
	page := &Page{Path: name}
	open := "" // the fence of the block that the line is in
	var block []string
	for i, line := range strings.Split(text, "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case open == "" && mark != nil:
			open, block = mark[1], nil
			page.Blocks = append(page.Blocks, Block{Language: mark[2], Line: i + 2})
			line = ""
		case open != "" && mark != nil && strings.HasPrefix(mark[1], open) && mark[2] == "":
			page.Blocks[len(page.Blocks)-1].Text = unindent(block)
			open, line = "", ""
		case open != "":
			block = append(block, line)
			line = ""
		}
		page.Prose = append(page.Prose, line)
	}
	return page
}

// unindent removes the indentation of the first line from all lines, for blocks of list items.
func unindent(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], indent)
	}
	return strings.Join(lines, "\n") + "\n"
}

var (
	codeSpan   = regexp.MustCompile("(``+|`)(.+?)(``+|`)")
	heading    = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.+?)\s*#*$`)
	inline     = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	definition = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)`)
	attribute  = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	identifier = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// Link is a link of a page, as it is written.
type Link struct {
	Line   int
	Target string
}

// Links are the links of a page: inline ones, definitions, and attributes of HTML.
func (p *Page) Links() (links []Link) {
	for i, line := range p.Prose {
		line = codeSpan.ReplaceAllString(line, "")
		for _, pattern := range []*regexp.Regexp{inline, definition, attribute} {
			for _, match := range pattern.FindAllStringSubmatch(line, -1) {
				links = append(links, Link{i + 1, match[1]})
			}
		}
	}
	return links
}

// Code are the code spans of a page by the numbers of their lines.
func (p *Page) Code() map[int][]string {
	spans := map[int][]string{}
	for i, line := range p.Prose {
		for _, match := range codeSpan.FindAllStringSubmatch(line, -1) {
			spans[i+1] = append(spans[i+1], strings.TrimSpace(match[2]))
		}
	}
	return spans
}

// Anchors are the names by which GitHub lets links address the headings of a page, and those that its
// HTML sets.
func (p *Page) Anchors() map[string]bool {
	anchors := map[string]bool{}
	counts := map[string]int{}
	for _, line := range p.Prose {
		if match := heading.FindStringSubmatch(line); match != nil {
			name := slug(match[1])
			anchor := name
			if n := counts[name]; n > 0 {
				anchor = fmt.Sprintf("%s-%d", name, n)
			}
			counts[name]++
			anchors[anchor] = true
		}
		for _, match := range identifier.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			anchors[match[1]] = true
		}
	}
	return anchors
}

// slug is the anchor that GitHub makes of a heading: lower case, spaces become hyphens, and of all other
// characters only letters, digits, hyphens and underscores stay.
func slug(heading string) string {
	text := linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Pc):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
