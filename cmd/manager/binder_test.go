// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
)

func TestBinder(t *testing.T) {
	for value, want := range map[string]struct {
		direct  bool
		message string
	}{
		"gate":   {false, ""},
		"direct": {true, ""},
		"":       {false, `--binder is "": it can be gate or direct`},
		"Direct": {false, `--binder is "Direct": it can be gate or direct`},
	} {
		direct, err := bindsDirectly(value)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if direct != want.direct || message != want.message {
			t.Errorf("%q: got %v, %q, want %v, %q", value, direct, message, want.direct, want.message)
		}
	}
}
