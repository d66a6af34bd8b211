// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers of flux-elastic, in a cluster or outside of it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/flux-elastic/flux-elastic/cmd/manager/app"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

func main() {
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
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(o *options.Options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	return app.Run(ctrl.SetupSignalHandler(), config, o, clock.RealClock{})
}
