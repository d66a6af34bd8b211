// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import "maps"

// Client is a resource graph with its jobs. It is safe for use by several goroutines. The
// calls of all clients run one after the other.
type Client struct {
	library *Library
	// context is 0 once destroyed.
	context uintptr
	// graph is nil before InitContext.
	graph tree
	// format is the match_format.
	format string
	// jobs are the jobs that hold or reserve resources. The library's own record cannot be
	// used, because clones share it.
	jobs map[uint64]bool
	// last is the highest job id that Match gave out.
	last uint64
	// lookedAhead is true after a match has looked for a later time. The library's planner
	// may then be in a state in which it must not be copied or changed.
	lookedAhead bool
}

// InitContext loads the resource graph (JGF) and sets the options, a JSON object:
// load_format, which must be "jgf", and as wanted matcher_policy ("first"),
// match_format ("jgf"), prune_filters ("ALL:core,ALL:node"), traverser_policy
// ("simple"), matcher_name ("CA"), load_allowlist, reserve_vtx_vec, elapse_time.
//
// A client has one graph in its life: a second call is ErrState, unless the first
// failed. What the library does not accept is ErrInvalid; among it are, in a process
// that has had a graph before, prune_filters of a type that no graph has had.
func (c *Client) InitContext(jgf, options string) error {
	const call = "initialize"
	chosen, err := checkOptions(options)
	if err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	graph, err := checkGraph(jgf, chosen.ranked())
	if err != nil {
		return refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case c.context == 0:
		return refuse(call, ErrState, "the client is destroyed")
	case c.graph != nil:
		return refuse(call, ErrState, "the client has a graph already")
	}
	if err := c.call(call, func() int32 { return c.library.initialize(c.context, jgf, options) }); err != nil {
		return err
	}
	c.graph, c.format, c.jobs = graph, chosen.matchFormat, map[uint64]bool{}
	return nil
}

// Clone copies the graph with all jobs and states. The two then have nothing to do
// with each other, with exceptions:
//
//   - The library counts the matches of a clone from 0, and takes what the original
//     chose in its match of the same number for chosen: the first matches of a clone,
//     as many as the original had made, may return more than was asked for.
//   - Once a match has looked for a later time, Clone is ErrState: it might never
//     return.
func (c *Client) Clone() (*Client, error) {
	mu.Lock()
	defer mu.Unlock()
	if err := c.settled("clone"); err != nil {
		return nil, err
	}
	var context uintptr
	err := c.run("clone", func() int32 {
		if context = c.library.clone(c.context); context == 0 {
			return -1
		}
		return 0
	})
	if err != nil {
		return nil, err
	}
	clone := &Client{library: c.library, context: context, format: c.format, last: c.last}
	clone.graph, clone.jobs = maps.Clone(c.graph), maps.Clone(c.jobs)
	return clone, nil
}

// Destroy frees the client. It may be called more than once; every other call then
// is ErrState.
func (c *Client) Destroy() {
	mu.Lock()
	defer mu.Unlock()
	if c.context != 0 {
		c.library.destroy(c.context)
	}
	c.context, c.graph, c.jobs = 0, nil, nil
}

// ready refuses a call that needs a graph where there is none. mu is held.
func (c *Client) ready(call string) error {
	switch {
	case c.context == 0:
		return refuse(call, ErrState, "the client is destroyed")
	case c.graph == nil:
		return refuse(call, ErrState, "the client has no graph: InitContext comes first")
	}
	return nil
}

// settled refuses a call that the library does not survive once it has looked ahead.
// mu is held.
func (c *Client) settled(call string) error {
	if c.lookedAhead {
		return refuse(call, ErrState, "a match has looked for a later time; a new client can be given the graph and, by UpdateAllocate, the jobs")
	}
	return nil
}

// run makes a call that needs a graph. mu is held.
func (c *Client) run(name string, function func() int32) error {
	if err := c.ready(name); err != nil {
		return err
	}
	return c.call(name, function)
}

// call makes a call and takes the library's text, which grows until it is cleared,
// also by calls that succeed. mu is held.
func (c *Client) call(name string, function func() int32) error {
	result, errno := c.library.call(function)
	defer c.library.clearMessage(c.context)
	if result == 0 {
		return nil
	}
	return failure(name, errno, c.library.take(c.library.message(c.context)))
}
