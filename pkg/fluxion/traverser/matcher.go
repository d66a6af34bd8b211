// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	// exclusiveKinds are those that the jobspec in hand asks for exclusively.
	exclusiveKinds []kind
	jobs           map[uint64]*job
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

// compiledSpec is the last jobspec: many are matched again and again.
type compiledSpec struct {
	spec     *jobspec.Jobspec
	shape    uint64
	requests []*request
	total    map[kind]int64
	// rootNeeds are total, as the root's filter has it.
	rootNeeds []int64
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
	c.pruned, c.prunedIndex, c.zeros = slices.Clone(m.pruned), slices.Clone(m.prunedIndex), slices.Clone(m.zeros)
	c.counts, c.scratch, c.compiled, c.exclusiveKinds = nil, scratch{}, compiledSpec{}, nil
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
	match := &Match{At: at, Duration: min(duration, graphEnd-at), Reserved: at > now, id: id, queue: spec.Queue, graph: m.graph}
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

// prepare compiles the jobspec, unless it was the last one.
func (m *Matcher) prepare(spec *jobspec.Jobspec) {
	m.exclusiveKinds = m.exclusiveKinds[:0]
	m.collectExclusive(spec.Resources)
	if c := &m.compiled; c.spec != spec || c.shape != m.graph.shape {
		total := map[kind]int64{}
		*c = compiledSpec{spec, m.graph.shape, m.compile(spec.Resources, total), total, nil}
		c.rootNeeds = m.rootNeeds(c.requests)
	}
}

// rootNeeds is what is needed below the root at the least, as its filter has it.
func (m *Matcher) rootNeeds(requests []*request) []int64 {
	root := m.graph.vertices[m.graph.root].kind
	var needs []int64
	for _, k := range m.graph.filters[root] {
		need := int64(0)
		for _, r := range requests {
			count := int64(r.count.Min)
			switch r.kind {
			case root:
				need += r.least[k]
			case k:
				need += count + count*r.least[k]
			default:
				need += count * r.least[k]
			}
		}
		needs = append(needs, need)
	}
	return needs
}

// collectExclusive notes the types that are asked for exclusively: of those, all
// that is in them is told and held.
func (m *Matcher) collectExclusive(resources []jobspec.Resource) {
	for i := range resources {
		if k, known := m.graph.kindIndex[resources[i].Type]; known && resources[i].Exclusive == jobspec.Yes {
			m.exclusiveKinds = append(m.exclusiveKinds, k)
		}
		m.collectExclusive(resources[i].With)
	}
}

// unavailable is what it means not to find something where nothing is taken.
func unavailable(err error) error {
	if errors.Is(err, ErrBusy) {
		return ErrUnsatisfiable
	}
	return err
}

// schedule finds when and where.
func (s *search) schedule(op Op, now, duration int64, exclusive bool) (at, needs int64, err error) {
	if err := s.feasible(op, now, duration); err != nil {
		return 0, 0, err
	}
	requests := s.compiled.requests
	s.from, s.until, s.now = now, now+duration, true
	if needs, err = s.run(requests, exclusive); err == nil {
		s.totalPreorder, s.totalPostorder = s.preorder, s.postorder
		return now, needs, nil
	}
	switch op {
	case AllocateWithSatisfiability:
		return 0, 0, s.everPossible(exclusive, true)
	case AllocateOrElseReserve, WithoutAllocatingFuture:
		s.now = false
		root := &s.graph.vertices[s.graph.root]
		for at := range s.times(root, now+1) {
			s.from, s.until = at, at+duration
			if !s.enough(root, s.compiled.rootNeeds) {
				continue
			}
			needs, err = s.run(requests, exclusive)
			s.totalPreorder += s.preorder
			s.totalPostorder += s.postorder
			if err == nil {
				return at, needs, nil
			}
		}
		return 0, 0, s.everPossible(exclusive, false)
	}
	return 0, 0, ErrBusy
}

// everPossible says which of ErrBusy and ErrUnsatisfiable it is.
func (s *search) everPossible(exclusive, tell bool) error {
	s.ignoring, s.now = true, false
	_, err := s.run(s.compiled.requests, exclusive)
	if tell {
		s.totalPreorder += s.preorder
		s.totalPostorder += s.postorder
	}
	if err != nil {
		return unavailable(err)
	}
	return ErrBusy
}

// times are the times, from a time on, at which a job on a vertex starts or ends.
func (s *search) times(v *vertex, from int64) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		if v.plan == none {
			return
		}
		points := s.graph.plans[v.plan].points
		for i := s.graph.plans[v.plan].search(from); i < len(points); i++ {
			if at := points[i].at; at >= graphEnd || !yield(at) {
				return
			}
		}
	}
}

// feasible refuses early what wants more nodes than there are up, or that satisfy
// its constraint.
func (s *search) feasible(op Op, now, duration int64) error {
	nodes := s.compiled.total[nodeKind]
	ever := op == AllocateWithSatisfiability
	if nodes <= s.graph.nodesUp && (s.constraint == nil || s.enoughAllowed(nodes, op, now, duration)) {
		return nil
	}
	if ever {
		return ErrUnsatisfiable
	}
	return ErrBusy
}

// enoughAllowed reports whether the constraint allows so many nodes that are free:
// for the time being, or in the end.
func (s *search) enoughAllowed(nodes int64, op Op, now, duration int64) bool {
	at := graphEnd - 1
	if op == Allocate || op == WithoutAllocating {
		at = now
	}
	s.from, s.until = at, at+duration
	for v := range s.graph.vertices {
		if nodes <= 0 {
			return true
		}
		x := &s.graph.vertices[v]
		if x.kind == nodeKind && !x.gone && (!x.down || op == AllocateWithSatisfiability) && s.allows(int32(v), x) && s.avail(x) == 1 {
			nodes--
		}
	}
	return nodes <= 0
}

// give tells what was marked, and holds it.
func (m *Matcher) give(match *Match, op Op, now, needs int64, exclusive bool) {
	u := &m.scratch.update
	*u = update{Matcher: m, now: now}
	if op != WithoutAllocating && op != WithoutAllocatingFuture {
		u.job = &job{id: match.id, from: match.At, until: match.At + match.Duration, reserved: match.Reserved, later: match.Reserved}
		u.job.holds, u.job.counts = m.scratch.holds[:0], m.scratch.held[:0]
	}
	u.out = m.scratch.out[:0]
	u.run(needs, exclusive)
	match.emissions = slices.Clone(u.out)
	m.scratch.out = u.out
	if len(m.scratch.labels) > 0 {
		match.labels = maps.Clone(m.scratch.labels)
	}
	if u.job != nil && len(u.out) > 0 {
		m.scratch.holds, m.scratch.held = u.job.holds, u.job.counts
		u.job.holds, u.job.counts = slices.Clone(u.job.holds), slices.Clone(u.job.counts)
		m.remember(u.job)
	}
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

// forget drops a job that has nothing any more.
func (m *Matcher) forget(id uint64) {
	if m.jobs[id].until == m.nextEnd {
		m.nextEnd = 0
	}
	delete(m.jobs, id)
}

// remember keeps a job.
func (m *Matcher) remember(j *job) {
	m.jobs[j.id] = j
	if !j.later && m.nextEnd > 0 {
		m.nextEnd = min(m.nextEnd, j.until)
	}
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
