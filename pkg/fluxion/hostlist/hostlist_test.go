// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package hostlist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	cases := map[string]struct {
		hosts []string
		want  string
	}{
		"nothing":                              {nil, ""},
		"one host is itself":                   {[]string{"node-003"}, "node-003"},
		"a run is a range":                     {[]string{"n8", "n9", "n10"}, "n[8-10]"},
		"leading zeros are kept":               {[]string{"n008", "n009", "n010"}, "n[008-010]"},
		"order is kept":                        {[]string{"n3", "n0", "n1", "n2"}, "n[3,0-2]"},
		"repetition is kept":                   {[]string{"n3", "n3", "n4"}, "n[3,3-4]"},
		"a change of width breaks a range":     {[]string{"n09", "n10", "n011"}, "n[09-10,011]"},
		"other prefixes are further elements":  {[]string{"a1", "a2", "b2", "a3"}, "a[1-2],b2,a3"},
		"names without a number are as is":     {[]string{"login", "login", "n1"}, "login,login,n1"},
		"digits inside a name are no number":   {[]string{"ip-10-0-0-1.internal", "ip-10-0-0-2.internal"}, "ip-10-0-0-1.internal,ip-10-0-0-2.internal"},
		"a MiniCluster's hosts, lead first":    {[]string{"lmp-0-0-0", "lmp-w-0-0", "lmp-w-0-1", "lmp-w-0-2"}, "lmp-0-0-0,lmp-w-0-[0-2]"},
		"a number too long to count is a name": {[]string{"n" + strings.Repeat("9", 30)}, "n" + strings.Repeat("9", 30)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Encode(tc.hosts)
			if got != tc.want {
				t.Errorf("Encode(%v) = %q, want %q", tc.hosts, got, tc.want)
			}
			back, err := Decode(got, len(tc.hosts))
			if err != nil || !slices.Equal(back, tc.hosts) {
				t.Errorf("Decode(%q) = %v, %v; want %v", got, back, err, tc.hosts)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a bracket that stays open":    "n[1-3",
		"a bracket that was not open":  "n1]",
		"brackets in brackets":         "n[1[2]]",
		"a falling range":              "n[3-1]",
		"letters in a range":           "n[a-b]",
		"an empty range":               "n[]",
		"an empty name":                "a,,b",
		"a comma at the end":           "a,",
		"text after a bracket":         "n[1-2]x",
		"a number that overflows":      "n[0-9999999999999999999]",
		"more hosts than are expected": "n[0-100]",
		"more bytes than fit":          strings.Repeat("n", 1<<20) + "[0-99]",
		"signs":                        "n[+1-+2]",
	} {
		t.Run(name, func(t *testing.T) {
			if hosts, err := Decode(text, 100); err == nil {
				t.Errorf("Decode(%.100q) = %.100v, want an error", text, hosts)
			}
		})
	}
}

// Decode returns the names that Encode was given, whatever these names are.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		hosts := make([]string, random.IntN(20))
		for i := range hosts {
			hosts[i] = fmt.Sprintf("%s%0*d", []string{"n", "n0", "rack1-", "a.b"}[random.IntN(4)], random.IntN(4), random.IntN(12))
			if i > 0 && random.IntN(2) == 0 {
				prefix, digits := split(hosts[i-1])
				hosts[i] = prefix + successor(digits)
			}
		}
		text := Encode(hosts)
		back, err := Decode(text, len(hosts))
		if err != nil || !slices.Equal(back, hosts) {
			t.Fatalf("seed %d: %v encoded as %q decodes to %v, %v", seed, hosts, text, back, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("node[008-011,003],login")
	f.Add("a[1-2],b[0-0]")
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := Decode(text, 1000)
		if err != nil {
			return
		}
		again, err := Decode(Encode(hosts), 1000)
		if err != nil || !slices.Equal(again, hosts) {
			t.Errorf("%q is %v; encoded again %q it is %v, %v", text, hosts, Encode(hosts), again, err)
		}
	})
}
