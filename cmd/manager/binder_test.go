// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
)

func TestBinder(t *testing.T) {
	for value, want := range map[string]struct {
		binder  minicluster.Binder
		message string
	}{
		"gate":   {minicluster.BinderGate, ""},
		"direct": {minicluster.BinderDirect, ""},
		"auto":   {minicluster.BinderAuto, ""},
		"":       {"", `--binder is "": it can be auto or gate or direct`},
		"Direct": {"", `--binder is "Direct": it can be auto or gate or direct`},
	} {
		binder, err := binderOf(value)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if binder != want.binder || message != want.message {
			t.Errorf("%q: got %v, %q, want %v, %q", value, binder, message, want.binder, want.message)
		}
	}
}
