// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"
)

// engineOf is the outcome of flags.
func engineOf(t *testing.T, args ...string) (chosen bool, message string) {
	t.Helper()
	var o matcherOptions
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	engine, err := o.engine()
	if err != nil {
		message = err.Error()
	}
	return engine != nil, message
}

func TestTheGraphChoosesByDefault(t *testing.T) {
	for _, args := range [][]string{nil, {"--matcher=embedded", "--fluxion-library=/nowhere"}} {
		if chosen, message := engineOf(t, args...); chosen || message != "" {
			t.Errorf("%v: got an engine: %v, %s", args, chosen, message)
		}
	}
}

func TestAnUnknownMatcherIsRefused(t *testing.T) {
	_, message := engineOf(t, "--matcher=best")
	if want := `--matcher is "best": it can be embedded or fluxion`; message != want {
		t.Errorf("got %q, want %q", message, want)
	}
}
