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

// A List says of ranges what the list of all names says.
func TestList(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		text := randomList(random)
		hosts := slices.Collect(mustParse(t, text).All())
		checkList(t, text, hosts)
		twice := slices.ContainsFunc(hosts, func(host string) bool { return occurs(hosts, host) > 1 })
		set := mustParse(t, text).Set()
		if host := set.Twice(); (host != "") != twice || (twice && occurs(hosts, host) < 2) {
			t.Fatalf("seed %d: %q has %q twice, but is %v", seed, text, host, hosts)
		}
		for n := range 130 {
			for _, host := range []string{fmt.Sprint("n", n), fmt.Sprintf("n%03d", n), "n", fmt.Sprint("m", n)} {
				if !twice && set.Has(host) != slices.Contains(hosts, host) {
					t.Fatalf("seed %d: %q has %s: %t", seed, text, host, set.Has(host))
				}
			}
		}
	}
}

// checkList compares a list with its names.
func checkList(t *testing.T, text string, hosts []string) {
	t.Helper()
	list := mustParse(t, text)
	if list.Len() != len(hosts) {
		t.Fatalf("%q has %d hosts, and %v", text, list.Len(), hosts)
	}
	if len(hosts) == 0 {
		return
	}
	others, err := Decode(list.WithoutFirst(), len(hosts))
	if err != nil || !slices.Equal(others, hosts[1:]) {
		t.Fatalf("%q without its first is %q: %v, %v; want %v", text, list.WithoutFirst(), others, err, hosts[1:])
	}
}

// randomList is a list of names that begin with n or m. The same name may be written in several ways.
func randomList(random *rand.Rand) string {
	var elements []string
	for range 1 + random.IntN(3) {
		prefix := []string{"n", "n0", "n1", "m"}[random.IntN(4)]
		if random.IntN(3) == 0 {
			elements = append(elements, prefix)
			continue
		}
		var parts []string
		for range 1 + random.IntN(3) {
			low := random.IntN(110)
			part := fmt.Sprintf("%0*d", random.IntN(4), low)
			if random.IntN(2) == 0 {
				part += fmt.Sprint("-", low+random.IntN(12))
			}
			parts = append(parts, part)
		}
		elements = append(elements, prefix+"["+strings.Join(parts, ",")+"]")
	}
	return strings.Join(elements, ",")
}

func occurs(hosts []string, host string) (times int) {
	for _, other := range hosts {
		if other == host {
			times++
		}
	}
	return times
}

func mustParse(t *testing.T, text string) List {
	t.Helper()
	list, err := Parse(text, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func FuzzParse(f *testing.F) {
	f.Add("node[008-011,003],login")
	f.Add("n1[0-9],n[10-19,5]")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := Parse(text, 1000); err == nil && len(text) < 1000 {
			checkList(t, text, slices.Collect(list.All()))
		}
	})
}
