// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"fmt"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// A short hostlist can stand for many names, so there are limits. maxHosts limits the names in
// all hostlists of a constraint together. maxName limits the bytes of a name, between commas and
// brackets.
const (
	maxHosts = 1 << 17
	maxName  = 255
)

// Target is a node that a constraint is matched with.
type Target interface {
	// Name is the host name.
	Name() string
	// Rank is the broker rank; negative if there is none.
	Rank() int64
	// HasProperty reports whether the node has a property, whatever its value.
	HasProperty(name string) bool
}

// Constraint says which nodes may be used (RFC 31). A Constraint never changes, and is safe
// for use by several goroutines.
type Constraint struct {
	operator   string // "" matches everything
	properties []property
	hosts      map[string]struct{}
	ranks      idset.Set
	operands   []*Constraint
}

type property struct {
	name   string
	absent bool
}

// Match reports whether the target may be used. It allocates no memory. A nil constraint
// and an empty one match everything.
//
// As with Fluxion, {"or": []} matches nothing. By RFC 31 that would match everything.
func (c *Constraint) Match(target Target) bool {
	if c == nil {
		return true
	}
	switch c.operator {
	case "properties":
		return c.matchProperties(target)
	case "hostlist":
		_, found := c.hosts[target.Name()]
		return found
	case "ranks":
		return c.ranks.Has(target.Rank())
	case "and":
		return c.matchAll(target)
	case "or":
		return c.matchAny(target)
	case "not":
		return !c.matchAll(target) // Fluxion's rule for several operands; RFC 31 has none
	}
	return true
}

func (c *Constraint) matchProperties(target Target) bool {
	for _, p := range c.properties {
		if target.HasProperty(p.name) == p.absent {
			return false
		}
	}
	return true
}

func (c *Constraint) matchAll(target Target) bool {
	for _, operand := range c.operands {
		if !operand.Match(target) {
			return false
		}
	}
	return true
}

func (c *Constraint) matchAny(target Target) bool {
	for _, operand := range c.operands {
		if operand.Match(target) {
			return true
		}
	}
	return false
}

// parseConstraint reads a constraint: {}, or one operator with a list of values, such as
// {"properties": ["ssd", "^slow"]}. Package hostlist reads the hostlists, which may have
// 131072 names together.
func parseConstraint(n node) *Constraint {
	room := maxHosts
	return parseOperator(n, &room)
}

// parseOperator reads a constraint, which may have at most room host names. It subtracts the
// number of host names from room.
func parseOperator(n node, room *int) *Constraint {
	constraint := &Constraint{}
	keys := n.object("properties", "hostlist", "ranks", "and", "or", "not")
	if len(keys) > 1 {
		n.fail("more than one operator")
	}
	for operator := range keys {
		constraint.operator = operator
	}
	switch constraint.operator {
	case "properties":
		constraint.properties = parseProperties(n.get("properties"))
	case "hostlist":
		constraint.hosts = parseHosts(n.get("hostlist"), room)
	case "ranks":
		constraint.ranks = parseRanks(n.get("ranks"))
	case "and", "or", "not":
		for _, operand := range n.get(constraint.operator).list() {
			constraint.operands = append(constraint.operands, parseOperator(operand, room))
		}
	}
	return constraint
}

func parseProperties(n node) []property {
	var properties []property
	for _, value := range n.list() {
		text, isString := value.value.(string)
		if !isString {
			value.fail("not a string") // Fluxion refuses a number here, too
		}
		name, absent := strings.CutPrefix(text, "^")
		if strings.ContainsAny(name, "!&'\"^`|()") {
			value.fail("%q has a character that a property cannot have", text)
		}
		properties = append(properties, property{name: name, absent: absent})
	}
	return properties
}

func parseHosts(n node, room *int) map[string]struct{} {
	hosts := map[string]struct{}{}
	for _, value := range n.list() {
		names, err := decodeHosts(value.text(), *room)
		if err != nil {
			value.fail("%w", err)
			*room = 0 // so that no more names are decoded
		}
		*room -= len(names)
		for _, name := range names {
			hosts[name] = struct{}{}
		}
	}
	return hosts
}

func decodeHosts(text string, limit int) ([]string, error) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(",[]", r) }) {
		if len(part) > maxName {
			return nil, fmt.Errorf("host list: a name is longer than %d", maxName)
		}
	}
	return hostlist.Decode(text, limit)
}

func parseRanks(n node) idset.Set {
	var sets []idset.Set
	for _, value := range n.list() {
		set, err := idset.Parse(value.text())
		if err != nil {
			value.fail("%w", err)
		}
		sets = append(sets, set)
	}
	return idset.Union(sets...)
}
