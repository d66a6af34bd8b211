// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"errors"
	"strings"
)

func optionDangers() map[string]danger {
	graph := makeGraph(2, 2).text()
	option := func(want, key string, value any) danger {
		return initialized(want, graph, asJSON(map[string]any{"load_format": "jgf", key: value}))
	}
	return map[string]danger{
		"unknown matcher_name":      option(crashes, "matcher_name", "XA"),
		"empty matcher_name":        option(crashes, "matcher_name", ""),
		"number for a string":       option(crashes, "prune_filters", 5),
		"null for a string":         option(crashes, "match_format", nil),
		"unknown traverser_policy":  option(crashes, "traverser_policy", "clever"),
		"policy word without value": option(crashes, "matcher_policy", "policy=high node_centric"),
		"negative reserve":          option(crashes, "reserve_vtx_vec", -1),
		"filters not at the root":   option(crashes, "prune_filters", "node:core"),
		"unknown match_format":      option(survives, "match_format", "xml"),
		"misspelt option":           option(survives, "prune-filters", "ALL:core"),
		"unknown policy":            option(survives, "matcher_policy", "best"),
		"no load_format":            initialized(survives, makeGraph(1, 1).text(), "{}"),
		"options no object":         initialized(survives, makeGraph(1, 1).text(), "[]"),
		"empty options":             initialized(survives, makeGraph(1, 1).text(), ""),
		"rv1 without ranks":         rv1WithoutRanks(),
	}
}

func rv1WithoutRanks() danger {
	const options = `{"load_format": "jgf", "match_format": "rv1"}`
	d := makeGraph(2, 2)
	for i := range d.Graph.Nodes {
		d.with(i, "rank", -1)
	}
	return danger{
		want: loses,
		raw: func(r raw) bool {
			r.init(d.text(), options)
			rc, _ := r.allocate(makeJobspec(2, 2, 0))
			var found *byte
			format := []byte("jgf\x00")
			r.find(r.context, "sched-now=allocated", &format[0], &found)
			return rc == 0 || r.take(found) == "" // the match fails, and all is allocated
		},
		checked: func(c *Client) error { return c.InitContext(d.text(), options) },
	}
}

func graphDangers() map[string]danger {
	graph := func(d *document) danger { return initialized(crashes, d.text(), jgfOptions) }
	one := func(vertex int, key string, value any) danger { return graph(makeGraph(1, 1).with(vertex, key, value)) }
	largeID := makeGraph(1, 1)
	largeID.Graph.Nodes[0].ID = strings.Repeat("9", 30)
	twoWay := makeGraph(2, 2).twoWay().text()
	return map[string]danger{
		"empty graph":             initialized(survives, "", jgfOptions),
		"graph no object":         initialized(survives, "[]", jgfOptions),
		"path null":               one(2, "paths", map[string]any{"containment": nil}),
		"property null":           one(2, "properties", map[string]any{"a": nil}),
		"property of a number":    one(2, "properties", map[string]any{"a": 1}),
		"id too large":            graph(largeID),
		"name with a long number": one(1, "name", "node"+strings.Repeat("1", 30)),
		"long name":               one(1, "name", strings.Repeat("1", 200000)+"x"),
		"root alone":              graph(makeGraph(0, 0)),
		"edges back":              graph(makeGraph(2, 2).twoWay()),
		"cycle":                   graph(makeGraph(2, 2).link("2", "1")),
		"root of another type": initialized(
			crashes, makeGraph(2, 2).with(0, "type", "rack").text(), `{"load_format": "jgf", "prune_filters": ""}`),
		"edges back, partial cancel": {
			want: hangs,
			raw: func(r raw) bool {
				r.init(twoWay, jgfOptions)
				r.allocate(makeJobspec(2, 2, 0))
				var full bool
				r.partial(r.context, 1, ranksOnly, false, &full)
				return true
			},
			checked: func(c *Client) error { return c.InitContext(twoWay, jgfOptions) },
		},
		"second initialize": on(survives, func(r raw) bool {
			return r.init(makeGraph(2, 2).text(), jgfOptions) // the first graph leaks
		}, func(c *Client) error {
			return c.InitContext(makeGraph(2, 2).text(), jgfOptions)
		}).because(ErrState),
		"destroy of nothing": {
			want: crashes,
			raw:  func(r raw) bool { r.destroy(0); return true },
			checked: func(c *Client) error {
				c.Destroy()
				c.Destroy()
				return ErrInvalid
			},
		},
	}
}

func jobDangers() map[string]danger {
	jobspec := func(count any) danger {
		text := makeJobspec(count, 1, 0)
		return on(hangs, func(r raw) bool {
			r.allocate(text)
			return true
		}, func(c *Client) error {
			_, err := c.Match(MatchAllocate, text)
			return err
		})
	}
	return map[string]danger{
		"counts doubled for ever": jobspec(span(1, 1<<32-1, "*", 2)),
		"counts times 2^30":       jobspec(span(4, 10, "*", 1<<30)),
		"counts squared for ever": jobspec(span(2, 1<<32-1, "^", 2)),
		"job id past int64": on(loses, func(r raw) bool {
			r.allocateAs(1<<63, makeJobspec(1, 2, 0))
			return r.cancel(r.context, 1<<63, false) == 0
		}, func(c *Client) error {
			_, err := c.MatchWithJobid(MatchAllocate, 1<<63, makeJobspec(1, 2, 0))
			return err
		}),
		"job id twice": on(loses, func(r raw) bool {
			r.allocate(makeJobspec(1, 1, 0))
			r.allocate(makeJobspec(1, 1, 0))
			r.cancel(r.context, 1, false)
			free := true
			for jobid := uint64(2); jobid < 6; jobid++ {
				rc, _ := r.allocateAs(jobid, makeJobspec(1, 1, 0))
				free = free && rc == 0
			}
			return free
		}, func(c *Client) error {
			_, err := c.MatchWithJobid(MatchAllocate, 1, makeJobspec(1, 1, 0))
			if err == nil {
				_, err = c.MatchWithJobid(MatchAllocate, 1, makeJobspec(1, 1, 0))
			}
			return err
		}).because(ErrExists),
	}
}

// coreWith is R of the first core alone, with paths that are wrong.
func coreWith(paths string) string {
	d := makeGraph(2, 2).with(2, "exclusive", true).with(2, "paths", json.RawMessage(paths))
	d.Graph.Nodes, d.Graph.Edges = d.Graph.Nodes[2:3], []*link{}
	return asJSON(map[string]any{"version": 1, "execution": map[string]any{}, "scheduling": d})
}

// These are paths of coreWith.
const (
	noPath      = `{}`
	foreignPath = `{"containment": "/cluster0/node0/core0", "x": "/y"}`
	nullPath    = `{"containment": null}`
)

func updateDangers() map[string]danger {
	update := func(want, text string) danger {
		return on(want, func(r raw) bool {
			var at int64
			var overhead float64
			var out *byte
			r.update(r.context, 7, text, &at, &overhead, &out)
			rc, _ := r.allocate(makeJobspec(2, 2, 0))
			return rc == 0
		}, func(c *Client) error {
			_, err := c.UpdateAllocate(7, text)
			return err
		})
	}
	unconnected := makeGraph(1, 2).with(2, "exclusive", true).with(3, "exclusive", true)
	unconnected.Graph.Nodes, unconnected.Graph.Edges = unconnected.Graph.Nodes[2:], []*link{}
	return map[string]danger{
		"update without paths":           update(crashes, coreWith(noPath)),
		"update of an unknown subsystem": update(crashes, coreWith(foreignPath)),
		"update with a path null":        update(crashes, coreWith(nullPath)),
		"update without edges":           update(loses, unconnected.text()),
	}
}

func partDangers() map[string]danger {
	cancelPart := func(want, text string) danger {
		return on(want, func(r raw) bool {
			r.allocate(makeJobspec(1, 2, 0))
			var full bool
			r.partial(r.context, 1, text, false, &full)
			return true
		}, func(c *Client) error {
			_, err := c.PartialCancel(1, text, false)
			return err
		})
	}
	return map[string]danger{
		"partial cancel without paths":  cancelPart(crashes, coreWith(noPath)),
		"partial cancel of a subsystem": cancelPart(crashes, coreWith(foreignPath)),
		"partial cancel, path null":     cancelPart(crashes, coreWith(nullPath)),
		"partial cancel of all of R": on(loses, func(r raw) bool {
			_, set := r.allocate(makeJobspec(1, 2, 0))
			var full bool
			r.partial(r.context, 1, `{"scheduling": `+rootOf(set)+`}`, false, &full)
			return r.cancel(r.context, 1, false) == 0
		}, func(c *Client) error {
			job, err := c.Match(MatchAllocate, makeJobspec(1, 2, 0))
			if err != nil {
				return err
			}
			_, err = c.PartialCancel(job.JobID, `{"scheduling": `+rootOf(job.R)+`}`, false)
			return err
		}),
	}
}

// rootOf is a resource set of the root of a resource set alone.
func rootOf(set string) string {
	at := strings.Index(set, `, "edges"`)
	nodes := strings.Split(strings.TrimSuffix(strings.TrimPrefix(set[:at], `{"graph": {"nodes": [`), "]"), `}}, {"id"`)
	root := nodes[len(nodes)-1]
	return `{"graph": {"nodes": [{"id"` + strings.TrimPrefix(root, `{"id"`) + `], "edges": []}}`
}

func changeDangers() map[string]danger {
	remove := func(want string, paths ...string) danger {
		return on(want, func(r raw) bool {
			for _, path := range paths {
				r.remove(r.context, path)
			}
			return true
		}, func(c *Client) error {
			var err error
			for _, path := range paths {
				err = c.RemoveSubgraph(path)
			}
			return err
		})
	}
	add := func(want string, d *document) danger {
		text := d.text()
		return on(want, func(r raw) bool {
			r.add(r.context, text)
			return true
		}, func(c *Client) error { return c.AddSubgraph(text) })
	}
	at := func(path string) map[string]any { return map[string]any{"containment": path} }
	return map[string]danger{
		"remove the last child": remove(hangs, "/cluster0/node0", "/cluster0/node1"),
		"remove the last core":  remove(hangs, "/cluster0/node0/core0", "/cluster0/node0/core1"),
		"remove the root":       remove(survives, "/cluster0"),
		"remove nothing known":  remove(survives, "/cluster0/node7").because(ErrNotFound),

		"add a path null":   add(crashes, makeGraph(3, 2).with(7, "paths", map[string]any{"containment": nil})),
		"add a long number": add(crashes, makeGraph(3, 2).with(7, "name", "node"+strings.Repeat("1", 30))),
		"add another root": add(survives,
			makeGraph(1, 1).with(0, "paths", at("/b")).with(1, "paths", at("/b/c")).with(2, "paths", at("/b/c/d"))),
		"add after looking ahead": addAfterLookingAhead(),
	}
}

func addAfterLookingAhead() danger {
	ahead, more := makeJobspec(1, 3, 0), makeGraph(3, 2).text() // no node has three cores
	return on(crashes, func(r raw) bool {
		r.matchAs(MatchWithoutAllocatingFuture, NoJob, ahead)
		r.add(r.context, more)
		r.matchAs(MatchWithoutAllocatingFuture, NoJob, ahead)
		return true
	}, func(c *Client) error {
		if _, err := c.Match(MatchWithoutAllocatingFuture, ahead); !errors.Is(err, ErrUnsatisfiable) {
			return err
		}
		return c.AddSubgraph(more)
	}).because(ErrState)
}
