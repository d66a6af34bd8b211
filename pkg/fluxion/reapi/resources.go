// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"cmp"
	"errors"
	"strconv"
)

// Status is whether new jobs may use a resource.
type Status int32

// The states of a resource.
const (
	StatusUp   Status = 0
	StatusDown Status = 1
)

// Stat counts and times, in seconds.
type Stat struct {
	Vertices, Edges, Jobs            int64
	Load, Shortest, Longest, Average float64
}

// Stat is ErrUnsupported in every library so far.
func (c *Client) Stat() (Stat, error) {
	mu.Lock()
	defer mu.Unlock()
	var out Stat
	err := c.run("stat", func() int32 {
		return c.library.stat(c.context, &out.Vertices, &out.Edges, &out.Jobs, &out.Load, &out.Shortest, &out.Longest, &out.Average)
	})
	return out, err
}

// AddSubgraph adds resources: JGF that starts at the root of the graph and holds the
// path down to what is new; what is there already is left as it is.
//
// The library does not count nodes that come up this way: with "node" among the
// prune_filters, a job of more nodes than there were at first is ErrBusy. Add nodes
// with status 1 (down), then set them up.
//
// Once a match has looked for a later time it is ErrState: the library might crash when
// it next looks ahead.
func (c *Client) AddSubgraph(jgf string) error {
	const call = "add_subgraph"
	mu.Lock()
	defer mu.Unlock()
	if err := errors.Join(c.has(call, c.library.Features().Subgraphs), c.settled(call)); err != nil {
		return err
	}
	added, err := checkGraph(jgf, options{matchFormat: c.format}.ranked())
	if err == nil {
		err = c.graph.accepts(added)
	}
	if err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	if err := c.run(call, func() int32 { return c.library.add(c.context, jgf) }); err != nil {
		return err
	}
	c.graph.add(added)
	return nil
}

// RemoveSubgraph removes the vertex at a path and all below it. Cancel the jobs on
// it first: the library leaves them. The root, and the last child of a vertex, cannot
// be removed.
func (c *Client) RemoveSubgraph(path string) error {
	const call = "remove_subgraph"
	mu.Lock()
	defer mu.Unlock()
	if err := c.has(call, c.library.Features().Subgraphs); err != nil {
		return err
	}
	if err := c.graph.removable(call, path); err != nil {
		return err
	}
	if err := c.run(call, func() int32 { return c.library.remove(c.context, path) }); err != nil {
		return err
	}
	c.graph.remove(path)
	return nil
}

// Find returns the resources that meet criteria, such as "status=down",
// "sched-now=allocated", "jobid-alloc=7" or "names=node[0-3]", joined by "and" and
// "or"; the empty text if there are none. The format is one of match_format, or
// empty for the client's own; "rlite" and the simple ones are refused.
func (c *Client) Find(criteria, format string) (string, error) {
	const call = "find"
	mu.Lock()
	defer mu.Unlock()
	if err := c.has(call, c.library.Features().Find); err != nil {
		return "", err
	}
	if err := checkFind(criteria, cmp.Or(format, c.format)); err != nil {
		return "", refuse(call, ErrInvalid, err.Error())
	}
	var wanted, r *byte
	if format != "" {
		wanted = &append([]byte(format), 0)[0]
	}
	if err := c.run(call, func() int32 { return c.library.find(c.context, criteria, wanted, &r) }); err != nil {
		return "", err
	}
	return c.library.take(r), nil
}

// SetStatus sets the state of the one vertex at a path. What is below is out of
// reach while it is down. A path that is not there is ErrNotFound.
func (c *Client) SetStatus(path string, status Status) error {
	return c.status("set_status", "path", path, status, func() int32 {
		return c.library.setStatus(c.context, path, int32(status))
	}, ErrNotFound)
}

// GetStatus returns the state of the one vertex at a path.
func (c *Client) GetStatus(path string) (Status, error) {
	var out int32
	err := c.status("get_status", "path", path, StatusUp, func() int32 {
		return c.library.getStatus(c.context, path, &out)
	}, ErrNotFound)
	return Status(out), err
}

// SetRankStatus sets the state of the nodes of the ranks in an idset (RFC 22), or of
// "all". Ranks that are not there are left out silently.
func (c *Client) SetRankStatus(ranks string, status Status) error {
	return c.status("set_rank_status", "ranks", ranks, status, func() int32 {
		return c.library.setRanks(c.context, ranks, int32(status))
	}, ErrInvalid)
}

// GetRankStatus returns the state of the node of a rank.
func (c *Client) GetRankStatus(rank uint32) (Status, error) {
	var out int32
	text := strconv.FormatUint(uint64(rank), 10)
	err := c.status("get_rank_status", "rank", text, StatusUp, func() int32 {
		return c.library.getRank(c.context, text, &out)
	}, ErrNotFound)
	return Status(out), err
}

// status makes one of the status calls, which say EINVAL for whatever is wrong.
func (c *Client) status(call, kind, what string, status Status, function func() int32, wrong error) error {
	mu.Lock()
	defer mu.Unlock()
	if err := c.has(call, c.library.Features().Status); err != nil {
		return err
	}
	if err := checkText(kind, what); err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	if status != StatusUp && status != StatusDown {
		return refuse(call, ErrInvalid, "no such status")
	}
	return because(c.run(call, function), ErrInvalid, wrong)
}

// has refuses a call that needs a graph or a newer library. mu is held.
func (c *Client) has(call string, feature bool) error {
	if !feature {
		return refuse(call, ErrUnsupported, "the library is older than flux-sched 0.53")
	}
	return c.ready(call)
}
