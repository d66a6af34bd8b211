// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
)

// RunJobSet runs JobSet's controller beside the manager, as a cluster does that has
// it, until the returned function is called.
func (c *Cluster) RunJobSet(ctx context.Context) (stop func() error, err error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return c.suite.runJobSet(ctx, config)
}

// RunJobSet runs JobSet's controller for the site alone, until the returned function is called.
func (s *Site) RunJobSet() (stop func()) {
	s.T.Helper()
	config, err := s.Config("")
	if err != nil {
		s.T.Fatal(err)
	}
	end, err := s.Cluster.suite.runJobSet(s.Ctx, config)
	if err != nil {
		s.T.Fatal(err)
	}
	return func() {
		if err := end(); err != nil {
			s.T.Error(err)
		}
	}
}

func (s *Suite) runJobSet(ctx context.Context, config *rest.Config) (stop func() error, err error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: s.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, err
	}
	if err := jobsetcontrollers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	reconciler := jobsetcontrollers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("jobset"))
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() error { cancel(); return <-done }, nil
}
