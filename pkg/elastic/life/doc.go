// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package life decides the next step of one MiniCluster: how it starts, survives
// failures, resizes and ends.
//
// Decide takes an Observation: the recorded status, the pods, and the queue's answer. It asks an
// ordered list of rules (decide.go). The first rule that applies returns the Plan: one Step and
// the reason for it.
//
// A step of type Decision is recorded before anything follows from it: it changes the Record,
// which is the MiniCluster's status, and nothing else. Every other step makes the cluster follow
// the record, and is repeated until its effect is observed.
//
// Each step is a type of its own and stands beside its rules. Package queue decides which
// MiniCluster gets which nodes; this package does not import it.
package life
