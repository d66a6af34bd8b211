// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulator plays Flux in the pods of MiniClusters on simulated nodes. It
// knows what real brokers would know: the pods, and the files that are mounted in
// them. It does not read MiniClusters.
//
// A lead runs its command once as many brokers are online as its pod is told to
// wait for (or, after its own quorum timeout, an allowed smaller number), for the
// time that the pod's annotation sim.flux-framework.org/runtime says, longer in
// proportion to the tasks that it does not get. Then it ends with the exit code of
// sim.flux-framework.org/exit-code, and the followers end after it. Its pod is ready
// while the command runs. One that is told to stop ends with exit code 143.
//
// A broker that is lost under a running command takes the command with it, as it does
// an MPI job. A batch bears it, and goes on with those that are left. Where the command
// is a launcher, or there is none (interactive), what is left of the work is shared by
// the brokers that are there, those that joined later too. A broker that is told to
// leave ends the work that it has, and is then idle: its pod is not ready. An MPI job that
// began with it has work for it to the end.
//
// When a pod starts (at once, late or never) is kwok's business; see the stages of
// package localcluster.
package simulator
