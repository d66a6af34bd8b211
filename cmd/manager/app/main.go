// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

// OpenFluxion loads Fluxion's library from a path. Fluxion then chooses the nodes of gangs by a match policy.
type OpenFluxion func(library, policy string) (ledger.Matcher, error)

// Main is a program that runs the manager as its arguments say, until it gets a signal. open is nil in a program that cannot
// load libraries.
func Main(open OpenFluxion) {
	o, err := options.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		options.Usage(os.Stdout)
		return
	case err == nil && o.Version:
		fmt.Println(version.String())
		return
	case err == nil:
		ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.Logging)))
		err = run(o, open)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(o *options.Options, open OpenFluxion) error {
	matcher, err := matcherOf(o, open)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	return Run(ctrl.SetupSignalHandler(), config, o, matcher, clock.RealClock{})
}

// matcherOf returns the matcher that chooses nodes. It returns nil for the embedded matcher, whose choice is final.
func matcherOf(o *options.Options, open OpenFluxion) (ledger.Matcher, error) {
	switch {
	case o.Matcher != options.MatcherFluxion:
		return nil, nil
	case open == nil:
		return nil, errors.New("--matcher=fluxion: this program cannot load Fluxion's library; manager-fluxion can: see make build-fluxion")
	}
	matcher, err := open(o.FluxionLibrary, o.FluxionPolicy)
	if err != nil {
		return nil, fmt.Errorf("--matcher=fluxion --fluxion-library=%s --fluxion-policy=%s: %w", o.FluxionLibrary, o.FluxionPolicy, err)
	}
	ctrl.Log.WithName("fluxion").Info("Fluxion chooses the nodes", "library", o.FluxionLibrary, "policy", o.FluxionPolicy)
	return matcher, nil
}
