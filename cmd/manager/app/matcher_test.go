// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
)

// matcherOf opens the matcher for some flags. message is the error, if there is one.
func matcherOf(t *testing.T, args ...string) (chosen bool, message string) {
	t.Helper()
	o, err := options.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := openMatcher(o)
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
