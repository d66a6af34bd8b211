// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package models is what other programs do in a cluster: the Job controller, kube-scheduler, the kubelets
// with Flux in their pods, and the lifecycle of nodes. Each model is written from the behaviour of
// Kubernetes 1.37, whose files its comments name. Contract tests (package contract, test/e2e) compare models with
// the real programs.
//
// A model has no goroutine, and does not sleep. A driver calls Step, which makes at most one write. So the driver
// chooses how the programs interleave. Time is time.Now(), which is virtual in a bubble of testing/synctest. What
// is random comes from Cluster.Random, so that the same seed gives the same steps.
//
// Faults are methods of the models: Kubelets.Cut, JobController.Pause and others.
package models
