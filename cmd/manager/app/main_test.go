// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

func TestMatcherOf(t *testing.T) {
	opened := ""
	open := func(library, policy string) (ledger.Matcher, error) {
		opened = library + " " + policy
		if library == "/nowhere" {
			return nil, errors.New("no such file")
		}
		return func(*fluxion.Graph, fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
			return fluxion.Placement{}, nil
		}, nil
	}
	for _, tc := range []struct {
		args   string
		open   OpenFluxion
		opened string
		chosen bool
		fails  string
	}{
		{args: "--matcher=embedded --fluxion-library=/nowhere", open: open},
		{args: "--matcher=fluxion", fails: "--matcher=fluxion: this program cannot load Fluxion's library; manager-fluxion can: see make build-fluxion"},
		{args: "--matcher=fluxion --fluxion-library=/lib.so --fluxion-policy=high", open: open, opened: "/lib.so high", chosen: true},
		{args: "--matcher=fluxion --fluxion-library=/nowhere", open: open, opened: "/nowhere lonode",
			fails: "--matcher=fluxion --fluxion-library=/nowhere --fluxion-policy=lonode: no such file"},
	} {
		opened = ""
		o, err := options.Parse(strings.Fields(tc.args))
		if err != nil {
			t.Fatal(err)
		}
		matcher, err := matcherOf(o, tc.open)
		if failed := err != nil; failed != (tc.fails != "") || failed && err.Error() != tc.fails {
			t.Errorf("%s: got the error %v, want %q", tc.args, err, tc.fails)
		}
		if (matcher != nil) != tc.chosen || opened != tc.opened {
			t.Errorf("%s: got a matcher: %v, of %q", tc.args, matcher != nil, opened)
		}
	}
}
