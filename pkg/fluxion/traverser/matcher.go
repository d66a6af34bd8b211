// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
)

// What a match or another operation can end with. Fluxion says EBUSY, ENODEV,
// EINVAL, ENOENT and EEXIST.
var (
	// ErrBusy: not now.
	ErrBusy = errors.New("no resources are free for it now")
	// ErrUnsatisfiable: never, whatever is free.
	ErrUnsatisfiable = errors.New("the resources can never satisfy it")
	// ErrInvalid: what was asked makes no sense.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound: there is no such job or vertex.
	ErrNotFound = errors.New("not found")
	// ErrExists: there is such a job already.
	ErrExists = errors.New("exists already")
)

// graphEnd is how long resources are there, in seconds from 0: Fluxion's 100 years.
const graphEnd int64 = 3153600000

// Options say how a Matcher works.
type Options struct {
	// Policy is the name of a match policy, or a custom one; "first" if empty.
	Policy string
	// PruneFilters are the types whose amounts are counted below which vertices:
	// ANCHOR:TYPE, separated by commas, ANCHOR a type or ALL; "ALL:core,ALL:node" if
	// empty. They make matches quick, and never change them, but for the order in
	// which a policy that stops early looks around.
	PruneFilters string
	// CountVisits walks the tree as Fluxion does, without the index, so that Visits
	// tells the same.
	CountVisits bool
}

// Op is a way to match.
type Op int

// The match operations of Fluxion.
const (
	// Allocate gives resources now, or is busy.
	Allocate Op = iota
	// AllocateWithSatisfiability says, if busy, whether it ever could.
	AllocateWithSatisfiability
	// AllocateOrElseReserve gives resources at the earliest time that it can.
	AllocateOrElseReserve
	// Satisfiability says whether it ever could, and gives nothing.
	Satisfiability
	// WithoutAllocating tells what Allocate would give.
	WithoutAllocating
	// WithoutAllocatingFuture tells what AllocateOrElseReserve would give.
	WithoutAllocatingFuture
)

// Match is what a request got.
type Match struct {
	// At is when it starts and Duration how long it has, in seconds.
	At, Duration int64
	// Reserved: it starts later.
	Reserved bool

	id uint64
	// queue is that of the jobspec.
	queue     string
	graph     *Graph
	emissions []emission
	labels    map[int32]string
}

// Matcher asks a graph the way of Fluxion: jobspecs in, allocations out.
//
// It owns the graph: what it gives is held by its jobs until they are cancelled. It
// is not safe for concurrent use; a Clone is independent.
type Matcher struct {
	graph       *Graph
	policy      policy
	countVisits bool
	// pruning are the types that are counted below vertices of a type, or of any.
	pruning pruning
	// pruned are all types that some filter counts; prunedIndex is where, by kind.
	pruned      []kind
	prunedIndex []int
	zeros       []int64
	jobs        map[uint64]*job
	// ordered are the children of vertices in the order of byWeight.
	ordered  map[int32][]int32
	sequence uint64
	// visits of the last search, and those that are told of the last operation.
	preorder, postorder           int
	totalPreorder, totalPostorder int
	// counts is the stack of an update.
	counts   []int64
	compiled compiledSpec
	scratch  scratch
	// indexes are by type, as the tree was at indexShape.
	indexes    map[kind]*index
	indexShape uint64
	// nextEnd is when the first running job ends, 0 if not known.
	nextEnd int64
}

// scratch is memory that searches use again.
type scratch struct {
	frames  []*score
	edges   []edge
	tallies []tally
	amounts []int64
	labels  map[int32]string
	holds   []hold
	held    []int64
	out     []emission
	// those under way.
	search search
	picker picker
	update update
	// of a picker: whether classes match, the positions that it picked, a run, and the
	// vertex visited last.
	classes []int8
	picked  []int32
	run     []int32
	last    edge
}

// NewMatcher makes a matcher that takes over a graph: nobody else uses it from then
// on.
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

// Clone returns a matcher with a graph and jobs of its own that are the same now.
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

// Match looks for the resources of a jobspec from a time on, and gives them to job
// id where the operation does. The error is, by errors.Is, ErrBusy,
// ErrUnsatisfiable, ErrInvalid or ErrExists.
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
		// What was chosen does not hang together: a slot is below a level that the
		// request leaves out in the middle. Fluxion is busy then, too.
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

// checkTypes refuses types that nobody has heard of. Fluxion finds that invalid; it
// can never be satisfied, either.
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

// unavailable is what it means not to find something where nothing is taken.
func unavailable(err error) error {
	if errors.Is(err, ErrBusy) {
		return ErrUnsatisfiable
	}
	return err
}

// Cancel gives back all that a job has.
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

// Visits are how many vertices the last operation came to, and how many of them it
// left with success.
func (m *Matcher) Visits() (pre, post int) { return m.totalPreorder, m.totalPostorder }
