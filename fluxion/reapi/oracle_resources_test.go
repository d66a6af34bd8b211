// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import "cmp"

// Status is the state of a vertex. New jobs may use a vertex that is up.
type Status int32

// These are the states of a vertex.
const (
	StatusUp   Status = 0
	StatusDown Status = 1
)

// AddSubgraph adds vertices. The JGF starts at the root of the graph, and has the path down to
// the new vertices. Known vertices stay as they are.
//
// The library does not count new nodes that are up. With "node" in the prune_filters, a job of
// more nodes than the graph first had is ErrBusy. So new nodes should have status 1 (down), and
// then be set up.
//
// Once a match has looked for a later time, AddSubgraph is ErrState, because the library might
// crash when it next looks ahead.
func (c *Client) AddSubgraph(jgf string) error {
	const call = "add_subgraph"
	mu.Lock()
	defer mu.Unlock()
	if err := c.ready(call); err != nil {
		return err
	}
	if err := c.settled(call); err != nil {
		return err
	}
	added, err := checkGraph(jgf, clientOptions{matchFormat: c.format}.ranked())
	if err == nil {
		err = c.graph.accepts(added)
	}
	if err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	if err := c.run(call, func() int32 { return c.oracle.add(c.context, jgf) }); err != nil {
		return err
	}
	c.graph.add(added)
	return nil
}

// RemoveSubgraph removes the vertex at a path and all vertices below, but not the jobs there.
// The root cannot be removed, and neither can the last child of a vertex.
func (c *Client) RemoveSubgraph(path string) error {
	const call = "remove_subgraph"
	mu.Lock()
	defer mu.Unlock()
	if err := c.ready(call); err != nil {
		return err
	}
	if err := c.graph.removable(call, path); err != nil {
		return err
	}
	if err := c.run(call, func() int32 { return c.oracle.remove(c.context, path) }); err != nil {
		return err
	}
	c.graph.remove(path)
	return nil
}

// Find returns the vertices that meet criteria, or the empty text if there are none. Criteria
// are "status=down", "sched-now=allocated", "jobid-alloc=7" or "names=node[0-3]", for example.
// They are joined by "and" and "or". An empty format is the client's match_format.
func (c *Client) Find(criteria, format string) (string, error) {
	const call = "find"
	mu.Lock()
	defer mu.Unlock()
	if err := c.ready(call); err != nil {
		return "", err
	}
	if err := checkFind(criteria, cmp.Or(format, c.format)); err != nil {
		return "", refuse(call, ErrInvalid, err.Error())
	}
	var wanted, r *byte
	if format != "" {
		wanted = &append([]byte(format), 0)[0]
	}
	if err := c.run(call, func() int32 { return c.oracle.find(c.context, criteria, wanted, &r) }); err != nil {
		return "", err
	}
	return c.oracle.take(r), nil
}

// SetStatus sets the state of the vertex at a path. Jobs cannot use the vertices below a vertex
// that is down. The error is ErrNotFound if there is no such path.
func (c *Client) SetStatus(path string, status Status) error {
	const call = "set_status"
	mu.Lock()
	defer mu.Unlock()
	if err := c.ready(call); err != nil {
		return err
	}
	if err := checkText("path", path); err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	if status != StatusUp && status != StatusDown {
		return refuse(call, ErrInvalid, "no such status")
	}
	// The library answers EINVAL for every mistake.
	err := c.run(call, func() int32 { return c.oracle.setStatus(c.context, path, int32(status)) })
	return because(err, ErrInvalid, ErrNotFound)
}
