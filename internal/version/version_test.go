// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	for _, test := range []struct{ linked, recorded, want string }{
		{"v0.1.0", "v0.0.0-20261123211048-e53e7140bab8", "v0.1.0"},
		{"", "v0.0.0-20261123211048-e53e7140bab8+dirty", "v0.0.0-20261123211048-e53e7140bab8+dirty"},
		{"", "", "devel"},
		{"", "(devel)", "devel"},
	} {
		if got := of(test.linked, test.recorded); got != test.want {
			t.Errorf("of(%q, %q) is %q, want %q", test.linked, test.recorded, got, test.want)
		}
	}
	if String() == "" {
		t.Error("a program without a version")
	}
}

func TestLabel(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "v0.1.0", "v0.0.0-20261123211048-e53e7140bab8+dirty": "v0.0.0-20261123211048-e53e7140bab8_dirty",
		strings.Repeat("x", 62) + "+y": strings.Repeat("x", 62),
	} {
		if got := labelOf(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
