// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What becomes of a process that hands the library what this package refuses.
const (
	crashes  = "crashes"
	hangs    = "hangs"
	loses    = "loses resources"
	survives = "survives"
)

// raw is the library without checks, in a process of its own.
type raw struct {
	*Library
	context uintptr
}

func (r raw) init(graph, options string) bool {
	return r.initialize(r.context, graph, options) == 0
}

func (r raw) allocate(jobspec string) (rc int32, set string) { return r.allocateAs(1, jobspec) }

func (r raw) allocateAs(jobid uint64, jobspec string) (rc int32, set string) {
	return r.matchAs(MatchAllocate, jobid, jobspec)
}

func (r raw) matchAs(op MatchOp, jobid uint64, jobspec string) (rc int32, set string) {
	var text *byte
	var reserved bool
	var at int64
	var overhead float64
	rc = r.match(r.context, int32(op), jobspec, jobid, &reserved, &text, &at, &overhead)
	return rc, r.take(text)
}

// danger is an input, raw and through the package. A raw one returns false for
// resources that are lost.
type danger struct {
	want    string
	raw     func(r raw) bool
	checked func(c *Client) error
	// reason is ErrInvalid if not given.
	reason error
}

// initialized is a danger in InitContext; it is raw followed by a match that looks
// ahead and a mark, which walk the graph.
func initialized(want, graph, options string) danger {
	return danger{
		want: want,
		raw: func(r raw) bool {
			if r.init(graph, options) {
				r.matchAs(MatchAllocateOrElseReserve, 1, makeJobspec(99, 1, 0))
				r.setStatus(r.context, "/cluster0/node0", int32(StatusDown))
			}
			return true
		},
		checked: func(c *Client) error { return c.InitContext(graph, options) },
	}
}

// on is a danger on a graph of two nodes of two cores.
func on(want string, unchecked func(r raw) bool, checked func(c *Client) error) danger {
	graph := makeGraph(2, 2).text()
	return danger{
		want: want,
		raw:  func(r raw) bool { return !r.init(graph, jgfOptions) || unchecked(r) },
		checked: func(c *Client) error {
			if err := c.InitContext(graph, jgfOptions); err != nil {
				return err
			}
			return checked(c)
		},
	}
}

func dangers() map[string]danger {
	option := func(want, key string, value any) danger {
		return initialized(want, makeGraph(2, 2).text(), asJSON(map[string]any{"load_format": "jgf", key: value}))
	}
	graph := func(d *document) danger { return initialized(crashes, d.text(), jgfOptions) }
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
	span := func(low, high uint, operator string, operand uint) any {
		return map[string]any{"min": low, "max": high, "operator": operator, "operand": operand}
	}
	// R of the first core alone, with paths that are wrong.
	bad := func(paths string) string {
		d := makeGraph(2, 2).with(2, "exclusive", true).with(2, "paths", json.RawMessage(paths))
		d.Graph.Nodes, d.Graph.Edges = d.Graph.Nodes[2:3], []*link{}
		return asJSON(map[string]any{"version": 1, "execution": map[string]any{}, "scheduling": d})
	}
	none, foreign, null := bad(`{}`), bad(`{"containment": "/cluster0/node0/core0", "x": "/y"}`), bad(`{"containment": null}`)
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
	remove := func(want string, reason error, paths ...string) danger {
		d := on(want, func(r raw) bool {
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
		d.reason = reason
		return d
	}
	add := func(want string, d *document) danger {
		text := d.text()
		return on(want, func(r raw) bool {
			r.add(r.context, text)
			return true
		}, func(c *Client) error { return c.AddSubgraph(text) })
	}
	ranked := makeGraph(2, 2).with(1, "rank", -1).with(2, "rank", -1).with(3, "rank", -1).with(4, "rank", -1).with(5, "rank", -1).with(6, "rank", -1)
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
		"empty graph":               initialized(survives, "", jgfOptions),
		"graph no object":           initialized(survives, "[]", jgfOptions),

		"path null":               graph(makeGraph(1, 1).with(2, "paths", map[string]any{"containment": nil})),
		"property null":           graph(makeGraph(1, 1).with(2, "properties", map[string]any{"a": nil})),
		"property of a number":    graph(makeGraph(1, 1).with(2, "properties", map[string]any{"a": 1})),
		"id too large":            graph(func() *document { d := makeGraph(1, 1); d.Graph.Nodes[0].ID = strings.Repeat("9", 30); return d }()),
		"name with a long number": graph(makeGraph(1, 1).with(1, "name", "node"+strings.Repeat("1", 30))),
		"long name":               graph(makeGraph(1, 1).with(1, "name", strings.Repeat("1", 200000)+"x")),
		"root alone":              graph(makeGraph(0, 0)),
		"edges back":              graph(makeGraph(2, 2).twoWay()),
		"cycle":                   graph(makeGraph(2, 2).link("2", "1")),
		"root of another type":    initialized(crashes, makeGraph(2, 2).with(0, "type", "rack").text(), `{"load_format": "jgf", "prune_filters": ""}`),

		"counts doubled for ever": jobspec(span(1, 1<<32-1, "*", 2)),
		"counts times 2^30":       jobspec(span(4, 10, "*", 1<<30)),
		"counts squared for ever": jobspec(span(2, 1<<32-1, "^", 2)),

		"update without paths":           update(crashes, none),
		"update of an unknown subsystem": update(crashes, foreign),
		"update with a path null":        update(crashes, null),
		"partial cancel without paths":   cancelPart(crashes, none),
		"partial cancel of a subsystem":  cancelPart(crashes, foreign),
		"partial cancel, path null":      cancelPart(crashes, null),

		"remove the last child": remove(hangs, nil, "/cluster0/node0", "/cluster0/node1"),
		"remove the last core":  remove(hangs, nil, "/cluster0/node0/core0", "/cluster0/node0/core1"),
		"remove the root":       remove(survives, nil, "/cluster0"),
		"remove nothing known":  remove(survives, ErrNotFound, "/cluster0/node7"),

		"add a path null":   add(crashes, makeGraph(3, 2).with(7, "paths", map[string]any{"containment": nil})),
		"add a long number": add(crashes, makeGraph(3, 2).with(7, "name", "node"+strings.Repeat("1", 30))),
		"add another root":  add(survives, makeGraph(1, 1).with(0, "paths", map[string]any{"containment": "/b"}).with(1, "paths", map[string]any{"containment": "/b/c"}).with(2, "paths", map[string]any{"containment": "/b/c/d"})),
		"add after looking ahead": func() danger {
			ahead, more := makeJobspec(1, 3, 0), makeGraph(3, 2).text() // of three cores in a node there is none
			d := on(crashes, func(r raw) bool {
				r.matchAs(MatchWithoutAllocatingFuture, NoJob, ahead)
				r.add(r.context, more)
				r.matchAs(MatchWithoutAllocatingFuture, NoJob, ahead)
				return true
			}, func(c *Client) error {
				if _, err := c.Match(MatchWithoutAllocatingFuture, ahead); !errors.Is(err, ErrUnsatisfiable) {
					return err
				}
				return c.AddSubgraph(more)
			})
			d.reason = ErrState
			return d
		}(),
		"second initialize": on(survives, func(r raw) bool {
			return r.init(makeGraph(2, 2).text(), jgfOptions) // and the first graph leaks
		}, func(c *Client) error {
			return errors.Join(ErrInvalid, c.InitContext(makeGraph(2, 2).text(), jgfOptions))
		}),
		"destroy of nothing": {
			want: crashes,
			raw:  func(r raw) bool { r.destroy(0); return true },
			checked: func(c *Client) error {
				c.Destroy()
				c.Destroy()
				return ErrInvalid
			},
		},
		"update without edges": update(loses, func() string {
			d := makeGraph(1, 2).with(2, "exclusive", true).with(3, "exclusive", true)
			d.Graph.Nodes, d.Graph.Edges = d.Graph.Nodes[2:], []*link{}
			return d.text()
		}()),
		"rv1 without ranks": {
			want: loses,
			raw: func(r raw) bool {
				r.init(ranked.text(), `{"load_format": "jgf", "match_format": "rv1"}`)
				rc, _ := r.allocate(makeJobspec(2, 2, 0))
				var found *byte
				format := []byte("jgf\x00")
				r.find(r.context, "sched-now=allocated", &format[0], &found)
				return rc == 0 || r.take(found) == "" // -1, and all is allocated
			},
			checked: func(c *Client) error {
				return c.InitContext(ranked.text(), `{"load_format": "jgf", "match_format": "rv1"}`)
			},
		},
		"partial cancel of all of R": on(loses, func(r raw) bool {
			_, set := r.allocate(makeJobspec(1, 2, 0))
			reversed := reverseNodes(set)
			var full bool
			r.partial(r.context, 1, `{"scheduling": `+reversed+`}`, false, &full)
			return r.cancel(r.context, 1, false) == 0
		}, func(c *Client) error {
			job, err := c.Match(MatchAllocate, makeJobspec(1, 2, 0))
			if err != nil {
				return err
			}
			_, err = c.PartialCancel(job.JobID, `{"scheduling": `+reverseNodes(job.R)+`}`, false)
			return err
		}),
		"edges back, partial cancel": {
			want: hangs,
			raw: func(r raw) bool {
				r.init(makeGraph(2, 2).twoWay().text(), jgfOptions)
				r.allocate(makeJobspec(2, 2, 0))
				var full bool
				r.partial(r.context, 1, `{"version": 1, "execution": {"R_lite": [{"rank": "0"}], "nodelist": ["node0"], "starttime": 0, "expiration": 0}}`, false, &full)
				return true
			},
			checked: func(c *Client) error { return c.InitContext(makeGraph(2, 2).twoWay().text(), jgfOptions) },
		},
		"job id past int64": on(loses, func(r raw) bool {
			r.allocateAs(1<<63, makeJobspec(1, 2, 0))
			return r.cancel(r.context, 1<<63, false) == 0
		}, func(c *Client) error {
			_, err := c.MatchWithJobid(MatchAllocate, 1<<63, makeJobspec(1, 2, 0))
			return err
		}),
		"job id twice": func() danger {
			d := on(loses, func(r raw) bool {
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
			})
			d.reason = ErrExists
			return d
		}(),
	}
}

// reverseNodes puts the root of a resource set first.
func reverseNodes(set string) string {
	at := strings.Index(set, `, "edges"`)
	nodes := strings.Split(strings.TrimSuffix(strings.TrimPrefix(set[:at], `{"graph": {"nodes": [`), "]"), `}}, {"id"`)
	root := nodes[len(nodes)-1]
	return `{"graph": {"nodes": [{"id"` + strings.TrimPrefix(root, `{"id"`) + `], "edges": []}}`
}

// TestDangers hands every danger to the package, which refuses it, and raw to the
// library in a process of its own, so that no check outlives its reason unseen.
func TestDangers(t *testing.T) {
	if name := os.Getenv("REAPI_DANGER"); name != "" {
		library, err := Open(os.Getenv("FLUXION_LIBRARY"))
		wantReason(t, err, nil)
		if !dangers()[name].raw(raw{library, library.create()}) {
			os.Exit(5)
		}
		os.Exit(0)
	}
	library := OpenLibrary(t)
	for name, test := range dangers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := library.NewClient()
			wantReason(t, err, nil)
			defer client.Destroy()
			reason := test.reason
			if reason == nil {
				reason = ErrInvalid
			}
			if err := test.checked(client); !errors.Is(err, reason) {
				t.Errorf("checked: %v, want %v", err, reason)
			}
			if got, output := unchecked(t, name); got != test.want {
				t.Errorf("unchecked it %s, want %s\n%s", got, test.want, output)
			}
		})
	}
}

// unchecked runs a danger in a process of its own and says what became of it.
func unchecked(t *testing.T, name string) (result, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDangers$")
	command.Env = append(os.Environ(), "REAPI_DANGER="+name, "GOTRACEBACK=none")
	text, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return hangs, string(text)
	case err == nil:
		return survives, string(text)
	case command.ProcessState.ExitCode() == 5:
		return loses, string(text)
	default:
		return crashes, string(text)
	}
}
