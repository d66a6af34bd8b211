// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"testing"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/fluxion/reapigraph"
)

func TestOpen(t *testing.T) {
	const want = "opening Fluxion: stat /nowhere/libreapi_cli.so: no such file or directory"
	if matcher, err := open("/nowhere/libreapi_cli.so", "lonode"); matcher != nil || err == nil || err.Error() != want {
		t.Errorf("got a matcher: %v, and the error %v, want %q", matcher != nil, err, want)
	}
	library := os.Getenv("FLUXION_LIBRARY")
	if library == "" {
		t.Skip("FLUXION_LIBRARY does not name a libreapi_cli.so of flux-sched 0.52 or later")
	}
	if matcher, err := open(library, "high"); matcher == nil || err != nil {
		t.Errorf("got no matcher: %v", err)
	}
}

// The manager's flag takes the policies that Fluxion's library has.
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
