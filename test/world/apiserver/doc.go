// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is an API server in memory. Programs reach it through an http.RoundTripper with REST semantics, as
// they reach a real one: a manager with client-go runs on it unchanged, also inside a bubble of testing/synctest. Models
// of other programs reach it without HTTP through a client.Client, with the same semantics and the same admission.
//
// The server never waits for anything: a request is answered in the goroutine that sends it, and a watch blocks its reader
// alone, on a channel. All that it does follows from the requests, the time and the random source, so that the same
// requests give the same answers.
//
//	server := apiserver.New(rand.New(rand.NewPCG(1, 2)), apiserver.Options{Scheme: scheme})
//	err := server.Install(apiserver.ConfigFile("crd/..."), ...)    // CRDs, policies: as an administrator
//	config := &rest.Config{Host: apiserver.Host, Transport: server.Transport("system:serviceaccount:a:b")}
//	for _, stream := range server.Streams() { stream.Deliver() }    // unless Options.AutoDeliver
//
// # What it is not
//
// It has no RBAC, no webhooks, no API priority and fairness, and no versions of an API beside the one that is stored. A
// list that asks for an old resource version gets the newest. A watch has no timeout of its own (Stream.Close ends it).
// Of managed fields it has the managers, not the fields, and only in the kinds that say so (traits.managed). The values
// of the built-in kinds are validated in part. The contract test (package contract) says what is compared with a real API server.
package apiserver
