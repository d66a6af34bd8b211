// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build fluxion

package app

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/reapigraph"
)

// openFluxion loads Fluxion's library. A program that can load a library needs a dynamic loader and
// libc: hence the build tag.
func openFluxion(library, policy string) (ledger.Matcher, error) {
	log := ctrl.Log.WithName("fluxion")
	engine, err := reapigraph.Open(library, policy, func(err error) {
		log.Error(err, "Fluxion did not choose, so the embedded matcher did")
	})
	if err != nil {
		return nil, fmt.Errorf("--matcher=fluxion --fluxion-library=%s --fluxion-policy=%s: %w", library, policy, err)
	}
	log.Info("Fluxion chooses the nodes", "library", library, "policy", policy)
	return engine.MatchGang, nil
}
