// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs a Kubernetes control plane on this machine: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and, for simulated nodes, kwok. These are plain processes
// that listen only on 127.0.0.1. They need no root, no container engine, and no downloads except Go
// modules.
//
// Nodes can be real ones, which need root (see CheckReal). Each real node is a containerd and a
// kubelet in namespaces of their own. The nodes are on a bridge, on which the API server and CoreDNS
// listen, too. Everything that is made for such a cluster has the cluster's name, or ends with the
// first process of a node.
//
// Kueue can run beside the control plane, too. The API server reaches its webhooks by address. Its API
// and webhooks are those of its module in Go's module cache.
//
// The binaries are built from the nested module hack/controlplane, which pins their versions, and
// are kept in the user's cache directory.
//
// All files of a cluster are in one directory: its kubeconfig, logs, certificates, and one record
// per process. By these records a later call finds and ends processes that an earlier call started.
// Clusters in different directories and on different ports are independent.
//
// Package simulator plays the brokers in simulated pods. Package image makes the images of real
// pods.
package localcluster
