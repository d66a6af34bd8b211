// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package idset

import (
	"math"
	"slices"
	"testing"
)

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		text    string
		want    []int64
		encoded string
	}{
		"nothing":                                     {"", nil, ""},
		"nothing in brackets (flux-core)":             {"[]", nil, ""},
		"one id":                                      {"0", []int64{0}, "0"},
		"ids and ranges (RFC 22)":                     {"1-3,5-6,42", []int64{1, 2, 3, 5, 6, 42}, "1-3,5-6,42"},
		"brackets may surround it (RFC 22)":           {"[1-3,5-6,42]", []int64{1, 2, 3, 5, 6, 42}, "1-3,5-6,42"},
		"a list may spell out a range (RFC 22)":       {"1,2,3,5,6,42", []int64{1, 2, 3, 5, 6, 42}, "1-3,5-6,42"},
		"ranges that touch are one":                   {"0-1,2-3", []int64{0, 1, 2, 3}, "0-3"},
		"ids beyond 32 bits, which flux-core has not": {"4294967295", []int64{math.MaxUint32}, "4294967295"},
		"the largest number that there is":            {"9223372036854775806-9223372036854775807", []int64{math.MaxInt64 - 1, math.MaxInt64}, "9223372036854775806-9223372036854775807"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(tc.text, 7)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("Decode(%q) = %v, %v; want %v", tc.text, got, err, tc.want)
			}
			if text := Encode(got); text != tc.encoded {
				t.Errorf("Encode(%v) = %q, want %q", got, text, tc.encoded)
			}
		})
	}
	if ids, err := Decode("0-98,100", 100); err != nil || len(ids) != 100 {
		t.Errorf("as many ids as may be are %d, %v", len(ids), err)
	}
}

// flux-core 0.88 refuses these texts too, except empty elements and sets that are too large.
func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a falling range":                  "3-1",
		"a range of one":                   "1-1",
		"falling ids (RFC 22)":             "2,1",
		"an id twice (RFC 22)":             "1,1",
		"overlapping ranges":               "1-3,2-5",
		"leading zeros (RFC 22)":           "01",
		"zero with leading zeros":          "00",
		"a bracket that stays open":        "[1",
		"a bracket that was not open":      "1]",
		"a bracket alone":                  "[",
		"brackets in brackets":             "[[1]]",
		"brackets side by side":            "[1],[2]",
		"a blank (RFC 22)":                 "1, 2",
		"a plus sign":                      "+1",
		"a minus sign":                     "-1",
		"two minus signs":                  "1--2",
		"a range without an end":           "1-",
		"a range of three":                 "1-2-3",
		"letters":                          "all",
		"digits that are not decimal ones": "٣",
		"an empty element":                 "1,,2",
		"a comma at the end":               "1,",
		"a number that overflows":          "9223372036854775808",
		"more ids than are expected":       "0-4000000000",
		"one more than are expected":       "0-100",
		"more than are expected in two":    "0-98,100-101",
		"as many as there are numbers":     "0-9223372036854775807",
	} {
		t.Run(name, func(t *testing.T) {
			if ids, err := Decode(text, 100); err == nil {
				t.Errorf("Decode(%q) is %d ids, want an error", text, len(ids))
			}
		})
	}
}

func TestEncode(t *testing.T) {
	cases := map[string]struct {
		ids  []int64
		want string
	}{
		"any order, and repetition":        {[]int64{7, 1, 3, 2, 1, 7}, "1-3,7"},
		"two neighbours are a range":       {[]int64{4, 5}, "4-5"},
		"negative ids are left out":        {[]int64{-1, 0, math.MinInt64}, "0"},
		"the ends of the number line":      {[]int64{math.MaxInt64, 0}, "0,9223372036854775807"},
		"nothing":                          {nil, ""},
		"nothing but what is no id at all": {[]int64{-1}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.ids)
			if got := Encode(tc.ids); got != tc.want {
				t.Errorf("Encode(%v) = %q, want %q", tc.ids, got, tc.want)
			}
			if !slices.Equal(before, tc.ids) {
				t.Errorf("Encode changed its argument %v to %v", before, tc.ids)
			}
		})
	}
}

func TestSet(t *testing.T) {
	parse := func(text string) Set {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	set := Union(parse("10-19,40"), parse("0-3,15-24"), parse(""), parse("25,5000000000-9000000000"))
	if got, want := set.String(), "0-3,10-25,40,5000000000-9000000000"; got != want {
		t.Errorf("union is %q, want %q", got, want)
	}
	for id, want := range map[int64]bool{
		-1: false, 0: true, 3: true, 4: false, 9: false, 10: true, 25: true, 26: false, 39: false, 40: true, 41: false,
		4999999999: false, 7000000000: true, 9000000001: false, math.MaxInt64: false,
	} {
		if got := set.Has(id); got != want {
			t.Errorf("%s has %d: %t, want %t", set, id, got, want)
		}
	}
	for text, want := range map[string]int64{"": 0, "7": 1, "0-3,5": 5, "0-9223372036854775806": math.MaxInt64, "0-9223372036854775807": math.MaxInt64} {
		if got := parse(text).Len(); got != want {
			t.Errorf("%q has %d ids, want %d", text, got, want)
		}
	}
	if (Set{}).Has(0) {
		t.Error("the zero set has an id")
	}
	if n := testing.AllocsPerRun(100, func() { set.Has(17) }); n != 0 {
		t.Errorf("Has allocates %v times", n)
	}
}

// Equal sets have the same text, and reading this text gives the same set.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "[]", "0-3,7", "[1-3,5-6,42]", "0-9223372036854775807", "1,,2", "01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(set.String())
		if err != nil || !slices.Equal(again.ranges, set.ranges) {
			t.Fatalf("%q is %v; written as %q it is %v, %v", text, set.ranges, set, again.ranges, err)
		}
		for _, r := range set.ranges {
			if !set.Has(r.first) || !set.Has(r.last) || set.Has(r.first-1) || r.last < math.MaxInt64 && set.Has(r.last+1) {
				t.Fatalf("%q is %v, but Has says otherwise", text, set.ranges)
			}
		}
	})
}

// Decode reads the result of Encode as the sorted ids.
func FuzzEncode(f *testing.F) {
	f.Add([]byte{3, 1, 2, 2, 200})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var ids []int64
		for _, b := range bytes {
			ids = append(ids, int64(b))
		}
		text := Encode(ids)
		got, err := Decode(text, len(ids))
		slices.Sort(ids)
		if ids = slices.Compact(ids); err != nil || !slices.Equal(got, ids) {
			t.Fatalf("%v encoded as %q decodes to %v, %v", ids, text, got, err)
		}
	})
}
