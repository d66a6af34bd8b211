// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulator plays Flux in the pods of MiniClusters on simulated nodes. It reads only what
// real brokers could read: the pods, and the files that are mounted in them. It does not read
// MiniClusters. What a lead does is in package flux, as a value.
//
// A lead starts its command when enough brokers are online: as many as the quorum annotation of its
// pod says. After its own quorum timeout, an allowed smaller number is enough. The annotation
// sim.flux-framework.org/runtime says how long the command runs with all of its tasks. With fewer
// tasks it runs longer in proportion. The lead's pod is ready while the command runs. Then the lead
// ends with the exit code of sim.flux-framework.org/exit-code, and the followers end after it. A
// lead that is asked to stop ends with exit code 143.
//
// An MPI job fails when it loses a broker. A batch goes on with the other brokers. A launcher or an
// interactive MiniCluster is malleable: all brokers that are online share the rest of its work,
// including those that joined later. A broker that is asked to leave ends the work that it has. Then
// it is idle, and its pod is not ready. A broker of an MPI job has work until the job ends.
//
// The pods of a Job with the annotation sim.flux-framework.org/gang-size are a gang without Flux. All
// succeed together, some time after all of them run. Benchmarks so measure other schedulers.
//
// kwok starts the pods, at once, late or never: see the stages of package localcluster.
package simulator
