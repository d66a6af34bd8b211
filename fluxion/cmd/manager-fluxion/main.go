// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command manager-fluxion is a manager that can let Fluxion's own library choose the nodes: --matcher=fluxion. It takes the flags
// of the manager. A program that loads a library needs a dynamic loader and libc, which the manager does not need.
package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/cmd/manager/app"
	"github.com/flux-elastic/flux-elastic/fluxion/reapigraph"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

func main() { app.Main(open) }

func open(library, policy string) (ledger.Matcher, error) {
	engine, err := reapigraph.Open(library, policy, func(err error) {
		ctrl.Log.WithName("fluxion").Error(err, "Fluxion did not choose, so the embedded matcher did")
	})
	if err != nil {
		return nil, err
	}
	return engine.MatchGang, nil
}
