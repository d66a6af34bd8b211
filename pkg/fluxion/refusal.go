// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"strings"
	"time"
)

// Refusal says why a gang does not fit. A match fills in the numbers, which cost
// little; Explain tells the rest.
type Refusal struct {
	// Never is true where it would not fit even if nobody else held anything.
	Never bool
	// Least is the smallest size that would do, Fits the number of brokers that
	// would fit now, Capacity the number that the empty graph could hold: in one domain
	// of Level, where all have to be in one.
	Least, Fits, Capacity int
	// Requests are what one broker takes, Lead what the lead takes where it has a shape
	// of its own.
	Requests, Lead Resources
	// Level is the level of the topology that all have to be in one domain of; "" if
	// they need not.
	Level string
	// Nodes is the number of nodes there are, Free the number of those that have room
	// for a broker now.
	Nodes, Free int

	// NoLead: there is no place for the lead, and Reasons are about its shape.
	NoLead bool
	// Reasons tell of the nodes that cannot take one more broker why not, or, where
	// it would never fit, of those that never can; the reason of most nodes first.
	Reasons []Reason
	// Scarcest is the resource of which the nodes that could be used have the least
	// left, measured by what a broker takes; "" if it fits never, or asks for nothing.
	Scarcest string
	// Jobs would have to end for it to fit: the earliest to end, if those whose end is
	// known do, and else the largest. None, where others are in the way too.
	Jobs []string
	// Until is when they will have ended; zero if that is not known.
	Until time.Time
}

// Reason is why some nodes cannot take a broker.
type Reason struct {
	Text  string
	Nodes int
}

// refuse makes the refusal of a gang that fits no better than so, and for which the
// least would do. The match has the cells as they are now.
func (g *Graph) refuse(m *gangMatch, fits int64, least int) *Refusal {
	gang := &m.gang
	r := &Refusal{
		Least: least, Fits: int(fits), Free: m.nodesWithRoom(), Nodes: g.Len(),
		Requests: gang.Pods.Requests,
	}
	hasLead := gang.Lead != nil && len(m.own) == 0 // and it is not placed
	if hasLead {
		r.Lead, r.NoLead = gang.Lead.Requests, len(m.leads) == 0
	}
	if m.required() {
		r.Level = gang.Topology.Level
	}
	m.gather(g.nodes.empty)
	r.Capacity = int(m.fits())
	if r.Never = r.Least == 0 || r.Capacity < r.Least; r.Never {
		r.NoLead = hasLead && len(m.leads) == 0
	}
	return r
}

// String says it in one sentence.
func (r *Refusal) String() string {
	if r.Least == 0 {
		return "may have no size"
	}
	var out strings.Builder
	out.WriteString("needs room for ")
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

// writeRoom says how much room there is.
func (r *Refusal) writeRoom(out *strings.Builder) {
	switch nodes := plural(r.Nodes, "node"); {
	case r.Never && r.NoLead:
		fmt.Fprintf(out, "; none of %s could have the lead", nodes)
	case r.Never && r.Level != "":
		fmt.Fprintf(out, "; no %s of the whole cluster of %s has room for more than %d", r.Level, nodes, r.Capacity)
	case r.Never:
		fmt.Fprintf(out, "; the whole cluster of %s has room for %d", nodes, r.Capacity)
	case r.NoLead:
		fmt.Fprintf(out, "; none of %s has room now for the lead", nodes)
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

// writeNeed says what it needs.
func (r *Refusal) writeNeed(out *strings.Builder) {
	pods := r.Least
	if lead := r.Lead.String(); r.Lead != nil {
		pods--
		out.WriteString("a lead")
		if lead != "" {
			out.WriteString(" of " + lead)
		}
		out.WriteString(" and ")
	}
	out.WriteString(plural(pods, "broker"))
	if requests := r.Requests.String(); requests != "" {
		fmt.Fprintf(out, " of %s each", requests)
	}
	if r.Level != "" {
		out.WriteString(" in one " + r.Level)
	}
}

// writeWhen says what would have to end. The jobs are those of others, so it does not
// name them.
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
