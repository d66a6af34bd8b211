// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers of flux-elastic, in a cluster or outside of it.
package main

import "github.com/flux-elastic/flux-elastic/cmd/manager/app"

func main() { app.Main(nil) }
