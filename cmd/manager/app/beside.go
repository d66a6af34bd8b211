// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/controllers/beside"
)

// checkBeside returns an error if the cluster runs a controller that does the work of the manager, too, and no setting
// allows it.
func checkBeside(ctx context.Context, config *rest.Config, o *options.Options) error {
	cluster, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if !o.BesideFluxOperator {
		switch sign, err := beside.FluxOperator.Running(ctx, cluster, time.Now()); {
		case err != nil:
			return fmt.Errorf("%w; --beside-flux-operator starts without a look", err)
		case sign != "":
			return fmt.Errorf("the Flux Operator runs in this cluster (%s), and would reconcile every MiniCluster, too: remove it (docs/migrate.md), or start with --beside-flux-operator", sign)
		}
	}
	if o.JobSet == options.JobSetEmbedded && !o.BesideJobSet {
		switch sign, err := beside.JobSet.Running(ctx, cluster, time.Now()); {
		case err != nil:
			return fmt.Errorf("%w; --beside-jobset starts without a look", err)
		case sign != "":
			return fmt.Errorf("a JobSet controller runs in this cluster (%s), and would reconcile the JobSets of MiniClusters, too: start with --jobset=external, or with --beside-jobset", sign)
		}
	}
	return nil
}
