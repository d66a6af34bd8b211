// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// openMatcher returns the matcher that chooses nodes. It returns nil for the embedded matcher, whose choice is final.
func openMatcher(o *options.Options) (ledger.Matcher, error) {
	if o.Matcher == options.MatcherFluxion {
		return openFluxion(o.FluxionLibrary, o.FluxionPolicy)
	}
	return nil, nil
}
