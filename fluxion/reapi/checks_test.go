// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkError checks that the text of an error has a part. Without a part, there must be no error.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("no error, want %q", want)
	case err != nil && want == "":
		t.Errorf("unexpected error: %v", err)
	case err != nil && !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestCheckOptions(t *testing.T) {
	with := func(key string, value any) string {
		return asJSON(map[string]any{"load_format": "jgf", key: value})
	}
	for name, test := range map[string]struct{ options, wantError string }{
		"least":                      {jgfOptions, ""},
		"empty text":                 {"", "empty"},
		"no object":                  {"[1]", "no JSON object"},
		"NUL":                        {"{\"load_format\": \"jgf\"}\x00", "NUL"},
		"trailing text":              {jgfOptions + "x", "invalid character"},
		"no load_format":             {"{}", "load_format must be"},
		"other load_format":          {`{"load_format": "hwloc"}`, "not supported"},
		"null":                       {with("matcher_name", nil), "null"},
		"number for a string":        {with("prune_filters", 5), "cannot unmarshal"},
		"misspelt":                   {with("prune-filters", "ALL:core"), "no such option"},
		"matcher_name":               {with("matcher_name", "ca"), ""},
		"unknown matcher_name":       {with("matcher_name", "Ca"), "not supported"},
		"other matcher_name":         {with("matcher_name", "C+PA"), "not supported"},
		"unknown traverser_policy":   {with("traverser_policy", "clever"), "not supported"},
		"unknown match_format":       {with("match_format", "xml"), "not supported"},
		"rlite":                      {with("match_format", "rlite"), "not supported"},
		"named policy":               {with("matcher_policy", "lonodex"), ""},
		"unknown policy":             {with("matcher_policy", "best"), "not supported"},
		"custom policy":              {with("matcher_policy", "policy=low node_centric=true node_exclusive=false"), ""},
		"policy word without value":  {with("matcher_policy", "policy=high node_centric"), "not supported"},
		"policy alone":               {with("matcher_policy", "policy"), "not supported"},
		"policy without direction":   {with("matcher_policy", "node_centric=true"), "not supported"},
		"policy with two blanks":     {with("matcher_policy", "policy=high  node_centric=true"), "not supported"},
		"policy of unknown word":     {with("matcher_policy", "policy=high fast=true"), "not supported"},
		"filters":                    {with("prune_filters", "ALL:core,rack:gpu"), ""},
		"no filters":                 {with("prune_filters", ""), ""},
		"filters not at the root":    {with("prune_filters", "node:core"), "not supported"},
		"filters of the root":        {with("prune_filters", "node:core,cluster:core"), ""},
		"filter without a type":      {with("prune_filters", "ALL:core,"), "not supported"},
		"filter of three":            {with("prune_filters", "ALL:core:gpu"), "not supported"},
		"reserve":                    {with("reserve_vtx_vec", 2000000), ""},
		"reserve too many":           {with("reserve_vtx_vec", 2000001), "not a number"},
		"reserve fewer than nothing": {with("reserve_vtx_vec", -1), "not a number"},
		"elapse_time":                {with("elapse_time", true), ""},
		"elapse_time of text":        {with("elapse_time", "yes"), "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := checkOptions(test.options)
			checkError(t, err, test.wantError)
		})
	}
}

// graphCase is a graph, and a part of the error of its check.
type graphCase struct {
	graph     *document
	wantError string
}

// bent is a graph of some nodes of some cores, with a change.
func bent(nodes, cores int, bend func(d *document)) *document {
	d := makeGraph(nodes, cores)
	bend(d)
	return d
}

// chain is a graph of so many levels.
func chain(levels int) *document {
	return bent(1, 0, func(d *document) {
		path := "/cluster0/node0"
		for range levels - 2 {
			path += "/x"
			d.vertex(fmt.Sprint(len(d.Graph.Nodes)-1), "x", path, 0)
		}
	})
}

// shapeCases are about the shape of graphs.
func shapeCases() map[string]graphCase {
	path := func(value any) map[string]any { return map[string]any{"containment": value} }
	withPaths := func(value any) *document { return makeGraph(1, 1).with(1, "paths", value) }
	power := map[string]any{"subsystem": "power"}
	return map[string]graphCase{
		"two nodes":            {makeGraph(2, 2), ""},
		"as deep as may be":    {chain(maxDepth), ""},
		"too deep":             {chain(maxDepth + 1), "levels deep"},
		"edges back":           {makeGraph(2, 2).twoWay(), "no tree"},
		"edge to itself":       {makeGraph(2, 2).link("1", "1"), "no tree"},
		"edge missing":         {bent(1, 1, func(d *document) { d.Graph.Edges = d.Graph.Edges[:1] }), "no tree"},
		"one edge twice":       {bent(2, 0, func(d *document) { d.Graph.Edges[1] = d.Graph.Edges[0] }), "once"},
		"edge from elsewhere":  {bent(2, 1, func(d *document) { d.Graph.Edges[3].Source = "1" }), "not from a parent"},
		"edge to nowhere":      {bent(1, 1, func(d *document) { d.Graph.Edges[1].Target = "9" }), "not from a parent"},
		"edge of power":        {bent(1, 0, func(d *document) { d.Graph.Edges[0].Metadata = power }), "not in the"},
		"no vertex":            {&document{}, "no tree"},
		"two roots":            {withPaths(path("/other0")), "no tree"},
		"root alone":           {makeGraph(0, 0), "nothing below"},
		"root of another type": {makeGraph(1, 1).with(0, "type", "rack"), "not cluster"},

		"path null":               {withPaths(path(nil)), "not one path"},
		"path of a number":        {withPaths(path(5)), "cannot unmarshal"},
		"no path":                 {withPaths(map[string]any{}), "not one path"},
		"path of power":           {withPaths(map[string]any{"power": "/a"}), "not one path"},
		"relative path":           {withPaths(path("a")), "does not start"},
		"path with a slash after": {withPaths(path("/cluster0/")), "ends with"},
		"path twice":              {makeGraph(2, 0).with(2, "paths", path("/cluster0/node0")), "twice"},
	}
}

// vertexCases are about the fields of vertices.
func vertexCases() map[string]graphCase {
	with := func(key string, value any) *document { return makeGraph(1, 1).with(1, key, value) }
	property := func(value any) *document { return with("properties", map[string]any{"a": value}) }
	uniq := bent(1, 0, func(d *document) {
		d.with(1, "uniq_id", 7)
		d.Graph.Nodes[1].ID, d.Graph.Edges[0].Target = "a", "a"
	})
	long := strings.Repeat("9", 30)
	return map[string]graphCase{
		"id twice":                {bent(2, 0, func(d *document) { d.Graph.Nodes[2].ID = "1" }), "twice"},
		"id too large":            {bent(1, 0, func(d *document) { d.Graph.Nodes[1].ID = long }), "id is no number"},
		"id of a number":          {bent(1, 0, func(d *document) { d.Graph.Nodes[1].ID = 1 }), "cannot unmarshal"},
		"id with uniq_id":         {uniq, ""},
		"property":                {property(""), ""},
		"property null":           {property(nil), "property"},
		"property of a number":    {property(1), "cannot unmarshal"},
		"name with a number":      {with("name", "node"+strings.Repeat("1", 18)), ""},
		"name with a long number": {with("name", "node"+strings.Repeat("1", 20)), "too long a number"},
		"long number, but an id":  {with("name", "node"+strings.Repeat("1", 20)).with(1, "id", 0), ""},
		"long name":               {with("name", strings.Repeat("a", maxName+1)), "longer"},
		"rank not needed":         {with("rank", -1), ""},
	}
}

func TestCheckGraph(t *testing.T) {
	for _, cases := range []map[string]graphCase{shapeCases(), vertexCases()} {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				_, err := checkGraph(test.graph.text(), false)
				checkError(t, err, test.wantError)
			})
		}
	}
	_, err := checkGraph(makeGraph(2, 2).text(), true)
	checkError(t, err, "")
	_, err = checkGraph(makeGraph(1, 1).with(1, "rank", -1).text(), true)
	checkError(t, err, "no rank")
	for text, wantError := range map[string]string{
		"": "empty", "[]": "no JSON object", "5": "no JSON object", "{": "unexpected end",
		"{}": "no graph", `{"graph": null}`: "no graph", `{"graph": 5}`: "cannot unmarshal", "{}\x00": "NUL",
		`{"graph": {"nodes": [{}], "edges": []}}`: "not one path",
	} {
		_, err := checkGraph(text, false)
		checkError(t, err, wantError)
	}
}

// span is a range of counts.
func span(low, high uint, operator string, operand uint) any {
	return map[string]any{"min": low, "max": high, "operator": operator, "operand": operand}
}

func TestCheckJobspec(t *testing.T) {
	for name, test := range map[string]struct {
		count     any
		wantError string
	}{
		"number":                   {4, ""},
		"negative":                 {-1, "no whole number"},
		"past 32 bits":             {1 << 32, "no whole number"},
		"text":                     {"4", "no whole number"},
		"null":                     {nil, ""},
		"min":                      {map[string]any{"min": 2}, ""},
		"min of text":              {map[string]any{"min": "2"}, "cannot unmarshal"},
		"sum":                      {span(1, 1<<32-1, "+", 1<<31), ""},
		"product":                  {span(1, 1<<30, "*", 2), ""},
		"product past 32 bits":     {span(1, 1<<31, "*", 2), "past 32 bits"},
		"product of a large step":  {span(4, 10, "*", 1<<30), "past 32 bits"},
		"power":                    {span(2, 1<<15, "^", 2), ""},
		"power past 32 bits":       {span(2, 1<<16, "^", 2), "past 32 bits"},
		"power of a large operand": {span(2, 3, "^", 1<<31), "past 32 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			checkError(t, checkJobspec(makeJobspec(test.count, 1, 0)), test.wantError)
			checkError(t, checkJobspec(makeJobspec(1, test.count, 0)), test.wantError)
		})
	}
	for text, wantError := range map[string]string{
		"": "empty", "version: 1": "no JSON object", "[]": "no JSON object", "{}\x00": "NUL", "{}": "",
		`{"resources": 5}`: "cannot unmarshal", `{"resources": [{}]}`: "no whole number",
	} {
		checkError(t, checkJobspec(text), wantError)
	}
}

func TestCheckResourceSets(t *testing.T) {
	set := func(d *document) string { return asJSON(map[string]any{"version": 1, "scheduling": d}) }
	paths := func(paths map[string]any) string { return set(makeGraph(1, 1).with(0, "paths", paths)) }
	null := makeGraph(1, 1).with(0, "properties", map[string]any{"a": nil})
	leaf := func(exclusive any) *document {
		d := makeGraph(1, 1).with(2, "exclusive", exclusive)
		d.Graph.Nodes, d.Graph.Edges = d.Graph.Nodes[2:], nil
		return d
	}
	for name, test := range map[string]struct{ r, wantUpdate, wantPart string }{
		"empty":                {"", "empty", "empty"},
		"no object":            {"[]", "no JSON object", "no JSON object"},
		"ranks":                {ranksOnly, "", ""},
		"scheduling of a list": {`{"scheduling": [1]}`, "cannot unmarshal", "cannot unmarshal"},
		"bare tree":            {makeGraph(1, 1).text(), "", "not held exclusively"},
		"tree":                 {set(makeGraph(1, 1)), "", "not held exclusively"},
		"one exclusive core":   {set(leaf(true)), "no tree", ""},
		"one shared core":      {set(leaf(false)), "no tree", "not held exclusively"},
		"unknown subsystem":    {paths(map[string]any{"containment": "/a", "b": "/c"}), "not one path", "not one path"},
		"no paths":             {paths(map[string]any{}), "not one path", "not one path"},
		"property null":        {set(null), "property", "property"},
	} {
		t.Run(name, func(t *testing.T) {
			checkError(t, checkUpdate(test.r), test.wantUpdate)
			checkError(t, checkPart(test.r), test.wantPart)
		})
	}
}

func TestCheckFind(t *testing.T) {
	checkError(t, checkFind("status=up", "jgf"), "")
	checkError(t, checkFind("", "jgf"), "empty")
	checkError(t, checkFind("status=up\x00", "jgf"), "NUL")
	checkError(t, checkFind(strings.Repeat("(", maxCriteria+1), "jgf"), "more than")
	for _, format := range []string{"simple", "pretty_simple", "rlite", "xml"} {
		checkError(t, checkFind("status=up", format), "not supported")
	}
}

func TestCheckJobID(t *testing.T) {
	for jobid, wantError := range map[uint64]string{
		0: "not from", 1: "", 1<<63 - 1: "", 1 << 63: "not from", NoJob: "not from",
	} {
		checkError(t, checkJobID(jobid), wantError)
	}
}

func TestTree(t *testing.T) {
	read := func(d *document) tree {
		t.Helper()
		out, err := checkGraph(d.text(), false)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	graph, grown := read(makeGraph(2, 1)), read(makeGraph(3, 2))
	checkError(t, graph.accepts(grown), "")
	checkError(t, graph.accepts(read(makeGraph(3, 2).with(1, "rank", 5))), "has rank 0, not 5")
	other := makeGraph(1, 0).
		with(0, "paths", map[string]any{"containment": "/a"}).with(1, "paths", map[string]any{"containment": "/a/b"})
	checkError(t, graph.accepts(read(other)), "another root")

	graph.add(grown)
	if diff := cmp.Diff(grown, graph, cmp.AllowUnexported(place{})); diff != "" {
		t.Errorf("grown (-want +got):\n%s", diff)
	}
	graph.remove("/cluster0/node2")
	graph.remove("/cluster0/node0/core1")
	graph.remove("/cluster0/node1/core0")
	want := tree{
		"/cluster0": {2, -1}, "/cluster0/node0": {1, 0}, "/cluster0/node0/core0": {0, 0},
		"/cluster0/node1": {1, 1}, "/cluster0/node1/core1": {0, 1},
	}
	if diff := cmp.Diff(want, graph, cmp.AllowUnexported(place{})); diff != "" {
		t.Errorf("shrunk (-want +got):\n%s", diff)
	}
	for path, want := range map[string]error{
		"/cluster0/node0": nil, "/cluster0/node0/core0": ErrInvalid, "/cluster0": ErrInvalid,
		"/cluster0/node2": ErrNotFound, "": ErrNotFound,
	} {
		if err := graph.removable("remove", path); !errors.Is(err, want) {
			t.Errorf("removable %q: %v, want %v", path, err, want)
		}
	}
}
