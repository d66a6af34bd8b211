// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRv1Exec(t *testing.T) {
	cases := map[string]struct {
		r    string
		want []string
	}{
		"nodes, what they have, and properties": {
			`{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"gpu": "0", "core": "1-2"}}],
			  "nodelist": ["n[7-8]"], "properties": {"fast": "1", "here": "0-4000000000"}, "starttime": 0}, "scheduling": {}}`,
			[]string{
				"/cluster0 cluster id=0 uniq=0 rank=-1",
				"/cluster0/n7 node id=7 uniq=1 rank=0 map[here:]",
				"/cluster0/n7/gpu0 gpu id=0 uniq=2 rank=0",
				"/cluster0/n7/core1 core id=1 uniq=3 rank=0",
				"/cluster0/n7/core2 core id=2 uniq=4 rank=0",
				"/cluster0/n8 node id=8 uniq=5 rank=1 map[fast: here:]",
				"/cluster0/n8/gpu0 gpu id=0 uniq=6 rank=1",
				"/cluster0/n8/core1 core id=1 uniq=7 rank=1",
				"/cluster0/n8/core2 core id=2 uniq=8 rank=1",
			},
		},
		"hosts belong to ranks in rising order, whatever the order of the entries": {
			`{"version": 1, "execution": {"R_lite": [{"rank": "9", "children": {}}, {"rank": "3,5", "children": {}}], "nodelist": ["a", "b", "c"]}}`,
			[]string{
				"/cluster0 cluster id=0 uniq=0 rank=-1",
				"/cluster0/c node id=-1 uniq=1 rank=9 basename=c",
				"/cluster0/a node id=-1 uniq=2 rank=3 basename=a",
				"/cluster0/b node id=-1 uniq=3 rank=5 basename=b",
			},
		},
		"several ranks on one host, of a number with zeros": {
			`{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {}}, {"rank": "2", "children": {}}], "nodelist": ["n007,n007", "42"]}}`,
			[]string{
				"/cluster0 cluster id=0 uniq=0 rank=-1",
				"/cluster0/n007 node id=7 uniq=1 rank=0 basename=n",
				"/cluster0/n007 node id=7 uniq=2 rank=1 basename=n",
				"/cluster0/42 node id=42 uniq=3 rank=2 basename=42",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, err := ReadRv1Exec(strings.NewReader(tc.r))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, describe(g)); diff != "" {
				t.Errorf("Vertices (-want, +got):\n%s", diff)
			}
		})
	}
}

func TestReadRv1ExecRefuses(t *testing.T) {
	execution := func(rank, children, hosts string) string {
		return `{"version": 1, "execution": {"R_lite": [{"rank": "` + rank + `", "children": ` + children + `}], "nodelist": ["` + hosts + `"]}}`
	}
	cases := map[string]struct{ r, want string }{
		"no JSON":                      {"R", "invalid character"},
		"more than JSON":               {execution("0", "{}", "n0") + "}", "invalid character"},
		"another version":              {`{"version": 2}`, "version is 2"},
		"no ranks":                     {execution("x", "{}", "n0"), `"x"`},
		"too few hosts":                {execution("0-2", "{}", "n[0-1]"), "no host for rank 2"},
		"a rank twice":                 {`{"version": 1, "execution": {"R_lite": [{"rank": "0"}, {"rank": "0"}], "nodelist": ["n[0-1]"]}}`, "rank 0 is there twice"},
		"hosts that are none":          {execution("0", "{}", "n[0"), "missing ]"},
		"a host with too large an id":  {execution("0", "{}", "n99999999999999999999"), "too large"},
		"children that are no idset":   {execution("0", `{"core": "a-b"}`, "n0"), `"a-b"`},
		"children that are no text":    {execution("0", `{"core": 2}`, "n0"), "number"},
		"a type of children twice":     {execution("0", `{"core": "0", "core": "1"}`, "n0"), "twice"},
		"more ranks than there may be": {execution("0-4000000000", "{}", "n0"), "more than"},
		"more ranks than vertices":     {execution("0-100", "{}", "n0"), "more than"},
		"more hosts, too":              {execution("0", "{}", "n[0-4000000000]"), "more than"},
		"more children, too":           {execution("0", `{"core": "0-100"}`, "n0"), "more than"},
		"more of all together":         {execution("0-20", `{"core": "0-20"}`, "n[0-20]"), "more than"},
		"a property of no ranks":       {`{"version": 1, "execution": {"R_lite": [], "properties": {"fast": "all"}}}`, `property "fast"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readRv1Exec(strings.NewReader(tc.r), 100)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Error is %v, want one with %s", err, tc.want)
			}
		})
	}
}

func FuzzReadRv1Exec(f *testing.F) {
	f.Add(`{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}], "nodelist": ["n[0-1]"], "properties": {"a": "0"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 1000
		g, err := readRv1Exec(strings.NewReader(text), limit)
		if err == nil && len(g.vertices) > limit {
			t.Errorf("%d vertices, want no more than %d", len(g.vertices), limit)
		}
	})
}
