// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package protocol is what the controller and the pods of a MiniCluster say to each other: the
// patches that place a pod or tell it something (tell.go), and what a pod shows of itself
// (pod.go) and of its broker (broker.go), which is read once into a value. The cache keeps only
// the fields of a pod that are read (strip.go).
//
// The controller writes annotations, which the pod sees as files (downward API). The pod answers
// by its readiness and its termination message. The scripts of package broker translate for Flux.
// The package has no client.
package protocol
