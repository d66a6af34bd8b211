// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

// A step that returns two empty answers was not done, because the library does not survive
// the step, or has wrong counts after the step.

// operations are the match operations of both.
var operations = []struct {
	ours   traverser.Op
	theirs reapi.MatchOp
	name   string
	gives  bool // the operation makes a job
}{
	{traverser.Allocate, reapi.MatchAllocate, "allocate", true},
	{traverser.AllocateOrElseReserve, reapi.MatchAllocateOrElseReserve, "allocate_orelse_reserve", true},
	{traverser.AllocateWithSatisfiability, reapi.MatchAllocateWithSatisfiability, "allocate_with_satisfiability", true},
	{traverser.Satisfiability, reapi.MatchSatisfiability, "satisfiability", false},
	{traverser.WithoutAllocating, reapi.MatchWithoutAllocating, "without_allocating", false},
	{traverser.WithoutAllocatingFuture, reapi.MatchWithoutAllocatingFuture, "without_allocating_future", false},
}

// match is not done for racks after a partial cancel: the library has forgotten then that
// the job is in the rack.
func (p *pair) match(op int, id uint64, text string) (ours, theirs string) {
	operation := operations[op]
	partly := slices.ContainsFunc(slices.Collect(maps.Values(p.jobs)), func(j held) bool { return j.partly })
	if partly && (strings.Contains(text, "rack") || strings.Contains(text, "cluster")) {
		return "", ""
	}
	ours = p.matchOurs(op, id, text)
	allocation, err := p.theirs.MatchWithJobid(operation.theirs, id, text)
	if theirs = outcome(err, ""); err == nil && operation.ours != traverser.Satisfiability {
		theirs = outcome(nil, allocated(allocation.R, allocation.At, allocation.Reserved))
	}
	return ours, theirs
}

func (p *pair) matchOurs(op int, id uint64, text string) string {
	operation := operations[op]
	spec, err := jobspec.Parse([]byte(text))
	if err != nil {
		return err.Error()
	}
	match, err := p.ours.Match(operation.ours, spec, id, 0)
	r := ""
	if err == nil {
		r, err = match.Encode(p.format)
	}
	switch {
	case err != nil:
		return outcome(err, "")
	case operation.ours == traverser.Satisfiability:
		return "ok: "
	case r == "" && operation.gives: // the client cancels such a job
		return outcome(errors.Join(traverser.ErrInvalid, p.ours.Cancel(id)), "")
	}
	if operation.gives {
		jgf, err := match.Encode(traverser.JGF)
		if err != nil {
			return err.Error()
		}
		p.jobs[id] = held{r: jgf, at: match.At, duration: match.Duration, reserved: match.Reserved}
	}
	return outcome(nil, allocated(r, match.At, match.Reserved && operation.gives))
}

func (p *pair) cancel(id uint64) (ours, theirs string) {
	delete(p.jobs, id)
	return outcome(p.ours.Cancel(id), ""), outcome(p.theirs.Cancel(id, false), "")
}

// setStatus is not done below or above a vertex that is down. The library counts the nodes
// that are up, and refuses jobs by that number. It would count such nodes twice.
func (p *pair) setStatus(path string, up bool) (ours, theirs string) {
	for down := range p.down {
		if strings.HasPrefix(down, path+"/") || strings.HasPrefix(path, down+"/") {
			return "", ""
		}
	}
	status := reapi.StatusDown
	if up {
		status = reapi.StatusUp
	}
	ours, theirs = outcome(p.ours.SetStatus(path, up), ""), outcome(p.theirs.SetStatus(path, status), "")
	if delete(p.down, path); !up && ours == "ok: " {
		p.down[path] = true
	}
	return ours, theirs
}

// attach adds a node that is down, and then sets the node up, because the library counts no
// other nodes. It is not done where jobs are: the library's planner does not learn of the
// node for the time after these jobs.
func (p *pair) attach(subgraph, path string) (ours, theirs string) {
	if len(p.jobs) > 0 || len(p.down) > 0 {
		return "", ""
	}
	theirErr := p.theirs.AddSubgraph(subgraph)
	if errors.Is(theirErr, reapi.ErrState) { // the library would crash
		return "", ""
	}
	ours, theirs = outcome(p.ours.Attach(strings.NewReader(subgraph)), ""), outcome(theirErr, "")
	if ours != theirs {
		return ours, theirs
	}
	return p.setStatus(path, true)
}

// remove sets a vertex down, and then removes the vertex. The library would still count a
// vertex that was up. It is not done where jobs are.
func (p *pair) remove(path string) (ours, theirs string) {
	for _, j := range p.jobs {
		if strings.Contains(j.r, path) {
			return "", ""
		}
	}
	if ours, theirs = p.setStatus(path, false); ours != theirs || ours != "ok: " {
		return ours, theirs
	}
	theirErr := p.theirs.RemoveSubgraph(path)
	if errors.Is(theirErr, reapi.ErrInvalid) { // the last child of its parent: the library would hang
		return "", ""
	}
	delete(p.down, path)
	p.removed = true
	return outcome(p.ours.Remove(path), ""), outcome(theirErr, "")
}

func (p *pair) find(expression string, format traverser.Format) (ours, theirs string) {
	found, err := p.ours.Find(expression, format)
	var compact bytes.Buffer // here alone the library leaves out blanks
	if err == nil && found != "" {
		err = json.Compact(&compact, []byte(found))
	}
	ours = outcome(err, strings.TrimSuffix(compact.String(), "\n"))
	found, err = p.theirs.Find(expression, string(format))
	return ours, outcome(err, found)
}

// clone clones both, and cancels all jobs in the clones. The originals stay as they are.
//
// Nothing is matched in the clones. The library counts the matches of a clone from 0, and
// takes vertices for chosen that the original has chosen in its match of the same number.
// After a removal nothing is cloned: clones of the library know no types that have gone.
func (p *pair) clone() (ours, theirs string) {
	if p.removed {
		return "", ""
	}
	theirClone, err := p.theirs.Clone()
	switch {
	case errors.Is(err, reapi.ErrState): // the library would hang
		return "", ""
	case err != nil:
		return "", err.Error()
	}
	defer theirClone.Destroy()
	c := &pair{p.ours.Clone(), theirClone, p.format, p.prune, maps.Clone(p.jobs), maps.Clone(p.down), false}
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		if ours, theirs = c.cancel(id); ours != theirs {
			return ours, theirs
		}
	}
	if ours, theirs = c.find("agfilter=true", traverser.JGF); ours != theirs {
		return ours, theirs
	}
	return p.find("agfilter=true", traverser.JGF)
}

// partialCancel gives back what a job has exclusively on some ranks. A job that has something
// on few ranks may give back everything.
func (p *pair) partialCancel(id uint64, byRank bool, choice uint64) (ours, theirs string) {
	job, has := p.jobs[id]
	if !has {
		return "", ""
	}
	var all document
	if err := json.Unmarshal([]byte(job.r), &all); err != nil {
		return err.Error(), ""
	}
	if !p.countsEverywhere(all) || unranked(all) {
		return "", ""
	}
	some, rest, ranks := divide(all, choice)
	if len(ranks) == 0 || !byRank && scattered(some) {
		return "", ""
	}
	format, r := "jgf", asJSON(some)
	full := asJSON(map[string]any{"version": 1, "scheduling": some})
	if byRank {
		format, full = "rv1exec", rlite(ranks)
		r = full
	}
	gone, err := p.ours.PartialCancel(id, format, r)
	ours = outcome(err, fmt.Sprint("gone ", gone))
	theirGone, theirErr := p.theirs.PartialCancel(id, full, false)
	if job.r, job.partly = asJSON(rest), true; err == nil {
		p.jobs[id] = job
	}
	if gone {
		delete(p.jobs, id)
	}
	if job.reserved && ours == "invalid" && errors.Is(theirErr, reapi.ErrNotFound) { // both mean a reservation
		return "reserved", "reserved"
	}
	return ours, outcome(theirErr, fmt.Sprint("gone ", theirGone))
}

// divide takes out what a job has exclusively on the ranks that the bits of a choice name.
func divide(all document, choice uint64) (some, rest document, ranks map[int]bool) {
	ranks = map[int]bool{}
	some.Graph.Edges = []connection{}
	for _, v := range all.Graph.Nodes {
		if m := v.Metadata; m.Exclusive && choice>>(m.Rank%64)&1 == 1 {
			ranks[m.Rank] = true
			some.Graph.Nodes = append(some.Graph.Nodes, v)
			continue
		}
		rest.Graph.Nodes = append(rest.Graph.Nodes, v)
	}
	return some, rest, ranks
}

// rlite is an R that names ranks.
func rlite(ranks map[int]bool) string {
	var rlite []any
	for rank := range ranks {
		rlite = append(rlite, map[string]any{"rank": fmt.Sprint(rank), "children": map[string]string{"core": "0"}})
	}
	return asJSON(map[string]any{"version": 1, "execution": map[string]any{"R_lite": rlite}})
}

// unranked reports whether a job has something exclusively that has no rank. The library
// never gives back such a vertex.
func unranked(held document) bool {
	return slices.ContainsFunc(held.Graph.Nodes, func(v vertex) bool {
		return v.Metadata.Exclusive && v.Metadata.Rank < 0
	})
}

// countsEverywhere reports whether a filter counts something of what is held on each rank.
// Elsewhere the library believes that a job is gone that holds more there.
func (p *pair) countsEverywhere(held document) bool {
	counted := map[int]bool{}
	for _, v := range held.Graph.Nodes {
		if rank := v.Metadata.Rank; v.Metadata.Exclusive {
			counted[rank] = counted[rank] || strings.Contains(p.prune, "ALL:"+v.Metadata.Type)
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(counted)), false)
}

// scattered reports whether what is held of some rank is in several places. The library
// subtracts all of it in the filters above the first place. Then it finds too little there,
// and stops half-way.
func scattered(held document) bool {
	inside := map[string]bool{}
	for _, v := range held.Graph.Nodes {
		inside[v.Metadata.Paths["containment"]] = true
	}
	places := map[int]string{}
	for _, v := range held.Graph.Nodes {
		place := path.Dir(v.Metadata.Paths["containment"])
		if inside[place] {
			continue
		}
		if known := places[v.Metadata.Rank]; known != "" && known != place {
			return true
		}
		places[v.Metadata.Rank] = place
	}
	return false
}

// update cancels a job, and then allocates the same again by the job's R.
func (p *pair) update(id uint64) (ours, theirs string) {
	job, has := p.jobs[id]
	if !has || job.reserved || job.partly {
		return "", ""
	}
	if ours, theirs = p.cancel(id); ours != theirs {
		return ours, theirs
	}
	r := fmt.Sprintf(
		`{"version": 1, "execution": {"R_lite": [], "nodelist": [], "starttime": %d, "expiration": %d}, "scheduling": %s}`,
		job.at, job.at+job.duration, job.r)
	match, err := p.ours.Update(id, "jgf", r, job.at, job.duration)
	text := ""
	if err == nil {
		text, err = match.Encode(p.format)
		p.jobs[id] = job
	}
	allocation, theirErr := p.theirs.UpdateAllocate(id, r)
	return outcome(err, strings.TrimSuffix(text, "\n")), outcome(theirErr, strings.TrimSuffix(allocation.R, "\n"))
}

// choose is the id of a job, or seldom an id that no job has.
func (p *pair) choose(choice uint64) uint64 {
	ids := append(slices.Sorted(maps.Keys(p.jobs)), 1000)
	return ids[choice%uint64(len(ids))]
}
