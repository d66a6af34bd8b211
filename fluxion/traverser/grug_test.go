// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recipe makes a GRUG recipe of a short text: "rack node" is a node of type rack with
// attributes, and "rack>node 2" is an edge.
func recipe(lines ...string) string {
	const keys = `<graphml>
<key id="root" for="node" attr.name="root"><default>0</default></key>
<key id="type" for="node" attr.name="type"/>
<key id="basename" for="node" attr.name="basename"/>
<key id="k_size" for="node" attr.name="size"><default>1</default></key>
<key id="unit" for="node" attr.name="unit"/>
<key id="subsystem" for="node" attr.name="subsystem"><default>containment</default></key>
<key id="e_subsystem" for="edge" attr.name="e_subsystem"><default>containment</default></key>
<key id="multi_scale" for="edge" attr.name="multi_scale"><default>1</default></key>
<key id="id_scope" for="edge" attr.name="id_scope"><default>0</default></key>
<key id="id_start" for="edge" attr.name="id_start"/>
<key id="id_stride" for="edge" attr.name="id_stride"/>
<key id="gen_method" for="edge" attr.name="gen_method"><default>MULTIPLY</default></key>
<graph id="test">
`
	var out strings.Builder
	out.WriteString(keys)
	for _, line := range lines {
		fields := strings.Fields(line)
		source, target, isEdge := strings.Cut(fields[0], ">")
		if isEdge {
			fmt.Fprintf(&out, "<edge source=%q target=%q>", source, target)
		} else {
			fmt.Fprintf(&out, "<node id=%q><data key=\"type\">%[1]s</data><data key=\"basename\">%[1]s</data>", fields[0])
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			fmt.Fprintf(&out, "<data key=%q>%s</data>", key, value)
		}
		out.WriteString(map[bool]string{true: "</edge>\n", false: "</node>\n"}[isEdge])
	}
	out.WriteString("</graph></graphml>")
	return out.String()
}

// describe writes the path of every vertex, and what is special about it.
func describe(g *Graph) []string {
	var out []string
	for i := range g.vertices {
		v := &g.vertices[i]
		line := fmt.Sprintf("%s %s id=%d uniq=%d rank=%d", g.path(int32(i)), g.kinds[v.kind], v.id, v.uniq, v.rank)
		if v.size != 1 || g.units[int32(i)] != "" {
			line += fmt.Sprintf(" size=%d%s", v.size, g.units[int32(i)])
		}
		if v.name != fmt.Sprintf("%s%d", v.basename, v.id) {
			line += " basename=" + v.basename
		}
		if properties := g.properties[int32(i)]; len(properties) > 0 {
			line += fmt.Sprint(" ", properties)
		}
		out = append(out, line)
	}
	return out
}

func TestReadGRUG(t *testing.T) {
	cases := map[string]struct {
		recipe []string
		want   []string
	}{
		"ids are numbered in the parent, nodes have ranks": {
			[]string{"cluster root=1 basename=c", "node", "memory k_size=4 unit=GB", "cluster>node multi_scale=2", "node>memory multi_scale=2"},
			[]string{
				"/c0 cluster id=0 uniq=0 rank=-1",
				"/c0/node0 node id=0 uniq=1 rank=0",
				"/c0/node1 node id=1 uniq=2 rank=1",
				"/c0/node0/memory0 memory id=0 uniq=3 rank=-1 size=4GB",
				"/c0/node0/memory1 memory id=1 uniq=4 rank=-1 size=4GB",
				"/c0/node1/memory0 memory id=0 uniq=5 rank=-1 size=4GB",
				"/c0/node1/memory1 memory id=1 uniq=6 rank=-1 size=4GB",
			},
		},
		"with a scope, ids go on in the grandparent; with another, further up": {
			[]string{
				"cluster root=1", "rack", "socket", "core", "gpu",
				"cluster>rack multi_scale=2", "rack>socket multi_scale=2", "socket>core id_scope=1", "socket>gpu id_scope=9 id_start=10 id_stride=5",
			},
			[]string{
				"/cluster0 cluster id=0 uniq=0 rank=-1",
				"/cluster0/rack0 rack id=0 uniq=1 rank=-1",
				"/cluster0/rack1 rack id=1 uniq=2 rank=-1",
				"/cluster0/rack0/socket0 socket id=0 uniq=3 rank=-1",
				"/cluster0/rack0/socket1 socket id=1 uniq=4 rank=-1",
				"/cluster0/rack1/socket0 socket id=0 uniq=5 rank=-1",
				"/cluster0/rack1/socket1 socket id=1 uniq=6 rank=-1",
				"/cluster0/rack0/socket0/core0 core id=0 uniq=7 rank=-1",
				"/cluster0/rack0/socket1/core1 core id=1 uniq=8 rank=-1",
				"/cluster0/rack1/socket0/core0 core id=0 uniq=9 rank=-1",
				"/cluster0/rack1/socket1/core1 core id=1 uniq=10 rank=-1",
				"/cluster0/rack0/socket0/gpu10 gpu id=10 uniq=11 rank=-1",
				"/cluster0/rack0/socket1/gpu15 gpu id=15 uniq=12 rank=-1",
				"/cluster0/rack1/socket0/gpu20 gpu id=20 uniq=13 rank=-1",
				"/cluster0/rack1/socket1/gpu25 gpu id=25 uniq=14 rank=-1",
			},
		},
		"below zero there is no id": {
			[]string{"cluster root=1", "pfs", "cluster>pfs id_scope=-1"},
			[]string{"/cluster0 cluster id=0 uniq=0 rank=-1", "/cluster0/pfs pfs id=-1 uniq=1 rank=-1 basename=pfs"},
		},
		"depth goes before the next relation": {
			[]string{"cluster root=1", "rack", "node", "ssd", "cluster>rack", "cluster>ssd", "rack>node"},
			[]string{
				"/cluster0 cluster id=0 uniq=0 rank=-1", "/cluster0/rack0 rack id=0 uniq=1 rank=-1",
				"/cluster0/rack0/node0 node id=0 uniq=2 rank=0", "/cluster0/ssd0 ssd id=0 uniq=3 rank=-1",
			},
		},
		"another subsystem is left out, but counts": {
			[]string{
				"panel root=1 subsystem=power", "power subsystem=power", "n subsystem=power type=node", "cluster root=1", "node",
				"panel>power e_subsystem=power multi_scale=3", "panel>n e_subsystem=power gen_method=ASSOCIATE_IN", "cluster>node",
			},
			[]string{"/cluster0 cluster id=0 uniq=4 rank=-1", "/cluster0/node0 node id=0 uniq=5 rank=0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, err := ReadGRUG(strings.NewReader(recipe(tc.recipe...)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, describe(g)); diff != "" {
				t.Errorf("Vertices (-want, +got):\n%s", diff)
			}
		})
	}
}

func TestReadGRUGRefuses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"no XML":                    {"tiny", "EOF"},
		"no vertices":               {recipe(), "no vertices"},
		"no root":                   {recipe("rack", "node", "rack>node"), "no vertices"},
		"two nodes of one name":     {recipe("rack", "rack"), "there are two"},
		"an edge to nowhere":        {recipe("rack root=1", "rack>node"), "an end is no node"},
		"an undeclared key":         {recipe("rack root=1 color=red"), `no key "color"`},
		"a size that is no number":  {recipe("rack root=1 k_size=big"), `"big"`},
		"less than no children":     {recipe("rack root=1", "node", "rack>node multi_scale=-1"), "-1"},
		"an unknown method":         {recipe("rack root=1", "node", "rack>node gen_method=GROW"), `"GROW"`},
		"a vertex in two places":    {recipe("rack root=1", "node", "rack>node gen_method=ASSOCIATE_IN"), "two places"},
		"no type":                   {recipe("rack root=1", "node type=", "rack>node"), "no type"},
		"too many":                  {recipe("rack root=1", "node", "rack>node multi_scale=100"), "more than"},
		"too many children of many": {recipe("rack root=1", "node", "core", "rack>node multi_scale=20", "node>core multi_scale=20"), "more than"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readGRUG(strings.NewReader(tc.text), 100)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Error is %v, want one with %s", err, tc.want)
			}
		})
	}
}

func FuzzReadGRUG(f *testing.F) {
	f.Add(recipe("cluster root=1", "node", "core", "cluster>node multi_scale=3 id_scope=2", "node>core id_stride=2 id_scope=1"))
	f.Add(recipe("panel root=1 subsystem=power", "n subsystem=power", "panel>n e_subsystem=power gen_method=ASSOCIATE_IN"))
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 1000
		g, err := readGRUG(strings.NewReader(text), limit)
		if err == nil && len(g.vertices) > limit {
			t.Errorf("%d vertices, want no more than %d", len(g.vertices), limit)
		}
	})
}
