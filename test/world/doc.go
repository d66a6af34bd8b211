// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package world runs the whole operator in virtual time: the real manager (cmd/manager/app), with the real
// controller-runtime, client-go and JobSet controller, in a bubble of testing/synctest, on an API server in memory
// (package apiserver), beside models of the other programs of a cluster (package models).
//
//	go test ./test/world                              # 400 MiniClusters with faults
//	make world LIVES=100000 SEED=5                    # more, from another seed on; by default 2,000
//	go test ./test/world -run TestLives -seed=7       # the world of one seed, with its trace
//
// # One thing at a time
//
// Every request of a manager parks at a turnstile (turnstile.go), and every pass of a controller does, too: a controller
// logs that a pass begins, and the sink of the log parks it there. Every event of a watch waits until it is delivered.
// The driver (driver.go) is the first goroutine of the bubble. It waits until all others wait (synctest.Wait), and
// draws what happens next: a request or a pass goes on, a watch gets its next event, a model does one step, or time
// passes. So at most one chain of the product's code runs at once, its order comes from the seed, and a seed has the same
// trace each time. TestSameSeedSameTrace checks that. Discovery is answered at once, because client-go holds a mutex
// while it asks. A goroutine that waits for a mutex would keep the bubble from coming to rest.
//
// Each process of the test has one thread (GOMAXPROCS=1): goroutines that become ready at once run in one order then.
// TestLives starts a process for each core.
//
// # Lives and faults
//
// A world has a few nodes and some MiniClusters with random specs (lives.go), whose users scale, edit, suspend, resume
// and delete them. Others inject containers into some of the pods. A fifth of the worlds has a Kueue, half of them beside an
// autoscaler, and another fifth an autoscaler alone. faults.go has what goes wrong: a manager is killed before or after a
// write, a request fails with or without an effect, events are late, watches end, the machine of a manager halts for longer
// than its lease, objects and namespaces are deleted by hand, nodes are cut off, out of service, and come back, a
// ClusterQueue is stopped.
// Lives and faults are the parts of a world. Each is drawn from the seed and its own number, so leaving out one does
// not change the others.
//
// # What is checked
//
// After every step: at most one process of a command runs; a command that ended with 0 does not run again; the recorded
// outcome is that of the command; an outcome never changes; no node has more processes than fit. Once faults have ended:
// every MiniCluster ends within three hours, or says why it cannot run; one that ended holds no node; each decision has
// exactly one event; nothing is written while there is nothing to do. Once all MiniClusters are deleted: no object is left.
//
// A failure prints the seed, the smallest world that has the violation (shrink.go leaves out parts, and tries again),
// its trace, and its objects.
//
// A MiniCluster takes about 0.1 s of one core, with its faults: 2,000 take some 110 s on two cores.
//
// # What it is not
//
// The clocks of all programs are one, so a clock that steps is not played.
package world
