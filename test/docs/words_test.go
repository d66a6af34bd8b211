// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"testing"
)

func TestPrint(t *testing.T) {
	for _, p := range read(t, checkout) {
		r := p.Read()
		fmt.Printf("%5.2f %5.1f %4d %s\n", r.Pronouns, r.Sentence, r.Lines, p.Path)
	}
}
