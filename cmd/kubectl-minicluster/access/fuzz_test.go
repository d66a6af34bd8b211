// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// color is what the plugin shows of a terminal's control sequences.
var color = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Of a text in two writes, a terminal gets characters and colors. A line of a table is one line, and its colors end.
func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31mFailed", "\x1b[m\tx\n")
	f.Add("x\x1b", "]52;c;cm0=\x07\x9b2J")
	f.Add("\xc2", "\x9b31m\u202e")
	f.Fuzz(func(t *testing.T, first, second string) {
		var out bytes.Buffer
		for _, text := range []string{first, second} {
			if n, err := (Plain{&out}).Write([]byte(text)); err != nil || n != len(text) {
				t.Error(n, err)
			}
		}
		line := PlainLine(first + second)
		for _, shown := range []string{out.String(), line} {
			rest := color.ReplaceAllString(shown, "")
			if i := strings.IndexFunc(rest, isControl); i >= 0 || !utf8.ValidString(shown) {
				t.Errorf("%q: character %d of %q is shown as it is", first+second, i, shown)
			}
			if PlainText(shown) != shown {
				t.Errorf("%q becomes %q when it is shown again", shown, PlainText(shown))
			}
		}
		if strings.ContainsAny(line, "\n\t") || color.MatchString(line) && !strings.HasSuffix(line, noColor) {
			t.Errorf("%q is shown as %q", first+second, line)
		}
	})
}

func isControl(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
