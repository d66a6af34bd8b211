// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package version

import "testing"

func TestString(t *testing.T) {
	for _, test := range []struct{ linked, recorded, want string }{
		{"v0.1.0", "v0.0.0-20261123211048-e53e7140bab8", "v0.1.0"},
		{"", "v0.0.0-20261123211048-e53e7140bab8+dirty", "v0.0.0-20261123211048-e53e7140bab8+dirty"},
		{"", "", "(devel)"},
	} {
		if got := of(test.linked, test.recorded); got != test.want {
			t.Errorf("of(%q, %q) is %q, want %q", test.linked, test.recorded, got, test.want)
		}
	}
	if String() == "" {
		t.Error("a program without a version")
	}
}
