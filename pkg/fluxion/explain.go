// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Explain says why a gang does not fit, with reasons; nil if it does.
func (g *Graph) Explain(gang Gang) *Refusal {
	_, r := g.MatchGang(gang)
	if r == nil {
		return nil
	}
	e := newExplanation(g, &gang, r)
	for i, page := range g.nodes.pages {
		e.addPage(int32(i), page)
	}
	for _, text := range slices.Sorted(maps.Keys(e.counts)) {
		r.Reasons = append(r.Reasons, Reason{text, e.counts[text]})
	}
	slices.SortStableFunc(r.Reasons, func(a, b Reason) int { return cmp.Compare(b.Nodes, a.Nodes) })
	if !r.Never {
		r.Scarcest = e.scarcest()
		r.Jobs, r.Until = g.blocking(&gang)
	}
	return r
}

// explanation counts nodes by the first reason that keeps a broker off them: first
// those that last, whoever is there, then those that pass.
type explanation struct {
	*layout
	shape  *Shape
	demand demand
	never  bool
	// several: more than one resource is asked for, so that it matters which.
	several bool
	// domains is the name of the level in one domain of which all have to be, "" if they
	// need not; level is its index, below zero if there is none of the name. now and
	// empty are how many brokers each of them has room for, now and if it were empty.
	domains    string
	level      int
	least      int64
	now, empty []int64
	counts     map[string]int
	// units are how many brokers' worth of a resource there is, by what is asked.
	units []int64
}

func newExplanation(g *Graph, gang *Gang, r *Refusal) *explanation {
	m := g.match(gang)
	e := &explanation{
		layout: g.nodes.layout, shape: &gang.Pods, never: r.Never,
		domains: r.Level, level: m.level, least: int64(r.Least), counts: map[string]int{},
	}
	if e.domains != "" && e.level >= 0 {
		e.now, e.empty = m.sizes(g.nodes.pages), m.sizes(g.nodes.empty)
	}
	if r.NoLead {
		e.shape = gang.Lead
	}
	e.demand.compile(e.resources, e.shape.Requests)
	named := 0
	for _, resource := range e.demand.asked {
		if e.resources[resource] != Pods {
			named++
		}
	}
	e.several = named > 1
	e.units = make([]int64, len(e.demand.asked))
	return e
}

// sizes are how many brokers fit, by domain of the gang's level.
func (m *gangMatch) sizes(pages []*page) []int64 {
	m.gather(pages)
	m.fits()
	var sizes []int64
	if domains := m.levels[m.level].domain; len(domains) > 0 {
		sizes = make([]int64, domains[len(domains)-1]+1)
	}
	for i := range m.outer {
		sizes[m.outer[i].id] = m.size(&m.outer[i])
	}
	return sizes
}

func (e *explanation) addPage(i int32, page *page) {
	excluded := uint64(0)
	for x := range e.shape.Infeasible {
		exclusion := &e.shape.Infeasible[x]
		nodes := exclusion.Nodes.window(e.first[i]) &^ excluded & page.all()
		e.count(exclusion.Reason, nodes)
		excluded |= nodes
	}
	for c := range page.classes {
		class := &page.classes[c]
		nodes := class.nodes &^ excluded
		text := e.lasting(i, class)
		if text == "" && !e.never {
			text = e.passing(i, class, page.left(c))
			if class.down == "" {
				e.addUnits(page.left(c), nodes)
			}
		}
		e.count(text, nodes)
	}
}

// all are the nodes of a page.
func (p *page) all() uint64 {
	nodes := uint64(0)
	for i := range p.classes {
		nodes |= p.classes[i].nodes
	}
	return nodes
}

func (e *explanation) count(text string, nodes uint64) {
	if text != "" && nodes != 0 {
		e.counts[text] += bits.OnesCount64(nodes)
	}
}

// lasting is why nodes of a class can never take a broker.
func (e *explanation) lasting(page int32, class *class) string {
	lacking := e.demand.lacking(e.resources, e.model(class.model))
	switch {
	case e.domains != "" && (e.level < 0 || !e.levels[e.level].placed[page]):
		return "in no " + e.domains
	case lacking != "":
		return "too little " + lacking
	case e.isSmall(page, e.empty):
		return "in a " + e.domains + " too small"
	}
	return ""
}

// isSmall reports whether all have to be in one domain, and that of a page has not room
// for enough of them.
func (e *explanation) isSmall(page int32, sizes []int64) bool {
	return e.domains != "" && sizes[e.levels[e.level].domain[page]] < e.least
}

// passing is why they cannot take one now.
func (e *explanation) passing(page int32, class *class, left []int64) string {
	lacking := e.demand.lacking(e.resources, left)
	switch {
	case class.down != "":
		return class.down
	case lacking != "" && e.several:
		return "in use (" + lacking + ")"
	case lacking != "":
		return "in use"
	case e.isSmall(page, e.now):
		return "in a " + e.domains + " with too little room"
	}
	return ""
}

// addUnits counts what is left for a broker on nodes that can be used.
func (e *explanation) addUnits(left []int64, nodes uint64) {
	for i, r := range e.demand.asked {
		e.units[i] += int64(bits.OnesCount64(nodes)) * (max(left[r], 0) / e.demand.amounts[r])
	}
}

// scarcest is the resource of which there is the least, by what is asked.
func (e *explanation) scarcest() string {
	if len(e.units) == 0 {
		return ""
	}
	best := 0
	for i := range e.units {
		if e.units[i] < e.units[best] {
			best = i
		}
	}
	return e.resources[e.demand.asked[best]]
}

// maxPruned is how many jobs that would have to end are looked at one by one.
const maxPruned = 100

// blocking are the jobs that would have to end for the gang to fit, and when they
// will have: those that end first, if it is known of enough of them; if not, the
// largest ones.
func (g *Graph) blocking(gang *Gang) ([]string, time.Time) {
	jobs := g.endingJobs()
	after, count := g.whenEnded(gang, jobs)
	var until time.Time
	if after != nil {
		until = jobs[count-1].end
	} else {
		jobs = g.largestJobs()
		if after, count = g.whenEnded(gang, jobs); after == nil {
			return nil, until
		}
	}
	jobs = jobs[:count]
	if count <= maxPruned {
		jobs = after.needed(gang, jobs)
	}
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.gang.Job
	}
	return ids, until
}

// largestJobs are all jobs, those with the most pods first.
func (g *Graph) largestJobs() []*gangJob {
	jobs := slices.Collect(maps.Values(g.jobs.byID))
	slices.SortFunc(jobs, func(a, b *gangJob) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), strings.Compare(a.gang.Job, b.gang.Job))
	})
	return jobs
}

// needed are those of jobs that have ended, in their order, without whose end the
// gang would not fit: as few as can be found by leaving out one after the other,
// those with the fewest pods first.
func (g *Graph) needed(gang *Gang, ended []*gangJob) []*gangJob {
	bySize := slices.Clone(ended)
	slices.SortStableFunc(bySize, func(a, b *gangJob) int { return cmp.Compare(a.pods, b.pods) })
	keep := map[*gangJob]bool{}
	for _, job := range bySize {
		g.hold(job, g.nodes.take)
		if keep[job] = !g.fitsNow(gang); keep[job] {
			g.hold(job, g.nodes.give)
		}
	}
	return slices.DeleteFunc(slices.Clone(ended), func(job *gangJob) bool { return !keep[job] })
}
