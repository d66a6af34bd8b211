// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of flux-elastic that a program was built from.
package version

import (
	"cmp"
	"runtime/debug"
)

// version is set by the linker (-X) in programs of a release and of an image.
var version string

// String returns the version. A program that was built without one has the version that the go command
// recorded: of the commit, or of the module that was installed. It is "(devel)" if there is none.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(version, info.Main.Version)
}

// of returns the first version that is known.
func of(linked, recorded string) string {
	return cmp.Or(linked, recorded, "(devel)")
}
