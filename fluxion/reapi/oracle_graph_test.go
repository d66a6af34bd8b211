// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	containment = "containment"
	// maxDepth and maxName keep two recursions of the library from the end of the stack: down
	// the graph, and along a name.
	maxDepth = 256
	maxName  = 1024
)

// givenJGF is JGF that a test gives to the library. Pointers tell null from absent where the
// library takes null for a string.
type givenJGF struct {
	Nodes []givenVertex `json:"nodes"`
	Edges []givenEdge   `json:"edges"`
}

type givenVertex struct {
	ID       string `json:"id"`
	Metadata struct {
		Type       string             `json:"type"`
		Name       *string            `json:"name"`
		ID         *int64             `json:"id"`
		UniqID     *int64             `json:"uniq_id"`
		Rank       *int64             `json:"rank"`
		Exclusive  bool               `json:"exclusive"`
		Paths      map[string]*string `json:"paths"`
		Properties map[string]*string `json:"properties"`
	} `json:"metadata"`
}

type givenEdge struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Metadata struct {
		Subsystem *string `json:"subsystem"`
	} `json:"metadata"`
}

// path is the path of a vertex that has passed check.
func (v *givenVertex) path() string { return *v.Metadata.Paths[containment] }

func (v *givenVertex) rank() int64 {
	if v.Metadata.Rank == nil {
		return -1
	}
	return *v.Metadata.Rank
}

// check refuses a vertex with which the library ends the process.
func (v *givenVertex) check() error {
	m := &v.Metadata
	path := m.Paths[containment]
	switch {
	case path == nil || len(m.Paths) != 1:
		return errors.New("not one path, in the containment subsystem")
	case !strings.HasPrefix(*path, "/") || strings.HasSuffix(*path, "/"):
		return fmt.Errorf("path %q does not start with / or ends with one", *path)
	case strings.Count(*path, "/") > maxDepth:
		return fmt.Errorf("more than %d levels deep", maxDepth)
	}
	for key, value := range m.Properties {
		if value == nil {
			return fmt.Errorf("property %q is null", key)
		}
	}
	return v.checkNumbers()
}

// trailing matches the end of a name that the library takes for the id of a node.
var trailing = regexp.MustCompile(`[0-9]+$`)

// checkNumbers refuses ids that are no int64. The library takes some ids from names.
func (v *givenVertex) checkNumbers() error {
	m := &v.Metadata
	if m.UniqID == nil || *m.UniqID == -1 {
		if _, err := strconv.ParseInt(v.ID, 10, 64); err != nil {
			return errors.New("id is no number, and there is no uniq_id")
		}
	}
	if m.Name == nil || m.Type != "node" || (m.ID != nil && *m.ID != -2) {
		return nil
	}
	if len(*m.Name) > maxName {
		return fmt.Errorf("name is longer than %d bytes", maxName)
	}
	if digits := trailing.FindString(*m.Name); digits != "" {
		if _, err := strconv.ParseInt(digits, 10, 64); err != nil {
			return fmt.Errorf("name %q ends in too long a number", *m.Name)
		}
	}
	return nil
}

// tree is a resource graph by path.
type tree map[string]place

type place struct {
	children int
	rank     int64
}

// parent is the path above a path. It is empty for a root.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// checkGraph reads JGF for initialize or add_subgraph.
func checkGraph(text string, ranked bool) (tree, error) {
	var document struct {
		Graph *givenJGF `json:"graph"`
	}
	if err := decode("graph", text, &document); err != nil {
		return nil, err
	}
	if document.Graph == nil {
		return nil, errors.New("graph: no graph in it")
	}
	out, err := document.Graph.tree()
	if err != nil {
		return nil, err
	}
	for _, v := range document.Graph.Nodes {
		switch {
		case parent(v.path()) == "" && v.Metadata.Type != "cluster":
			return nil, fmt.Errorf("graph: the root is of type %q, not cluster", v.Metadata.Type)
		case parent(v.path()) == "" && out[v.path()].children == 0:
			return nil, errors.New("graph: nothing below the root")
		case ranked && v.Metadata.Type == "node" && v.rank() < 0:
			return nil, fmt.Errorf("graph: node %q has no rank, which the match_format needs", v.path())
		}
	}
	return out, nil
}

// tree checks that JGF is the same tree by its paths and by its edges. Every vertex but the
// root has one edge, from the vertex at the path above.
func (g *givenJGF) tree() (tree, error) {
	out := make(tree, len(g.Nodes))
	paths := make(map[string]string, len(g.Nodes))
	roots := 0
	for i := range g.Nodes {
		v := &g.Nodes[i]
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("graph: vertex %q: %w", v.ID, err)
		}
		path := v.path()
		if _, taken := out[path]; taken || paths[v.ID] != "" {
			return nil, fmt.Errorf("graph: vertex %q: path %q or id twice", v.ID, path)
		}
		if parent(path) == "" {
			roots++
		}
		out[path], paths[v.ID] = place{rank: v.rank()}, path
	}
	if roots != 1 || len(g.Edges) != len(g.Nodes)-1 {
		return nil, fmt.Errorf("graph: no tree: %d vertices, %d of them roots, %d edges", len(g.Nodes), roots, len(g.Edges))
	}
	return out, out.connect(g.Edges, paths)
}

func (t tree) connect(edges []givenEdge, paths map[string]string) error {
	below := make(map[string]bool, len(edges))
	for _, e := range edges {
		source, target := paths[e.Source], paths[e.Target]
		switch {
		case e.Metadata.Subsystem != nil && *e.Metadata.Subsystem != containment:
			return fmt.Errorf("graph: edge %q to %q: not in the containment subsystem", e.Source, e.Target)
		case source == "" || target == "" || parent(target) != source || below[target]:
			return fmt.Errorf("graph: edge %q to %q: not from a parent to its child, once", e.Source, e.Target)
		}
		below[target] = true
		t.count(source, 1)
	}
	return nil
}

// accepts refuses a tree with another root, or with other ranks of known vertices. The library
// recognizes vertices by their ranks.
func (t tree) accepts(added tree) error {
	for path, p := range added {
		there, ok := t[path]
		switch {
		case !ok && parent(path) == "":
			return fmt.Errorf("graph: %q is another root", path)
		case ok && there.rank != p.rank:
			return fmt.Errorf("graph: %q has rank %d, not %d", path, there.rank, p.rank)
		}
	}
	return nil
}

// add adds a tree that was accepted.
func (t tree) add(added tree) {
	var fresh []string
	for path, p := range added {
		if _, ok := t[path]; !ok {
			t[path] = place{rank: p.rank}
			fresh = append(fresh, path)
		}
	}
	for _, path := range fresh {
		t.count(parent(path), 1)
	}
}

// count adds to the number of children of a path.
func (t tree) count(path string, children int) {
	at := t[path]
	at.children += children
	t[path] = at
}

// removable refuses paths whose removal never returns or does nothing.
func (t tree) removable(call, path string) error {
	if _, ok := t[path]; !ok {
		return refuse(call, ErrNotFound, strconv.Quote(path))
	}
	switch above := parent(path); {
	case above == "":
		return refuse(call, ErrInvalid, "the root cannot be removed")
	case t[above].children == 1:
		return refuse(call, ErrInvalid, fmt.Sprintf("%q is the last child of %q: remove that", path, above))
	}
	return nil
}

// remove removes a path and all paths below.
func (t tree) remove(path string) {
	for p := range t {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(t, p)
		}
	}
	t.count(parent(path), -1)
}

// set is a resource set: JGF alone, or an RFC 20 R with or without JGF.
type set struct {
	Graph      *givenJGF `json:"graph"`
	Scheduling *struct {
		Graph *givenJGF `json:"graph"`
	} `json:"scheduling"`
}

// graphs are the graphs of a resource set, in both places in which the library looks.
func (s *set) graphs() []*givenJGF {
	var out []*givenJGF
	if s.Graph != nil {
		out = append(out, s.Graph)
	}
	if s.Scheduling != nil && s.Scheduling.Graph != nil {
		out = append(out, s.Scheduling.Graph)
	}
	return out
}

// checkUpdate checks the R of update_allocate. Without all edges, the library would keep the
// resources and know no job.
func checkUpdate(text string) error {
	var r set
	if err := decode("resource set", text, &r); err != nil {
		return err
	}
	for _, g := range r.graphs() {
		if _, err := g.tree(); err != nil {
			return fmt.Errorf("resource set: %w", err)
		}
	}
	return nil
}

// checkPart checks the R of partial_cancel.
func checkPart(text string) error {
	var r set
	if err := decode("resource set", text, &r); err != nil {
		return err
	}
	for _, g := range r.graphs() {
		for i := range g.Nodes {
			v := &g.Nodes[i]
			if err := v.check(); err != nil {
				return fmt.Errorf("resource set: vertex %q: %w", v.ID, err)
			}
			if !v.Metadata.Exclusive {
				return fmt.Errorf("resource set: vertex %q is not held exclusively", v.ID)
			}
		}
	}
	return nil
}
