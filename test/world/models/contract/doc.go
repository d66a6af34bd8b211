// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract is what the models have in common with the real programs: small scenarios, whose steps lead to the same
// states in a cluster in memory (package models) and on a real control plane (test/e2e). No kubelet is there: the
// scenarios write the statuses of pods.
package contract
