// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of flux-elastic that a program was built from, and where a cluster tells that of its
// manager.
package version

import (
	"cmp"
	"regexp"
	"runtime/debug"
	"strings"
)

// The manager that leads has a Lease, whose label has its version (Label).
const (
	ManagerLease = "manager.flux-framework.org"
	LeaseLabel   = "app.kubernetes.io/version"
)

// version is set by the linker (-X) in programs of a release and of an image.
var version string

// String returns the version. A program that was built without one has the version that the go command
// recorded: of the commit, or of the module that was installed. It is "devel" if there is none,
// where the go command writes "(devel)": labels have no parentheses.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(version, info.Main.Version)
}

// of returns the first version that is known.
func of(linked, recorded string) string {
	return cmp.Or(linked, strings.Trim(recorded, "()"), "devel")
}

// notInLabels is what values of labels do not have.
var notInLabels = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// longestLabel is the length that Kubernetes allows.
const longestLabel = 63

// Label returns the version as the value of a label: "_" stands for "+", as in charts of Helm.
func Label() string { return labelOf(String()) }

func labelOf(version string) string {
	label := notInLabels.ReplaceAllString(version, "_")
	return strings.Trim(label[:min(len(label), longestLabel)], "-_.")
}
