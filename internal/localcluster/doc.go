// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs a Kubernetes control plane with simulated nodes on
// this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
// and kwok as plain processes that listen on 127.0.0.1 alone. It needs no root,
// no container engine and no download but Go modules.
//
// The binaries are built from the nested module hack/controlplane, which pins
// their versions, and kept in the user's cache directory.
//
// A cluster lives in one directory: its kubeconfig, logs, certificates, and one
// record per process, by which a later call finds and ends what an earlier one
// started. Clusters in different directories and on different ports do not know
// each other.
//
// What runs inside the simulated pods is not here: see internal/simulator.
package localcluster
