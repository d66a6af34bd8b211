// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"

	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// Values of --matcher.
const (
	matcherEmbedded = "embedded"
	matcherFluxion  = "fluxion"
)

// matcherOptions are the flags that say which matcher chooses nodes.
type matcherOptions struct {
	matcher string
	library string
	policy  string
}

func (o *matcherOptions) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.matcher, "matcher", matcherEmbedded, "who chooses the nodes of a MiniCluster: embedded (this program) or fluxion (Fluxion's own library; takes a manager that was built with -tags fluxion)")
	flags.StringVar(&o.library, "fluxion-library", "/usr/lib/flux/libreapi_cli.so", "the library for --matcher=fluxion, of flux-sched 0.52 or later")
	flags.StringVar(&o.policy, "fluxion-policy", "lonode", "Fluxion's match policy: first, high, low, hinode, lonode or locality")
}

// open returns the chosen matcher. It returns nil for the embedded matcher, whose choice is final.
func (o *matcherOptions) open() (ledger.Matcher, error) {
	switch o.matcher {
	case matcherEmbedded:
		return nil, nil
	case matcherFluxion:
		return openFluxion(o.library, o.policy)
	default:
		return nil, fmt.Errorf("--matcher is %q: it can be %s or %s", o.matcher, matcherEmbedded, matcherFluxion)
	}
}
