// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"maps"
	"syscall"
)

// Oracle is the library with all functions that the tests call, of flux-sched 0.54 or later.
//
// The library runs in the test process, and much that it does not expect ends the process or
// never returns: C++ exceptions that nobody catches, null strings, loops. The methods of
// Client refuse such inputs with ErrInvalid or ErrState before they call the library. So they
// read less than the library would:
//
//   - Graphs are JGF of the containment subsystem alone: one tree under a root of type
//     cluster, in which every path is the parent's path and a name. Edges from a child to
//     its parent, as Fluence 1 writes them, make the library search for ever.
//   - Options are known keys with values of the right type. The format "rlite" is refused,
//     because with it the library calls a busy graph invalid.
//   - Jobspecs are JSON, and not any YAML. A count that is multiplied past 32 bits never ends,
//     and a package that cannot read the count cannot see this.
//   - RemoveSubgraph does not remove the last child of a vertex.
//   - AddSubgraph and Clone are refused once a match has looked for a later time.
//   - PartialCancel by JGF names only what the job holds exclusively. The library would leave
//     half a job that cannot be cancelled, if R also named the vertices above.
type Oracle struct {
	*Library
	clone     func(ctx uintptr) uintptr
	update    func(ctx uintptr, jobid uint64, r string, at *int64, ov *float64, out **byte) int32
	add       func(ctx uintptr, graph string) int32
	remove    func(ctx uintptr, path string) int32
	cancel    func(ctx uintptr, jobid uint64, noentOK bool) int32
	partial   func(ctx uintptr, jobid uint64, r string, noentOK bool, full *bool) int32
	find      func(ctx uintptr, criteria string, format *byte, r **byte) int32
	setStatus func(ctx uintptr, path string, status int32) int32
}

func (o *Oracle) symbols() []symbol {
	return []symbol{
		{"reapi_cli_clone", &o.clone},
		{"reapi_cli_update_allocate", &o.update},
		{"reapi_cli_add_subgraph", &o.add},
		{"reapi_cli_remove_subgraph", &o.remove},
		{"reapi_cli_cancel", &o.cancel},
		{"reapi_cli_partial_cancel", &o.partial},
		{"reapi_cli_find", &o.find},
		{"reapi_cli_set_status", &o.setStatus},
	}
}

// openOracle opens a library as Open does, and looks up the other functions.
func openOracle(path string) (*Oracle, error) {
	library, err := Open(path)
	if err != nil {
		return nil, err
	}
	handle, err := dlopen(path)
	if err != nil {
		return nil, err
	}
	oracle := &Oracle{Library: library}
	return oracle, bind(oracle.symbols(), func(name string) uintptr { return dlsym(handle, name) })
}

// These are the reasons of errors that a Match does not have.
var (
	// ErrUnsatisfiable means that the request does not fit on the graph with all up and free.
	ErrUnsatisfiable = errors.New("can never be met")
	// ErrNotFound means that there is no such job or path.
	ErrNotFound = errors.New("not found")
	// ErrExists means that a job has the id already.
	ErrExists = errors.New("exists")
	// ErrState means that the client is in a state in which the call is refused.
	ErrState = errors.New("wrong state")
)

// Client is a resource graph with its jobs. Several goroutines may use a Client.
type Client struct {
	oracle *Oracle
	// context is 0 after Destroy.
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

// NewClient makes a client without a graph.
func (o *Oracle) NewClient() (*Client, error) {
	mu.Lock()
	defer mu.Unlock()
	context := o.create()
	if context == 0 {
		return nil, refuse("new", ErrNoMemory, "")
	}
	return &Client{oracle: o, context: context}, nil
}

// InitContext loads the resource graph (JGF) and sets the options, a JSON object. The key
// load_format must be there. The other keys are in optionChecks.
//
// A client has one graph in its life. After the first success, InitContext is ErrState.
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
	if err := c.call(call, func() int32 { return c.oracle.initialize(c.context, jgf, options) }); err != nil {
		return err
	}
	c.graph, c.format, c.jobs = graph, chosen.matchFormat, map[uint64]bool{}
	return nil
}

// Clone copies the graph with all jobs and states. Afterwards the two are independent, with
// one exception. The library counts the matches of a clone from 0, and takes what the
// original has chosen in its match of the same number for chosen. So the first matches of a
// clone may return more than was requested.
//
// Once a match has looked for a later time, Clone is ErrState, because it might never return.
func (c *Client) Clone() (*Client, error) {
	mu.Lock()
	defer mu.Unlock()
	if err := c.settled("clone"); err != nil {
		return nil, err
	}
	var context uintptr
	err := c.run("clone", func() int32 {
		if context = c.oracle.clone(c.context); context == 0 {
			return -1
		}
		return 0
	})
	if err != nil {
		return nil, err
	}
	clone := &Client{oracle: c.oracle, context: context, format: c.format, last: c.last}
	clone.graph, clone.jobs = maps.Clone(c.graph), maps.Clone(c.jobs)
	return clone, nil
}

// Destroy frees the client, once. Every other call of a destroyed client is ErrState.
func (c *Client) Destroy() {
	mu.Lock()
	defer mu.Unlock()
	if c.context != 0 {
		c.oracle.destroy(c.context)
	}
	c.context, c.graph, c.jobs = 0, nil, nil
}

// ready refuses a call that needs a graph if there is none. mu is held.
func (c *Client) ready(call string) error {
	switch {
	case c.context == 0:
		return refuse(call, ErrState, "the client is destroyed")
	case c.graph == nil:
		return refuse(call, ErrState, "the client has no graph: InitContext comes first")
	}
	return nil
}

// settled refuses a call that the library does not survive once it has looked ahead. mu is
// held.
func (c *Client) settled(call string) error {
	if c.lookedAhead {
		return refuse(call, ErrState, "a match has looked for a later time")
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

// call makes a call, and gives the error one of the reasons that a Match does not have. mu is
// held.
func (c *Client) call(name string, function func() int32) error {
	return refined(c.oracle.call(c.context, name, function))
}

// refined gives an error the reason for its errno.
func refined(err error) error {
	var failed *callError
	if errors.As(err, &failed) {
		switch failed.errno {
		case syscall.ENODEV:
			failed.reason = ErrUnsatisfiable
		case syscall.ENOENT:
			failed.reason = ErrNotFound
		case syscall.ENOSYS, syscall.ENOTSUP:
			failed.reason = ErrUnsupported
		case syscall.EEXIST:
			failed.reason = ErrExists
		}
	}
	return err
}

// because gives an error another reason, if the library uses one errno for several reasons.
func because(err, old, better error) error {
	var failed *callError
	if errors.As(err, &failed) && errors.Is(failed.reason, old) {
		failed.reason = better
	}
	return err
}
