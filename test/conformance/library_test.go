// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/traverser"
)

// TestLibrary does random things to random graphs with Fluxion's library and with our
// matcher: what comes of it is the same, byte for byte.
func TestLibrary(t *testing.T) {
	file := os.Getenv("FLUXION_LIBRARY")
	if file == "" {
		t.Skip("FLUXION_LIBRARY does not name a libreapi_cli.so of flux-sched 0.54 or later")
	}
	library, err := reapi.Open(file)
	check(t, err)
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 100
	}
	compared := map[string]int{}
	for seed := range seeds {
		r := newRandom(seed)
		l := life{library: library, graph: r.graph(), options: r.options()}
		for range 40 {
			l.steps = append(l.steps, r.step())
		}
		if problem := l.compare(compared); problem != "" {
			t.Fatalf("seed %d: %s", seed, l.shrink())
		}
	}
	t.Logf("Compared: %v", compared)
}

// deviations are where Fluxion is not like ours, and ours means to be as it is. What
// ends the life leaves the two in different states.
//
// These are not met, as the library would crash, hang, or go on with books that are
// wrong; where they would be, it says how:
//   - Clones: see clone.
//   - Changes of the graph where jobs are: see attach, remove.
//   - Nodes that go up or down twice, or are down from the start: see setStatus, add.
//   - Partial cancels where filters do not count all, of scattered parts, of what has no
//     rank, and requests for racks after them: see partialCancel, match.
//   - Types that some vertices have below them, and others do not: see graph.
//   - Requests that leave out a level in the middle: see nodes.
var deviations = []struct {
	why     string
	accepts func(d difference) bool
	ends    bool
}{
	{
		"a type that no vertex has is known to the library where another graph in the process has had it",
		func(d difference) bool {
			return d.ours == "invalid, never" && slices.Contains([]string{"busy", "never", "invalid"}, d.theirs)
		},
		false,
	},
	{
		"JGF of the root alone cannot be written, and the library says that it is not there",
		func(d difference) bool { return strings.Contains(d.ours, "only the root") && d.theirs == "not found" },
		false,
	},
	{
		"the library's planner looks for a later time at the ends of those jobs alone of which the first type of the root's filter " +
			"knows: not of one that no filter counts, and hardly of one that was partly given back",
		func(d difference) bool {
			at, _, _ := strings.Cut(d.ours, ", reserved")
			return slices.ContainsFunc(slices.Collect(maps.Values(d.jobs)), func(j held) bool {
				return (!d.counts(j) || j.partly) && strings.HasSuffix(at, fmt.Sprint(" at ", j.at+j.duration))
			})
		},
		true,
	},
}

// difference is one that may be known.
type difference struct {
	kind, ours, theirs string
	jobs               map[uint64]held
	prune              string
}

// counts reports whether the root's filter counts anything of a job. Types of leaves
// are counted in any case.
func (d difference) counts(j held) bool {
	var r document
	if err := json.Unmarshal([]byte(j.r), &r); err != nil {
		panic(err) // it was made by us
	}
	return slices.ContainsFunc(r.Graph.Nodes, func(v vertex) bool {
		kind := v.Metadata.Type
		return slices.Contains([]string{"core", "memory", "gpu"}, kind) || strings.Contains(d.prune, "ALL:"+kind)
	})
}

// known is the reason for a difference, "" if it is not known.
func (d difference) known() (why string, ends bool) {
	for _, deviation := range deviations {
		if deviation.accepts(d) {
			return deviation.why, deviation.ends
		}
	}
	return "", false
}

// life is a graph and what is done to it.
type life struct {
	library *reapi.Library
	graph   string
	options options
	steps   []step
	// told is what came of the steps, ours.
	told []string
}

type options struct {
	Load   string           `json:"load_format"`
	Policy string           `json:"matcher_policy"`
	Prune  string           `json:"prune_filters"`
	Format traverser.Format `json:"match_format"`
}

// step is one thing to do. It says what came of it, ours and theirs.
type step struct {
	kind, what string
	run        func(p *pair) (ours, theirs string)
}

// pair is a matcher and a client of the library that have lived the same.
type pair struct {
	ours   *traverser.Matcher
	theirs *reapi.Client
	format traverser.Format
	prune  string
	// jobs are those that hold something, with their R in JGF.
	jobs map[uint64]held
	// down are the paths of what is down.
	down map[string]bool
	// removed: something was taken out of the graph.
	removed bool
}

type held struct {
	r            string
	at, duration int64
	reserved     bool
	// partly: a part of it was given back.
	partly bool
}

// compare lives the life, and says where the two differ; "" if they do not. It counts
// what was compared.
func (l *life) compare(compared map[string]int) string {
	p, err := l.open()
	if err != nil {
		return err.Error()
	}
	defer func() { p.theirs.Destroy() }()
	l.told = nil
	for i, s := range l.steps {
		ours, theirs := s.run(p)
		l.told = append(l.told, ours)
		if ours != theirs {
			why, ends := difference{s.kind, ours, theirs, p.jobs, p.prune}.known()
			if why != "" {
				compared["but "+why]++
				if ends {
					return ""
				}
				continue
			}
			return fmt.Sprintf("step %d, %s %s:\n%s", i, s.kind, s.what, apart(ours, theirs))
		}
		word, _, _ := strings.Cut(ours, ":")
		compared[s.kind+" "+word]++
	}
	return ""
}

// apart shows two texts from shortly before where they differ.
func apart(ours, theirs string) string {
	const before, shown = 300, 900
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	cut := func(text string) string {
		text = text[max(at-before, 0):]
		return text[:min(len(text), shown)]
	}
	return "ours:   " + cut(ours) + "\ntheirs: " + cut(theirs)
}

func (l *life) open() (*pair, error) {
	graph, err := traverser.ReadJGF(strings.NewReader(l.graph))
	if err != nil {
		return nil, err
	}
	ours, err := traverser.NewMatcher(graph, traverser.Options{Policy: l.options.Policy, PruneFilters: l.options.Prune})
	if err != nil {
		return nil, err
	}
	theirs, err := l.library.NewClient()
	if err != nil {
		return nil, err
	}
	return &pair{ours, theirs, l.options.Format, l.options.Prune, map[uint64]held{}, map[string]bool{}, false}, theirs.InitContext(l.graph, asJSON(l.options))
}

// shrink leaves out steps as long as there still is a difference, and tells of it.
func (l *life) shrink() string {
	for i := len(l.steps) - 1; i >= 0 && len(l.steps) > 1; i-- {
		shorter := *l
		shorter.steps = slices.Delete(slices.Clone(l.steps), i, i+1)
		if shorter.compare(map[string]int{}) != "" {
			l.steps = shorter.steps
		}
	}
	problem := l.compare(map[string]int{})
	out := fmt.Sprintf("graph %s\noptions %+v\n", l.graph, l.options)
	for i, ours := range l.told {
		out += fmt.Sprintf("%d %s %s\n%.1000s\n", i, l.steps[i].kind, l.steps[i].what, ours)
	}
	return out + problem
}

// reasons are errors that mean the same.
var reasons = []struct {
	ours, theirs error
	word         string
}{
	{traverser.ErrInvalid, reapi.ErrInvalid, "invalid"},
	{traverser.ErrBusy, reapi.ErrBusy, "busy"},
	{traverser.ErrUnsatisfiable, reapi.ErrUnsatisfiable, "never"},
	{traverser.ErrNotFound, reapi.ErrNotFound, "not found"},
	{traverser.ErrExists, reapi.ErrExists, "exists"},
}

// outcome is an error, or else a text that begins with "ok".
func outcome(err error, text string) string {
	if err == nil {
		return "ok: " + text
	}
	var words []string
	for _, r := range reasons {
		if errors.Is(err, r.ours) || errors.Is(err, r.theirs) {
			words = append(words, r.word)
		}
	}
	if len(words) == 0 {
		return err.Error()
	}
	return strings.Join(words, ", ")
}

func allocated(r string, at int64, reserved bool) string {
	return fmt.Sprintf("%s at %d, reserved %v", strings.TrimSuffix(r, "\n"), at, reserved)
}

// operations of both.
var operations = []struct {
	ours   traverser.Op
	theirs reapi.MatchOp
	name   string
	gives  bool // it makes a job
}{
	{traverser.Allocate, reapi.MatchAllocate, "allocate", true},
	{traverser.AllocateOrElseReserve, reapi.MatchAllocateOrElseReserve, "allocate_orelse_reserve", true},
	{traverser.AllocateWithSatisfiability, reapi.MatchAllocateWithSatisfiability, "allocate_with_satisfiability", true},
	{traverser.Satisfiability, reapi.MatchSatisfiability, "satisfiability", false},
	{traverser.WithoutAllocating, reapi.MatchWithoutAllocating, "without_allocating", false},
	{traverser.WithoutAllocatingFuture, reapi.MatchWithoutAllocatingFuture, "without_allocating_future", false},
}

func (p *pair) match(op int, id uint64, text string) (ours, theirs string) {
	operation := operations[op]
	spec, err := jobspec.Parse([]byte(text))
	if err != nil {
		return err.Error(), ""
	}
	if strings.Contains(text, "rack") || strings.Contains(text, "cluster") {
		for _, j := range p.jobs {
			if j.partly { // the library has forgotten that the job is in the rack
				return "", ""
			}
		}
	}
	match, err := p.ours.Match(operation.ours, spec, id, 0)
	r := ""
	if err == nil {
		r, err = match.Encode(p.format)
	}
	switch {
	case err != nil:
		ours = outcome(err, "")
	case operation.ours == traverser.Satisfiability:
		ours = "ok: "
	case r == "" && operation.gives: // the client gives such a job back
		ours = outcome(errors.Join(traverser.ErrInvalid, p.ours.Cancel(id)), "")
	default:
		ours = outcome(nil, allocated(r, match.At, match.Reserved && operation.gives))
		if operation.gives {
			jgf, err := match.Encode(traverser.JGF)
			if err != nil {
				return err.Error(), ""
			}
			p.jobs[id] = held{r: jgf, at: match.At, duration: match.Duration, reserved: match.Reserved}
		}
	}
	allocation, err := p.theirs.MatchWithJobid(operation.theirs, id, text)
	if theirs = outcome(err, ""); err == nil && operation.ours != traverser.Satisfiability {
		theirs = outcome(nil, allocated(allocation.R, allocation.At, allocation.Reserved))
	}
	return ours, theirs
}

func (p *pair) cancel(id uint64) (ours, theirs string) {
	delete(p.jobs, id)
	return outcome(p.ours.Cancel(id), ""), outcome(p.theirs.Cancel(id, false), "")
}

// setStatus does nothing where the library would lose count of the nodes that are up,
// by which it refuses jobs: it does not look whether a node that goes up or down with
// what it is in has gone by itself.
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

// attach adds a node that is down, and then up: the library does not count it else. It
// is not done where jobs are: the library's planner does not learn of it for the time
// after them.
func (p *pair) attach(subgraph, path string) (ours, theirs string) {
	if len(p.jobs) > 0 || len(p.down) > 0 {
		return "", ""
	}
	theirErr := p.theirs.AddSubgraph(subgraph)
	if errors.Is(theirErr, reapi.ErrState) { // it would crash
		return "", ""
	}
	ours, theirs = outcome(p.ours.Attach(strings.NewReader(subgraph)), ""), outcome(theirErr, "")
	if ours != theirs {
		return ours, theirs
	}
	return p.setStatus(path, true)
}

// remove takes away a vertex on which no job is, after it was set down: the library
// would count it on. Clones are not compared from then on: those of the
// library know nothing of types that have gone.
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
	if errors.Is(theirErr, reapi.ErrInvalid) { // the last of its parent: it would hang
		return "", ""
	}
	delete(p.down, path)
	p.removed = true
	return outcome(p.ours.Remove(path), ""), outcome(theirErr, "")
}

func (p *pair) find(expression string, format traverser.Format) (ours, theirs string) {
	found, err := p.ours.Find(expression, format)
	var compact bytes.Buffer // the library leaves out blanks, here alone
	if err == nil && found != "" {
		err = json.Compact(&compact, []byte(found))
	}
	ours = outcome(err, strings.TrimSuffix(compact.String(), "\n"))
	found, err = p.theirs.Find(expression, string(format))
	return ours, outcome(err, found)
}

// clone empties clones, which leaves the originals as they are. Nothing is matched in
// the library's: it counts its traversals anew, and takes edges that the original
// marked in one of the same number for its own choice.
func (p *pair) clone() (ours, theirs string) {
	if p.removed {
		return "", ""
	}
	theirClone, err := p.theirs.Clone()
	switch {
	case errors.Is(err, reapi.ErrState): // it would hang
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

// partialCancel gives back what a job has exclusively in some nodes, all of it if it
// has something in few.
func (p *pair) partialCancel(id uint64, byRank bool, choice uint64) (ours, theirs string) {
	job, has := p.jobs[id]
	if !has {
		return "", ""
	}
	var all, some, rest document
	if err := json.Unmarshal([]byte(job.r), &all); err != nil {
		return err.Error(), ""
	}
	ranks := map[int]bool{}
	if !p.countsEverywhere(all) {
		return "", ""
	}
	some.Graph.Edges = []connection{}
	for _, v := range all.Graph.Nodes {
		if v.Metadata.Exclusive && v.Metadata.Rank < 0 {
			return "", "" // the library never gives it back
		}
		if v.Metadata.Exclusive && v.Metadata.Rank >= 0 && choice>>(v.Metadata.Rank%64)&1 == 1 {
			ranks[v.Metadata.Rank] = true
			some.Graph.Nodes = append(some.Graph.Nodes, v)
			continue
		}
		rest.Graph.Nodes = append(rest.Graph.Nodes, v)
	}
	if len(ranks) == 0 || !byRank && scattered(some) {
		return "", ""
	}
	format, r := "jgf", asJSON(some)
	full := asJSON(map[string]any{"version": 1, "scheduling": some})
	if byRank {
		var rlite []any
		for rank := range ranks {
			rlite = append(rlite, map[string]any{"rank": fmt.Sprint(rank), "children": map[string]string{"core": "0"}})
		}
		format, r = "rv1exec", asJSON(map[string]any{"version": 1, "execution": map[string]any{"R_lite": rlite}})
		full = r
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
	if job.reserved && ours == "invalid" && errors.Is(theirErr, reapi.ErrNotFound) { // in other words
		return "reserved", "reserved"
	}
	return ours, outcome(theirErr, fmt.Sprint("gone ", theirGone))
}

// countsEverywhere reports whether all filters count what is held of a rank: else the
// library takes a job that has more there for one that is gone.
func (p *pair) countsEverywhere(held document) bool {
	counted := map[int]bool{}
	for _, v := range held.Graph.Nodes {
		if rank := v.Metadata.Rank; v.Metadata.Exclusive {
			counted[rank] = counted[rank] || strings.Contains(p.prune, "ALL:"+v.Metadata.Type)
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(counted)), false)
}

// scattered reports whether what is held of some rank is in several places: the
// library takes all of it off the filters above the first, finds too little there, and
// leaves it half done.
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

// update gives a job back, and then again by its R.
func (p *pair) update(id uint64) (ours, theirs string) {
	job, has := p.jobs[id]
	if !has || job.reserved || job.partly {
		return "", ""
	}
	if ours, theirs = p.cancel(id); ours != theirs {
		return ours, theirs
	}
	r := fmt.Sprintf(`{"version": 1, "execution": {"R_lite": [], "nodelist": [], "starttime": %d, "expiration": %d}, "scheduling": %s}`,
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

// document is JGF.
type document struct {
	Graph struct {
		Nodes []vertex     `json:"nodes"`
		Edges []connection `json:"edges"`
	} `json:"graph"`
}

type vertex struct {
	ID       string `json:"id"`
	Metadata struct {
		Type       string            `json:"type"`
		Name       string            `json:"name,omitempty"`
		ID         int               `json:"id"`
		Rank       int               `json:"rank"`
		Size       int               `json:"size,omitempty"`
		Status     int               `json:"status,omitempty"`
		Exclusive  bool              `json:"exclusive,omitempty"`
		Properties map[string]string `json:"properties,omitempty"`
		Paths      map[string]string `json:"paths"`
	} `json:"metadata"`
}

type connection struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // there is nothing in it that is not JSON
	}
	return string(text)
}

// random makes graphs, and things to do to them.
type random struct {
	*rand.Rand
	document document
	// ids are those given to vertices of a type, and spread is an order of ids that
	// are far apart; local ones start anew in every parent.
	ids    map[string]int
	spread []int
	local  bool
	// cores is how many there are about; sockets are between nodes and cores.
	cores   int
	sockets bool
	steps   uint64
	// grown: a node was attached.
	grown bool
}

// few cores leave room for one more node.
const few = 8

func newRandom(seed uint64) *random {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 7)), ids: map[string]int{}, cores: few}
	switch r.IntN(4) {
	case 0:
		r.local = true
	case 1:
		r.spread = r.Perm(4000)
	case 2:
		r.spread, r.cores = r.Perm(4000), 60
	}
	return r
}

func (r *random) options() options {
	policies := []string{
		"first", "firstnodex", "high", "low", "hinode", "lonode", "hinodex", "lonodex",
		"policy=low node_centric=true stop_on_1_matches=true", "policy=high node_exclusive=true",
	}
	if r.cores == few { // classes and runs of ids have many ties
		policies = append(policies, "locality", "variation")
	}
	return options{
		Load: "jgf", Policy: policies[r.IntN(len(policies))],
		Prune:  []string{"ALL:core,ALL:node", "ALL:core", "ALL:node,ALL:memory", "ALL:gpu,ALL:core", "rack:node,node:core,cluster:gpu"}[r.IntN(5)],
		Format: []traverser.Format{traverser.JGF, traverser.JGF, traverser.RV1NoSched, traverser.Simple}[r.IntN(4)],
	}
}

// graph is a cluster. It has no more than 16 of anything, as so few are sorted the
// same by a sort that is stable and by one that is not, and ties do not matter; or it
// has more, and their ids are so far apart that there are no ties. Of a type, all
// vertices are leaves or none: else the library's root counts those alone that come
// after the first leaf.
func (r *random) graph() string {
	uneven := r.IntN(3) == 0
	r.sockets = r.IntN(2) == 0
	root := r.add(-1, "cluster", 0, -1, 1)
	cores := 0
	for i := range 1 + r.IntN(3) {
		rack := r.add(root, "rack", i, -1, 1)
		for k := range 1 + r.IntN(max(r.cores/3, 4)) {
			if cores >= r.cores && k > 0 {
				break
			}
			cores += r.addNode(rack, k, r.cores-cores, uneven)
		}
	}
	return asJSON(r.document)
}

// addNode makes a node of at most so many cores, but one in each socket, and returns
// how many it has.
func (r *random) addNode(rack, nth, most int, uneven bool) (cores int) {
	rank := r.ids["node"]
	node := r.add(rack, "node", nth, rank, 1)
	parents := []int{node}
	if r.sockets {
		parents = nil
		for i := range 1 + r.IntN(2) {
			parents = append(parents, r.add(node, "socket", i, rank, 1))
		}
	}
	for _, parent := range parents {
		for i := range max(1, min(1+r.IntN(4), most-cores)) {
			r.add(parent, "core", i, rank, 1)
			cores++
		}
		for i := range r.IntN(3) {
			size := 4
			if uneven {
				size = 1 + r.IntN(4)
			}
			r.add(parent, "memory", i, rank, size)
		}
		for i := range r.IntN(2) {
			r.add(parent, "gpu", i, rank, 1)
		}
	}
	return cores
}

// add makes a vertex; parent -1 makes the root.
func (r *random) add(parent int, kind string, nth, rank, size int) int {
	id := r.ids[kind]
	r.ids[kind]++
	switch {
	case r.local:
		id = nth
	case r.spread != nil:
		id = r.spread[len(r.document.Graph.Nodes)]
	}
	var v vertex
	v.ID = fmt.Sprint(len(r.document.Graph.Nodes))
	m := &v.Metadata
	m.Type, m.ID, m.Rank, m.Size = kind, id, rank, size
	if parent >= 0 && rank >= 0 && kind != "node" && r.IntN(25) == 0 {
		m.Status = 1 // a node that is down from the start counts for less than none
	}
	name := fmt.Sprint(kind, id)
	if kind == "node" {
		m.Properties = map[string]string{"perf_class": fmt.Sprint(r.IntN(4))}
		if r.IntN(2) == 0 {
			m.Properties["fast"] = ""
		}
	}
	m.Paths = map[string]string{"containment": "/" + name}
	if parent >= 0 {
		above := r.document.Graph.Nodes[parent]
		m.Paths["containment"] = above.Metadata.Paths["containment"] + "/" + name
		r.document.Graph.Edges = append(r.document.Graph.Edges, connection{above.ID, v.ID})
	}
	r.document.Graph.Nodes = append(r.document.Graph.Nodes, v)
	return len(r.document.Graph.Nodes) - 1
}

func (r *random) path() string {
	return r.document.Graph.Nodes[r.IntN(len(r.document.Graph.Nodes))].Metadata.Paths["containment"]
}

// step is a random thing to do.
func (r *random) step() step {
	r.steps++
	choice, path, yes := r.Uint64(), r.path(), r.IntN(2) == 0
	switch n := r.IntN(100); {
	case n < 20:
		return step{"cancel", "", func(p *pair) (string, string) { return p.cancel(p.choose(choice)) }}
	case n < 28:
		return step{"partial cancel", "", func(p *pair) (string, string) { return p.partialCancel(p.choose(choice), yes, choice) }}
	case n < 32:
		return step{"update", "", func(p *pair) (string, string) { return p.update(p.choose(choice)) }}
	case n < 38:
		return step{"status", fmt.Sprint(path, yes), func(p *pair) (string, string) { return p.setStatus(path, yes) }}
	case n < 52:
		expression := r.expression()
		format := []traverser.Format{traverser.JGF, traverser.RV1NoSched}[r.IntN(2)]
		return step{"find", fmt.Sprint(expression, " in ", format), func(p *pair) (string, string) {
			return p.find(strings.ReplaceAll(expression, "JOB", fmt.Sprint(p.choose(choice))), format)
		}}
	case n < 55:
		return step{"clone", "", (*pair).clone}
	case n < 57 && (r.cores > few || !r.grown):
		r.grown = true
		return r.attach()
	case n < 59:
		return step{"remove", path, func(p *pair) (string, string) { return p.remove(path) }}
	}
	op := r.IntN(len(operations))
	text, id := r.jobspec(), r.steps
	return step{"match " + operations[op].name, fmt.Sprint(id, text), func(p *pair) (string, string) { return p.match(op, id, text) }}
}

// attach is the step of adding a node to a rack.
func (r *random) attach() step {
	grown := *r
	grown.document = document{}
	rack := 0
	for i, v := range r.document.Graph.Nodes {
		if v.Metadata.Type == "rack" && (rack == 0 || r.IntN(2) == 0) {
			rack = i
		}
	}
	known := len(r.document.Graph.Nodes)
	r.addNode(rack, known, 4, true)
	all := r.document.Graph
	all.Nodes[known].Metadata.Status = 1
	grown.document.Graph.Nodes = append([]vertex{all.Nodes[0], all.Nodes[rack]}, all.Nodes[known:]...)
	grown.document.Graph.Edges = append([]connection{{all.Nodes[0].ID, all.Nodes[rack].ID}}, all.Edges[known-1:]...)
	subgraph, path := asJSON(grown.document), all.Nodes[known].Metadata.Paths["containment"]
	return step{"attach", subgraph, func(p *pair) (string, string) { return p.attach(subgraph, path) }}
}

// choose is a job, as a rule one that is there.
func (p *pair) choose(choice uint64) uint64 {
	ids := append(slices.Sorted(maps.Keys(p.jobs)), 1000)
	return ids[choice%uint64(len(ids))]
}

func (r *random) expression() string {
	predicates := []string{
		"status=up", "status=down", "sched-now=allocated", "sched-now=free", "sched-future=reserved", "sched-future=free",
		"agfilter=true", "property=fast", fmt.Sprintf("names=node[0-%d]", r.IntN(4)),
		"jobid-alloc=JOB", "jobid-reserved=JOB", "jobid-span=JOB", "jobid-tag=JOB",
	}
	one := func() string { return predicates[r.IntN(len(predicates))] }
	switch r.IntN(4) {
	case 0:
		return one() + []string{" and ", " or "}[r.IntN(2)] + one()
	case 1:
		return one() + " and (" + one() + " or " + one() + ")"
	}
	return one()
}

// jobspec is a request for slots, nodes, or what else there may be.
func (r *random) jobspec() string {
	resources := r.resources()
	constraint := []string{
		"", "", `, "constraints": {"properties": ["fast"]}`, `, "constraints": {"not": [{"ranks": ["1-2"]}]}`,
		`, "constraints": {"or": [{"hostlist": ["node[1-2]"]}, {"properties": ["^fast"]}]}`,
	}[r.IntN(5)]
	return fmt.Sprintf(`{"version": 1, "resources": [%s], "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}], `+
		`"attributes": {"system": {"duration": %d%s}}}`, resources, 100*(1+r.IntN(3)), constraint)
}

func (r *random) resources() string {
	oneNode := fmt.Sprintf(`{"type": "node", "count": 1%s}`, []string{"", `, "with": [{"type": "core", "count": 2}]`, `, "with": [{"type": "socket", "count": 1}]`}[r.IntN(3)])
	switch r.IntN(12) {
	case 0, 1:
		return r.slot(r.leaves())
	case 2:
		return r.slot(oneNode)
	case 3:
		return r.slot(r.some("node", ""))
	case 4:
		return r.slot(`{"type": "core", "count": 1}`)
	case 5:
		return r.nodes()
	case 6:
		return r.some("node", r.some("socket", r.slot(r.leaves())))
	case 7:
		return r.some("rack", r.nodes())
	case 8:
		return r.some("rack", r.slot(oneNode))
	case 9:
		return r.some("socket", r.slot(r.leaves()))
	case 10:
		return r.slot(r.some("rack", ""))
	}
	return r.some("cluster", r.some("rack", r.slot(oneNode)))
}

// nodes have slots in them. Where a request leaves out sockets below nodes, what is
// chosen does not hang together: there is nothing to give, for which the library tells
// the reason that something else had before.
func (r *random) nodes() string {
	if r.sockets {
		return r.some("node", r.some("socket", r.slot(r.leaves())))
	}
	return r.some("node", r.slot(r.leaves()))
}

func (r *random) count(most int) string {
	low := 1 + r.IntN(1+r.IntN(most))
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf(`{"min": %d}`, low)
	case 1:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "+", "operand": %d}`, low, low+r.IntN(5), 1+r.IntN(3))
	case 2:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "*", "operand": 2}`, low, low*4)
	case 3:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "^", "operand": 2}`, low+1, low*5)
	}
	return fmt.Sprint(low)
}

func (r *random) slot(with string) string {
	return fmt.Sprintf(`{"type": "slot", "count": %s, "label": "default", "with": [%s]}`, r.count(4), with)
}

// some of a type, with what may be in it.
func (r *random) some(kind, with string) string {
	text := fmt.Sprintf(`{"type": %q, "count": %s%s`, kind, r.count(3), []string{"", `, "exclusive": true`, ""}[r.IntN(3)])
	if with != "" {
		text += `, "with": [` + with + `]`
	}
	return text + "}"
}

// leaves are what a slot of less than a node has.
func (r *random) leaves() string {
	text := fmt.Sprintf(`{"type": "core", "count": %s}`, r.count(3))
	if r.IntN(2) == 0 {
		text += fmt.Sprintf(`, {"type": "memory", "count": %d}`, 1+r.IntN(6))
	}
	if r.IntN(4) == 0 {
		text += `, {"type": "gpu", "count": 1}`
	}
	return text
}
