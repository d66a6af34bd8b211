// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// An operation fails with one of these errors, by errors.Is. Fluxion calls them EBUSY,
// ENODEV, EINVAL, ENOENT and EEXIST.
var (
	// ErrBusy means that the resources are not free now.
	ErrBusy = errors.New("no resources are free for it now")
	// ErrUnsatisfiable means that the graph could not satisfy the request even if it were
	// idle.
	ErrUnsatisfiable = errors.New("the resources can never satisfy it")
	// ErrInvalid means that the request makes no sense.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound means that there is no such job or vertex.
	ErrNotFound = errors.New("not found")
	// ErrExists means that there is a job of this id already.
	ErrExists = errors.New("exists already")
)

// graphEnd is the end of the graph's lifetime, in seconds from 0: Fluxion's 100 years.
const graphEnd int64 = 3153600000

// Options configure a Matcher.
type Options struct {
	// Policy is a match policy, by name or as options; "first" if empty.
	Policy string
	// PruneFilters say which types the pruning filters count, below which vertices:
	// ANCHOR:TYPE, separated by commas, where ANCHOR is a type or ALL. "ALL:core,ALL:node"
	// if empty. Filters make matches fast. They change a result only for a policy that
	// stops early, whose order of visits they change.
	PruneFilters string
	// CountVisits disables the index, so that Visits counts what Fluxion counts.
	CountVisits bool
}

// Op is a match operation.
type Op int

// These are the match operations of Fluxion.
const (
	// Allocate allocates resources now, or fails with ErrBusy.
	Allocate Op = iota
	// AllocateWithSatisfiability fails with ErrUnsatisfiable where waiting would not help.
	AllocateWithSatisfiability
	// AllocateOrElseReserve allocates now, or reserves at the earliest possible time.
	AllocateOrElseReserve
	// Satisfiability tells whether an idle graph could satisfy the request.
	Satisfiability
	// WithoutAllocating tells what Allocate would allocate.
	WithoutAllocating
	// WithoutAllocatingFuture tells what AllocateOrElseReserve would allocate or reserve.
	WithoutAllocatingFuture
)

// Match is what a request was given.
type Match struct {
	// At is the start of the job, and Duration its length, in seconds.
	At, Duration int64
	// Reserved is true for a job that starts later.
	Reserved bool

	id uint64
	// queue is the queue of the jobspec.
	queue     string
	graph     *Graph
	emissions []emission
	labels    map[int32]string
}

// Matcher matches jobspecs on a graph.
//
// It owns the graph. A job holds its resources until it is cancelled. A Matcher is not safe
// for use by several goroutines; a Clone is independent.
type Matcher struct {
	graph       *Graph
	policy      policy
	countVisits bool
	// pruning says which types the pruning filters count, below which vertices.
	pruning pruning
	// pruned are all types that some filter counts, and prunedIndex is the position in
	// pruned by kind. zeros has an amount for each of them.
	pruned      []kind
	prunedIndex []int
	zeros       []int64
	jobs        map[uint64]*job
	// ordered are the children of vertices, in the order of byWeight.
	ordered  map[int32][]int32
	sequence uint64
	// These are the visits of the last traversal, and of the last operation.
	preorder, postorder           int
	totalPreorder, totalPostorder int
	// counts is the stack of an update.
	counts   []int64
	compiled compiledSpec
	scratch  scratch
	// indexes are by type. They are valid while the shape of the graph is indexShape.
	indexes    map[kind]*index
	indexShape uint64
	// nextEnd is the first end of a running job; 0 if that is not known.
	nextEnd int64
}

// scratch is memory that operations use again.
type scratch struct {
	frames  []*score
	edges   []edge
	tallies []tally
	amounts []int64
	labels  map[int32]string
	holds   []hold
	held    []int64
	out     []emission
	// The current search, picker and update are kept here.
	search search
	picker picker
	update update
	// A picker uses these: whether each class matches, the positions that it has picked, a
	// run, and the edge to the last vertex that it has visited.
	classes []int8
	picked  []int32
	run     []int32
	last    edge
}

// NewMatcher makes a Matcher that takes over a graph. Nobody else may use the graph then.
func NewMatcher(graph *Graph, options Options) (*Matcher, error) {
	m := &Matcher{
		graph: graph, countVisits: options.CountVisits,
		jobs: map[uint64]*job{}, ordered: map[int32][]int32{}, indexes: map[kind]*index{},
	}
	var err error
	if m.policy, err = parsePolicy(cmp.Or(options.Policy, "first")); err != nil {
		return nil, err
	}
	if m.pruning, err = parsePruning(m.graph, cmp.Or(options.PruneFilters, "ALL:core,ALL:node")); err != nil {
		return nil, err
	}
	m.prime()
	return m, nil
}

// Clone is a Matcher with a copy of the graph and the jobs.
func (m *Matcher) Clone() *Matcher {
	c := *m
	c.graph = m.graph.clone()
	c.pruning = m.pruning.clone()
	c.jobs = make(map[uint64]*job, len(m.jobs))
	for id, j := range m.jobs {
		copied := *j
		copied.holds, copied.counts, copied.byVertex = slices.Clone(j.holds), slices.Clone(j.counts), nil
		c.jobs[id] = &copied
	}
	c.ordered = make(map[int32][]int32, len(m.ordered))
	for v, children := range m.ordered {
		c.ordered[v] = slices.Clone(children)
	}
	c.counts, c.scratch, c.compiled = nil, scratch{}, compiledSpec{}
	c.indexes, c.indexShape = map[kind]*index{}, 0
	return &c
}

// Match matches a jobspec at a time, or from that time on. If the operation allocates or
// reserves, the job of the id holds the resources. The error is ErrBusy, ErrUnsatisfiable,
// ErrInvalid or ErrExists.
func (m *Matcher) Match(op Op, spec *jobspec.Jobspec, id uint64, now int64) (*Match, error) {
	duration, err := m.check(op, spec, id, now)
	if err != nil {
		return nil, err
	}
	m.prepare(spec)
	s := &m.scratch.search
	*s = search{Matcher: m, constraint: spec.Constraint}
	root := &m.graph.vertices[m.graph.root]
	exclusive := asksExclusive(m.compiled.requests, root.kind)
	if op == Satisfiability {
		s.ignoring = true
		_, err := s.run(m.compiled.requests, exclusive)
		m.totalPreorder, m.totalPostorder = m.preorder, m.postorder
		if err != nil {
			return nil, unavailable(err)
		}
		return &Match{graph: m.graph}, nil
	}
	at, needs, err := s.schedule(op, now, duration, exclusive)
	if err != nil {
		return nil, err
	}
	match := &Match{
		At: at, Duration: min(duration, graphEnd-at), Reserved: at > now, id: id, queue: spec.Queue, graph: m.graph,
	}
	m.give(match, op, now, needs, exclusive)
	if len(match.emissions) == 0 {
		// The chosen vertices do not lead to the root, because the request leaves out a
		// level above a slot. Fluxion is busy then, too.
		return nil, ErrBusy
	}
	return match, nil
}

func (m *Matcher) check(op Op, spec *jobspec.Jobspec, id uint64, now int64) (duration int64, err error) {
	allocates := op == Allocate || op == AllocateWithSatisfiability || op == AllocateOrElseReserve
	switch {
	case op < Allocate || op > WithoutAllocatingFuture:
		return 0, fmt.Errorf("matching: %w: there is no operation %d", ErrInvalid, op)
	case len(spec.Resources) == 0:
		return 0, fmt.Errorf("matching: %w: the jobspec asks for no resources", ErrInvalid)
	case now < 0 || now >= graphEnd:
		return 0, fmt.Errorf("matching: %w: time %d is not between 0 and %d", ErrInvalid, now, graphEnd)
	case spec.Duration < 0 || spec.Duration > graphEnd:
		return 0, fmt.Errorf("matching: %w: duration %d s is not between 0 and %d", ErrInvalid, spec.Duration, graphEnd)
	case allocates && m.jobs[id] != nil:
		return 0, fmt.Errorf("matching: job %d %w", id, ErrExists)
	}
	if err := m.checkTypes(spec.Resources); err != nil {
		return 0, fmt.Errorf("matching: %w", err)
	}
	return cmp.Or(spec.Duration, graphEnd), nil
}

// checkTypes refuses types that the graph does not know. Fluxion calls such a request
// invalid; it is unsatisfiable, too.
func (m *Matcher) checkTypes(resources []jobspec.Resource) error {
	for i := range resources {
		if _, known := m.graph.kindIndex[resources[i].Type]; !known {
			return fmt.Errorf("%w: there is no resource of type %q: %w", ErrInvalid, resources[i].Type, ErrUnsatisfiable)
		}
		if err := m.checkTypes(resources[i].With); err != nil {
			return err
		}
	}
	return nil
}

// unavailable is the error of a search on an idle graph.
func unavailable(err error) error {
	if errors.Is(err, ErrBusy) {
		return ErrUnsatisfiable
	}
	return err
}

// Cancel gives back all resources of a job.
func (m *Matcher) Cancel(id uint64) error {
	j := m.jobs[id]
	if j == nil {
		return fmt.Errorf("cancelling job %d: %w", id, ErrNotFound)
	}
	m.totalPreorder, m.totalPostorder = 1, 0
	for i := range j.holds {
		h := &j.holds[i]
		if h.gone {
			continue
		}
		for c := m.graph.vertices[h.vertex].first; c != none; c = m.graph.vertices[c].next {
			m.totalPreorder++
		}
		m.totalPostorder++
		m.release(j, h)
	}
	m.forget(id)
	return nil
}

// IsReserved reports whether a job is a reservation.
func (m *Matcher) IsReserved(id uint64) (bool, error) {
	j := m.jobs[id]
	if j == nil {
		return false, fmt.Errorf("looking up job %d: %w", id, ErrNotFound)
	}
	return j.reserved, nil
}

// Visits are the numbers of vertices that the last operation has visited in pre-order, and
// has left with success in post-order.
func (m *Matcher) Visits() (pre, post int) { return m.totalPreorder, m.totalPostorder }
