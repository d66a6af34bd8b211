// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build fluxion

package main

import (
	"os"
	"testing"
)

func TestFluxionIsOpened(t *testing.T) {
	library := os.Getenv("FLUXION_LIBRARY")
	if library == "" {
		t.Skip("FLUXION_LIBRARY does not name a libreapi_cli.so of flux-sched 0.52 or later")
	}
	if chosen, message := matcherOf(t, "--matcher=fluxion", "--fluxion-library="+library, "--fluxion-policy=high"); !chosen {
		t.Errorf("got no matcher: %s", message)
	}
}

func TestFluxionSaysWhatIsMissing(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"the library": {
			[]string{"--fluxion-library=/nowhere/libreapi_cli.so"},
			"--matcher=fluxion --fluxion-library=/nowhere/libreapi_cli.so --fluxion-policy=lonode: opening Fluxion: stat /nowhere/libreapi_cli.so: no such file or directory",
		},
		"the policy": {
			[]string{"--fluxion-library=/x.so", "--fluxion-policy=best"},
			`--matcher=fluxion --fluxion-library=/x.so --fluxion-policy=best: the policy is "best": it can be first, high, low, hinode, lonode, locality`,
		},
	}
	for name, tc := range cases {
		if _, message := matcherOf(t, append(tc.args, "--matcher=fluxion")...); message != tc.want {
			t.Errorf("%s: got %q, want %q", name, message, tc.want)
		}
	}
}
