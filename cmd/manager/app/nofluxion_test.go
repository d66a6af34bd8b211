// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !fluxion

package app

import (
	"testing"
)

func TestFluxionTakesABuildTag(t *testing.T) {
	_, message := matcherOf(t, "--matcher=fluxion")
	if want := "--matcher=fluxion: this manager was built without Fluxion; build it with: go build -tags fluxion ./cmd/manager"; message != want {
		t.Errorf("got %q, want %q", message, want)
	}
}
