// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !fluxion

package app

import (
	"errors"

	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// openFluxion always fails: this manager was built without the tag fluxion (see fluxion.go).
func openFluxion(string, string) (ledger.Matcher, error) {
	return nil, errors.New("--matcher=fluxion: this manager was built without Fluxion; build it with: go build -tags fluxion ./cmd/manager")
}
