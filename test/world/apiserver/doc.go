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
//	err := server.InstallConfig(apiserver.Definitions, apiserver.Admission, apiserver.Limits) // as an administrator
//	config := &rest.Config{Host: apiserver.Host, Transport: server.Transport("system:serviceaccount:a:b")}
//	for _, stream := range server.Streams() { stream.Deliver() } // unless Options.AutoDeliver
//
// Definitions and policies are objects, as in a real one: they work from when they are created until they are deleted. What
// controllers beside the API server do is done by models that a driver steps: GarbageCollector, NamespaceController and
// QuotaController. A quota limits nothing before the last of them has seen it.
//
// Requests of package contract are sent to this server and to a real one (test/e2e), and the answers are compared.
//
// # What it is not
//
// It has no RBAC, no webhooks, no priority and fairness, no server-side apply, and no versions of an API beside the one that
// is stored. A list that asks for an old resource version gets the newest. A watch has no timeout of its own, and no
// bookmarks of its own: Stream.Close and Stream.Bookmark are for the driver. Of managed fields it has the managers, not the
// fields, and of definitions alone (traits.managed). The values of the built-in kinds are validated in part: see
// validatePod and validateJob. Of the admission plug-ins it has NamespaceLifecycle, Priority, DefaultTolerationSeconds,
// ResourceQuota, and the policies. So pods get no token of their service account, LimitRanges and the labels of
// PodSecurity limit nothing, and claims get no finalizer.
package apiserver
