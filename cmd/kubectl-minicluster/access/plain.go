// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"io"
	"regexp"
	"strings"
	"unicode"
)

// Plain is a writer for text that others may have written, such as commands and messages: what could do more to a
// terminal than show characters, and their colors, becomes a replacement character. So do bytes that are no UTF-8: they are
// control characters for some terminals, or together with the bytes of the next text.
type Plain struct{ To io.Writer }

// Write implements io.Writer.
func (p Plain) Write(text []byte) (int, error) {
	if _, err := p.To.Write([]byte(PlainText(string(text)))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapes are the colors that this program shows (SGR of ECMA-48: bold, faint, underlined, and a foreground that is not
// black), and single control characters: those of Unicode, and those that change the direction of text.
var escapes = regexp.MustCompile(`\x1b\[(?:(?:[0-24]|22|3[1-79]|9[0-7])(?:;(?:[0-24]|22|3[1-79]|9[0-7]))*)?m|[\p{Cc}\x{061c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

// PlainText is a text as Plain writes it. Bytes that are no UTF-8 may be control characters of terminals of 8 bits.
func PlainText(text string) string {
	return escapes.ReplaceAllStringFunc(strings.ToValidUTF8(text, string(unicode.ReplacementChar)), func(found string) string {
		if len(found) > 2 && found[0] == '\x1b' || found == "\n" || found == "\t" {
			return found
		}
		return string(unicode.ReplacementChar)
	})
}

// PlainLine is a text as Plain writes it, in one line: no part of it can pass for a line of its own, and its colors end
// with it.
func PlainLine(text string) string {
	line := oneLine.Replace(PlainText(text))
	if strings.Contains(line, "\x1b[") && !strings.HasSuffix(line, noColor) {
		line += noColor
	}
	return line
}

const noColor = "\x1b[m"

var oneLine = strings.NewReplacer("\n", " ", "\t", " ")
