// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/controllers/beside"
)

// besideOptions are the flags that let the manager run beside controllers that do its work, too.
type besideOptions struct {
	fluxOperator bool
	jobSet       bool
}

func (o *besideOptions) bind(flags *flag.FlagSet) {
	flags.BoolVar(&o.fluxOperator, "beside-flux-operator", false, "start even if the Flux Operator runs in the cluster: both reconcile every MiniCluster")
	flags.BoolVar(&o.jobSet, "beside-jobset", false, "start with --jobset=embedded even if the cluster runs a JobSet controller: both reconcile the JobSets of MiniClusters")
}

// check returns an error if the cluster runs such a controller, and no flag allows it.
func (o *besideOptions) check(ctx context.Context, config *rest.Config, jobSet string) error {
	cluster, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if !o.fluxOperator {
		switch sign, err := beside.FluxOperator.Running(ctx, cluster, time.Now()); {
		case err != nil:
			return fmt.Errorf("%w; --beside-flux-operator starts without a look", err)
		case sign != "":
			return fmt.Errorf("the Flux Operator runs in this cluster (%s), and would reconcile every MiniCluster, too: remove it (docs/migrate.md), or start with --beside-flux-operator", sign)
		}
	}
	if jobSet == jobSetEmbedded && !o.jobSet {
		switch sign, err := beside.JobSet.Running(ctx, cluster, time.Now()); {
		case err != nil:
			return fmt.Errorf("%w; --beside-jobset starts without a look", err)
		case sign != "":
			return fmt.Errorf("a JobSet controller runs in this cluster (%s), and would reconcile the JobSets of MiniClusters, too: start with --jobset=external, or with --beside-jobset", sign)
		}
	}
	return nil
}
