// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

// job is what a job was given.
type job struct {
	id          uint64
	from, until int64
	reserved    bool
	// later: it starts later than when it was given.
	later  bool
	holds  []hold
	counts []int64
	// byVertex finds holds, where somebody asked.
	byVertex map[int32]int32
}

// hold is what a job has of one vertex.
type hold struct {
	vertex int32
	// pool is whether it holds the pool, of which it takes units.
	pool  bool
	units int64
	// counts is where its amounts of the vertex's filter start in job.counts, none if
	// it has none.
	counts int32
	// gone: given back, by a partial cancel.
	gone bool
}

// holdOf returns what a job has of a vertex; nil if nothing.
func (j *job) holdOf(v int32) *hold {
	if j.byVertex == nil {
		j.byVertex = make(map[int32]int32, len(j.holds))
		for i := range j.holds {
			j.byVertex[j.holds[i].vertex] = int32(i)
		}
	}
	i, has := j.byVertex[v]
	if !has || j.holds[i].gone {
		return nil
	}
	return &j.holds[i]
}

// remember keeps a job.
func (m *Matcher) remember(j *job) {
	m.jobs[j.id] = j
	if !j.later && m.nextEnd > 0 {
		m.nextEnd = min(m.nextEnd, j.until)
	}
}

// forget drops a job that has nothing any more.
func (m *Matcher) forget(id uint64) {
	if m.jobs[id].until == m.nextEnd {
		m.nextEnd = 0
	}
	delete(m.jobs, id)
}

// amounts are those of a hold on its vertex's timeline.
func (m *Matcher) amounts(j *job, h *hold) []int64 {
	v := &m.graph.vertices[h.vertex]
	amounts := m.scratch.amounts[:0]
	amounts = append(amounts, h.units, 1)
	if v.totals != none {
		filter := len(m.graph.filters[v.kind])
		if h.counts != none {
			amounts = append(amounts, j.counts[h.counts:][:filter]...)
		} else {
			amounts = append(amounts, m.zeros[:filter]...)
		}
	}
	m.scratch.amounts = amounts
	return amounts
}

// hold puts what a job has of a vertex on the vertex's timeline.
func (m *Matcher) hold(j *job, h *hold) {
	v := &m.graph.vertices[h.vertex]
	if v.plan == none {
		v.plan = int32(len(m.graph.plans))
		m.graph.plans = append(m.graph.plans, timeline{})
	}
	m.graph.plans[v.plan].add(j.from, j.until, m.amounts(j, h))
	m.count(v, j, h, 1)
	m.held(h.vertex, j, h, 1)
}

// count keeps the number of jobs that hold the pool, and of those that the filter
// counts.
func (m *Matcher) count(v *vertex, j *job, h *hold, n int32) {
	if h.counts != none {
		v.filtered += n
	}
	if !h.pool {
		return
	}
	if j.reserved {
		v.reservations += n
	} else {
		v.allocations += n
	}
}

// release takes what a job has of a vertex off its timeline.
func (m *Matcher) release(j *job, h *hold) {
	if h.gone {
		return
	}
	v := &m.graph.vertices[h.vertex]
	m.graph.plans[v.plan].remove(j.from, j.until, m.amounts(j, h))
	m.count(v, j, h, -1)
	m.held(h.vertex, j, h, -1)
	h.gone = true
}
