// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"strings"
	"time"
)

// Refusal says why a gang does not fit. A match fills in the numbers, which cost
// little. Explain adds the reasons and the jobs.
type Refusal struct {
	// Never is true if the gang would not fit even on the empty graph.
	Never bool
	// Least is the smallest allowed size. Fits is the number of brokers that would fit
	// now, and Capacity the number that the empty graph could hold. If all brokers have
	// to be in one domain of Level, the numbers are those of the roomiest domain.
	Least, Fits, Capacity int
	// Requests are what one broker takes.
	Requests Resources
	// Level is the level of the topology that all brokers have to be in one domain of;
	// "" if there is none.
	Level string
	// Nodes is the number of nodes of the graph, and Free the number of nodes that have
	// room for a broker now.
	Nodes, Free int

	// Reasons count the nodes that cannot take one more broker, or never can if Never is
	// true. The reason of most nodes comes first.
	Reasons []Reason
	// Jobs are the jobs that would have to end before the gang fits: those that end
	// first, if enough ends are known, and else the largest ones. There are none if
	// anything else keeps the gang from fitting.
	Jobs []string
	// Until is when these jobs will have ended; zero if that time is not known.
	Until time.Time
}

// Reason is why some nodes cannot take a broker.
type Reason struct {
	Text  string
	Nodes int
}

// refuse makes the refusal of a gang of which so many pods fit. The match has the cells
// of the graph as it is now.
func (g *Graph) refuse(m *gangMatch, fits int64) *Refusal {
	r := &Refusal{
		Least: least(m.gang.Sizes), Fits: int(fits), Free: m.nodesWithRoom(), Nodes: g.Len(),
		Requests: m.gang.Pods.Requests,
	}
	if m.required() {
		r.Level = m.gang.Topology.Level
	}
	m.gatherEmpty()
	r.Capacity = int(m.fits())
	r.Never = r.Least == 0 || r.Capacity < r.Least
	return r
}

// String tells the refusal in one sentence.
func (r *Refusal) String() string {
	if r.Least == 0 {
		return "may have no size"
	}
	var out strings.Builder
	r.writeNeed(&out)
	r.writeRoom(&out)
	for i, reason := range r.Reasons {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&out, "%s%d %s", separator, reason.Nodes, reason.Text)
	}
	r.writeWhen(&out)
	return out.String()
}

// writeNeed tells what the gang needs.
func (r *Refusal) writeNeed(out *strings.Builder) {
	out.WriteString("needs room for " + plural(r.Least, "broker"))
	if requests := r.Requests.String(); requests != "" {
		fmt.Fprintf(out, " of %s each", requests)
	}
	if r.Level != "" {
		out.WriteString(" in one " + r.Level)
	}
}

// writeRoom tells how much room there is.
func (r *Refusal) writeRoom(out *strings.Builder) {
	switch nodes := plural(r.Nodes, "node"); {
	case r.Never && r.Level != "":
		fmt.Fprintf(out, "; no %s of the whole cluster of %s has room for more than %d", r.Level, nodes, r.Capacity)
	case r.Never:
		fmt.Fprintf(out, "; the whole cluster of %s has room for %d", nodes, r.Capacity)
	case r.Fits == 0:
		fmt.Fprintf(out, "; none of %s has room now", nodes)
	case r.Level != "":
		fmt.Fprintf(out, "; no %s has room now for more than %d", r.Level, r.Fits)
	default:
		verb := "have"
		if r.Free == 1 {
			verb = "has"
		}
		fmt.Fprintf(out, "; %d of %s %s room now for %d", r.Free, nodes, verb, r.Fits)
	}
}

// writeWhen tells how many jobs would have to end. It does not name the jobs, because
// they belong to other users.
func (r *Refusal) writeWhen(out *strings.Builder) {
	switch len(r.Jobs) {
	case 0:
		return
	case 1:
		out.WriteString("; it fits once 1 job has ended")
	default:
		fmt.Fprintf(out, "; it fits once %d jobs have ended", len(r.Jobs))
	}
	if !r.Until.IsZero() {
		fmt.Fprintf(out, ", by %s", r.Until.UTC().Format(time.RFC3339))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
