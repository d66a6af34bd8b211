// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs a Kubernetes control plane on this machine: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and, for simulated nodes, kwok,
// as plain processes that listen on 127.0.0.1 alone. That needs no root, no container
// engine and no download but Go modules.
//
// Its nodes can be real ones, for which it has to be root (see CheckReal): each is a
// containerd and a kubelet in namespaces of their own, on a bridge on which the API server
// and CoreDNS listen, too. All that is made for such a cluster bears its name, or ends with
// the first process of a node.
//
// The binaries are built from the nested module hack/controlplane, which pins
// their versions, and kept in the user's cache directory.
//
// A cluster lives in one directory: its kubeconfig, logs, certificates, and one
// record per process, by which a later call finds and ends what an earlier one
// started. Clusters in different directories and on different ports do not know
// each other.
//
// What runs inside the simulated pods is not here: see dev/simulator. What real pods
// run is in the images of the package image.
package localcluster
