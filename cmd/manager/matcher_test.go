// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"
)

// matcherOf opens the matcher for some flags. message is the error, if there is one.
func matcherOf(t *testing.T, args ...string) (chosen bool, message string) {
	t.Helper()
	var o matcherOptions
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	matcher, err := o.open()
	if err != nil {
		message = err.Error()
	}
	return matcher != nil, message
}

func TestTheGraphChoosesByDefault(t *testing.T) {
	for _, args := range [][]string{nil, {"--matcher=embedded", "--fluxion-library=/nowhere"}} {
		if chosen, message := matcherOf(t, args...); chosen || message != "" {
			t.Errorf("%v: got a matcher: %v, %s", args, chosen, message)
		}
	}
}

func TestAnUnknownMatcherIsRefused(t *testing.T) {
	_, message := matcherOf(t, "--matcher=best")
	if want := `--matcher is "best": it can be embedded or fluxion`; message != want {
		t.Errorf("got %q, want %q", message, want)
	}
}
