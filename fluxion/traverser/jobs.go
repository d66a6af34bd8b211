// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

// job is a job, and the vertices that it holds.
type job struct {
	id          uint64
	from, until int64
	reserved    bool
	// later is true for a job that was given before its start.
	later  bool
	holds  []hold
	counts []int64
	// byVertex finds holds by vertex. It is made when it is needed.
	byVertex map[int32]int32
}

// hold is what a job has of one vertex.
type hold struct {
	vertex int32
	// pool is true if the job holds the pool, of which it takes units.
	pool  bool
	units int64
	// counts is where the amounts of the vertex's filter start in job.counts; none if there
	// are none.
	counts int32
	// gone is true after the hold was given back.
	gone bool
}

// holdOf is what a job has of a vertex; nil if it has nothing.
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

// remember adds a job.
func (m *Matcher) remember(j *job) {
	m.jobs[j.id] = j
	if !j.later && m.nextEnd > 0 {
		m.nextEnd = min(m.nextEnd, j.until)
	}
}

// forget removes a job that has nothing any more.
func (m *Matcher) forget(id uint64) {
	if m.jobs[id].until == m.nextEnd {
		m.nextEnd = 0
	}
	delete(m.jobs, id)
}

// amounts are the amounts of a hold on the timeline of its vertex.
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

// hold adds a hold to the timeline of its vertex.
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

// count updates the numbers of jobs at a vertex.
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

// release removes a hold from the timeline of its vertex.
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
