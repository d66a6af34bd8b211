// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package protocol is what the controller and the pods of a MiniCluster tell each other,
// both ways: the patches by which a pod is placed and told something (tell.go), and what a
// pod shows of itself (pod.go), read once into a value.
//
// The controller writes annotations, which are files in the pod (downward API). The pod
// answers by its readiness and its termination message. What Flux makes of it is in the
// scripts of package broker. The package has no client.
package protocol
