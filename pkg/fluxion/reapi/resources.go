// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"cmp"
	"errors"
)

// Status says whether new jobs may use a resource.
type Status int32

// These are the states of a resource.
const (
	StatusUp   Status = 0
	StatusDown Status = 1
)

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
	if err := errors.Join(c.has(call, c.library.add != nil), c.settled(call)); err != nil {
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
	if err := c.has(call, c.library.remove != nil); err != nil {
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
	if err := c.has(call, c.library.find != nil); err != nil {
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

// SetStatus sets the state of the one vertex at a path. What is below the vertex is out of
// reach while the vertex is down. A path that is not there is ErrNotFound.
func (c *Client) SetStatus(path string, status Status) error {
	const call = "set_status"
	mu.Lock()
	defer mu.Unlock()
	if err := c.has(call, c.library.setStatus != nil); err != nil {
		return err
	}
	if err := checkText("path", path); err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	if status != StatusUp && status != StatusDown {
		return refuse(call, ErrInvalid, "no such status")
	}
	// The library answers EINVAL for every mistake.
	err := c.run(call, func() int32 { return c.library.setStatus(c.context, path, int32(status)) })
	return because(err, ErrInvalid, ErrNotFound)
}

// has refuses a call that needs a graph or a newer library. mu is held.
func (c *Client) has(call string, feature bool) error {
	if !feature {
		return refuse(call, ErrUnsupported, "the library is older than flux-sched 0.53")
	}
	return c.ready(call)
}
