// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package scaleup turns what the queue wants to ask an autoscaler for (queue.Ask) into objects, and what the autoscaler
// says about these into values (queue.Asked).
//
// A PodTemplate stands for what is asked for one MiniCluster: its annotation is the record of the attempt, and it is the
// template of a ProvisioningRequest or a CapacityBuffer, by which the autoscaler is asked. Next says which write comes
// next. Each decision is recorded before anything follows from it, so a manager that is killed between two writes goes
// on with the second one.
//
// The package has no client.
package scaleup
