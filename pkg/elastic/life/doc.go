// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package life decides the next step of one MiniCluster: how it starts, survives
// failures, resizes and ends.
//
// Decide takes an Observation (what is written down about the MiniCluster, what its pods
// show, what the queue says) and asks an ordered list of rules (decide.go). The first rule
// that applies returns the Plan: one Step, with the reason for it.
//
// A step of type Decision is written down before anything follows from it: it changes the
// Record, which is the MiniCluster's status, and nothing else. Every other step makes the
// cluster follow the record, and is repeated until that is observed.
//
// Each step is a type of its own, beside the rules that lead to it. Which MiniCluster gets
// which nodes is decided by package queue; this package imports nothing of it.
package life
