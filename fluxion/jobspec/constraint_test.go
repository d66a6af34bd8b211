// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"strings"
	"testing"
)

type fakeNode struct {
	name       string
	rank       int64
	properties map[string]bool
}

// constraintOf reads a constraint that is not part of a jobspec.
func constraintOf(data []byte) (*Constraint, error) { return read(data, parseConstraint) }

func (n fakeNode) Name() string                 { return n.name }
func (n fakeNode) Rank() int64                  { return n.rank }
func (n fakeNode) HasProperty(name string) bool { return n.properties[name] }

func TestMatch(t *testing.T) {
	target := fakeNode{name: "n3", rank: 7, properties: map[string]bool{"ssd": true, "big": true}}
	cases := map[string]struct {
		constraint string
		want       bool
	}{
		"the empty constraint matches all (RFC 31)":           {`{}`, true},
		"a property that is there (RFC 31)":                   {`{"properties": ["ssd"]}`, true},
		"a property that is not there (RFC 31)":               {`{"properties": ["slow"]}`, false},
		"all properties have to be there (RFC 31)":            {`{"properties": ["ssd", "slow"]}`, false},
		"a property that must not be there, is not (RFC 31)":  {`{"properties": ["^slow"]}`, true},
		"a property that must not be there, and is (RFC 31)":  {`{"properties": ["big", "^ssd"]}`, false},
		"no properties (upstream)":                            {`{"properties": []}`, true},
		"an empty property is never there (upstream)":         {`{"properties": [""]}`, false},
		"and so is always absent (upstream)":                  {`{"properties": ["^"]}`, true},
		"blanks and other signs are allowed (upstream)":       {`{"properties": ["^a b$+"]}`, true},
		"a host that is listed (RFC 31)":                      {`{"hostlist": ["n[1-3]"]}`, true},
		"a host that is not listed (RFC 31)":                  {`{"hostlist": ["n[1-2],m3"]}`, false},
		"a host that is listed in one of two (RFC 31)":        {`{"hostlist": ["n1", "n[2-3]"]}`, true},
		"a host by another number of zeros is another":        {`{"hostlist": ["n03"]}`, false},
		"no hosts (upstream)":                                 {`{"hostlist": []}`, false},
		"an empty host list (upstream)":                       {`{"hostlist": [""]}`, false},
		"a rank that is listed (RFC 31)":                      {`{"ranks": ["0-3,7"]}`, true},
		"a rank that is not listed (RFC 31)":                  {`{"ranks": ["0-6", "8-9"]}`, false},
		"a rank that is listed in one of two (RFC 31)":        {`{"ranks": ["0-6", "2-7"]}`, true},
		"a rank as a number (upstream)":                       {`{"ranks": [7]}`, true},
		"no ranks (upstream)":                                 {`{"ranks": []}`, false},
		"as many ranks as there may be":                       {`{"ranks": ["0-4000000000"]}`, true},
		"and: all (RFC 31)":                                   {`{"and": [{"ranks": ["7"]}, {"hostlist": ["n3"]}]}`, true},
		"and: not all (RFC 31)":                               {`{"and": [{"ranks": ["7"]}, {"hostlist": ["n4"]}]}`, false},
		"and of nothing (RFC 31)":                             {`{"and": []}`, true},
		"or: one (RFC 31)":                                    {`{"or": [{"ranks": ["8"]}, {"hostlist": ["n3"]}]}`, true},
		"or: none (RFC 31)":                                   {`{"or": [{"ranks": ["8"]}, {"hostlist": ["n4"]}]}`, false},
		"or of nothing (upstream; RFC 31 says the contrary)":  {`{"or": []}`, false},
		"not: what matches (RFC 31)":                          {`{"not": [{"properties": ["ssd", "big"]}]}`, false},
		"not: what does not match (RFC 31)":                   {`{"not": [{"properties": ["ssd", "slow"]}]}`, true},
		"not of nothing (RFC 31)":                             {`{"not": []}`, false},
		"not of several is not all of them (upstream)":        {`{"not": [{"ranks": ["7"]}, {"ranks": ["8"]}]}`, true},
		"not of several that all match (upstream)":            {`{"not": [{"ranks": ["7"]}, {"hostlist": ["n3"]}]}`, false},
		"constraints within constraints (RFC 31)":             {`{"and": [{"or": [{"ranks": ["1"]}, {"not": [{"hostlist": ["n1"]}]}]}, {}]}`, true},
		"names that are written at length":                    {`{"hostlist": ["` + strings.Repeat("long-name,", 10000) + `n3"]}`, true},
		"more hosts than there are, but not more than max":    {`{"hostlist": ["n[0-131071]"]}`, true},
		"host lists that have all the room there is together": {`{"or": [{"hostlist": ["m[0-131070]"]}, {"hostlist": ["n3"]}]}`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			constraint, err := constraintOf([]byte(tc.constraint))
			if err != nil {
				t.Fatal(err)
			}
			if got := constraint.Match(target); got != tc.want {
				t.Errorf("%.100s matches %+v: %t, want %t", tc.constraint, target, got, tc.want)
			}
		})
	}
	if !(*Constraint)(nil).Match(target) {
		t.Error("no constraint does not match")
	}
	unranked, err := constraintOf([]byte(`{"ranks": ["0-9"]}`))
	if err != nil || unranked.Match(fakeNode{rank: -1}) {
		t.Errorf("what has no rank matches ranks, %v", err)
	}
}

// flux-jobspec-validate of flux-sched 0.54 refuses these too, except where a comment names a
// stricter source.
func TestParseConstraintRefuses(t *testing.T) {
	cases := map[string]struct {
		text, want string
	}{
		"null":                                 {`null`, "not a mapping"},
		"a list":                               {`[]`, "not a mapping"},
		"two operators":                        {`{"and": [], "or": []}`, "more than one operator"},
		"an unknown operator":                  {`{"xor": []}`, `unknown key "xor"`},
		"an operator with a value, not a list": {`{"ranks": "0"}`, "ranks: not a sequence"},
		"a constraint that is a number":        {`{"and": [1]}`, "and[0]: not a mapping"},
		"not with one constraint, not a list":  {`{"not": {}}`, "not: not a sequence"},
		"a property that is a number":          {`{"properties": ["a", 1]}`, "properties[1]: not a string"},
		"a property with a bar":                {`{"properties": ["a|b"]}`, "properties[0]: "},
		"a property with a quotation mark":     {`{"properties": ["a\"b"]}`, "properties[0]: "},
		"a property with ^ inside":             {`{"properties": ["^a^b"]}`, "properties[0]: "},
		"a property with ^ twice":              {`{"properties": ["^^a"]}`, "properties[0]: "},
		"ranks that fall":                      {`{"ranks": ["3-1"]}`, `ranks[0]: idset "3-1"`},
		"a rank that is null":                  {`{"ranks": [null]}`, "ranks[0]: not a scalar"},
		"a rank that is a list":                {`{"ranks": [[1]]}`, "ranks[0]: not a scalar"},
		"a host list that falls":               {`{"or": [{"hostlist": ["n1", "n[3-1]"]}]}`, "or[0].hostlist[1]: host list"},
		"more hosts than max (own limit)":      {`{"hostlist": ["n[0-131072]"]}`, "more than 131072 hosts"},
		"more hosts in all (own limit)":        {`{"or": [{"hostlist": ["n[0-131071]"]}, {"hostlist": ["m"]}]}`, "or[1].hostlist[0]: "},
		"a name that is too long (own limit)":  {`{"hostlist": ["` + strings.Repeat("n", 256) + `[0-100000]"]}`, "a name is longer than 255"},
		"constraints nested too deeply (own)":  {strings.Repeat(`{"and":[`, 100) + strings.Repeat(`]}`, 100), "nested more than 128 deep"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := constraintOf([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%.100s: error is %v, want it to have %q", tc.text, err, tc.want)
			}
		})
	}
}

// Match allocates nothing, since it is called for every node of a large graph.
func TestMatchDoesNotAllocate(t *testing.T) {
	constraint, err := constraintOf([]byte(`{"and": [{"or": [{"hostlist": ["n[0-9999]"]}, {"ranks": ["0-99,200-300"]}]}, {"properties": ["ssd", "^slow"]}, {"not": [{"ranks": ["7"]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var target Target = &fakeNode{name: "x", rank: 250, properties: map[string]bool{"ssd": true}}
	if !constraint.Match(target) {
		t.Error("does not match, so that not all of it was looked at")
	}
	if n := testing.AllocsPerRun(100, func() { constraint.Match(target) }); n != 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func FuzzParseConstraint(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"properties": ["a", "^b"]}`, `{"hostlist": ["n[0-3,7],m"]}`, `{"ranks": ["0-3,7"]}`,
		`{"and": [{"or": []}, {"not": [{"ranks": [0]}]}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		constraint, err := constraintOf(data)
		if (constraint == nil) == (err == nil) {
			t.Fatalf("%q is %v and error %v", data, constraint, err)
		}
		if err != nil {
			return
		}
		negated, err := constraintOf([]byte(`{"not": [` + string(data) + `]}`))
		target := fakeNode{name: "n1", rank: 3, properties: map[string]bool{"a": true}}
		if err == nil && negated.Match(target) == constraint.Match(target) {
			t.Errorf("%q matches %+v as its negation does", data, target)
		}
	})
}
