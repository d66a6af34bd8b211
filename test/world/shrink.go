// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"
	"testing"
)

// shrink leaves out parts of a world as long as something may not be in what is left, in at most so many runs. It
// returns the smallest world that it has found.
func shrink(t *testing.T, found *Result, runs int) *Result {
	t.Helper()
	kept := keptOf(found)
	for chunk := len(kept) / 2; chunk > 0 && runs > 0; {
		shorter := false
		for i := 0; i < len(kept) && runs > 0; {
			end := min(i+chunk, len(kept))
			o := found.Options
			o.Without = append(slices.Clone(o.Without), kept[i:end]...)
			runs--
			if tried := Run(t, o); tried.Violation != nil && kindOf(tried) == kindOf(found) {
				found, kept, shorter = tried, slices.Delete(kept, i, end), true
				continue
			}
			i = end
		}
		if !shorter || chunk > 1 {
			chunk = min(chunk/2, len(kept)/2+1)
		}
	}
	return found
}

// keptOf are the parts that are not left out, the last one first: faults before lives.
func keptOf(r *Result) []int {
	var kept []int
	for i := len(r.Parts) - 1; i >= 0; i-- {
		if !slices.Contains(r.Without, i) {
			kept = append(kept, i)
		}
	}
	return kept
}

// kindOf is what a violation says without the words that differ from world to world.
func kindOf(r *Result) string {
	var out []string
	for word := range strings.FieldsSeq(r.Violation.Error()) {
		if !strings.ContainsAny(word, "0123456789/") {
			out = append(out, word)
		}
	}
	return strings.Join(out[:min(len(out), 6)], " ")
}
