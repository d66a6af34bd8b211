// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser tests the web page of the manager in Chromium. It is a module of its own, so that no
// other one needs a library for browsers.
package browser
