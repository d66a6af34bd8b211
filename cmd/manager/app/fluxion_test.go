// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build fluxion

package app

import (
	"os"
	"slices"
	"testing"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/internal/reapigraph"
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
	_, message := matcherOf(t, "--matcher=fluxion", "--fluxion-library=/nowhere/libreapi_cli.so")
	if want := "--matcher=fluxion --fluxion-library=/nowhere/libreapi_cli.so --fluxion-policy=lonode: opening Fluxion: stat /nowhere/libreapi_cli.so: no such file or directory"; message != want {
		t.Errorf("got %q, want %q", message, want)
	}
}

// A manager without Fluxion has the same policies.
func TestPolicies(t *testing.T) {
	for _, section := range options.Sections() {
		for _, s := range section.Settings {
			if s.Flag == "fluxion-policy" && slices.Equal(s.Choices, reapigraph.Policies) {
				return
			}
		}
	}
	t.Errorf("no flag takes %v", reapigraph.Policies)
}
