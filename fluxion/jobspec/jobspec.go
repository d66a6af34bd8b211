// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobspec reads a request for resources as Flux writes it: the canonical jobspec of RFC
// 14, which includes version 1 (RFC 25), with the constraints of RFC 31. It only reads the request:
// package traverser finds out whether a graph has such resources.
//
// The package reads and refuses what Fluxion's libjobspec (flux-sched 0.54) reads and
// refuses. In particular, it refuses the count strings of RFC 14 ("2-6:2"). It checks
// neither resource types nor whether the slot of a task exists. Where Fluxion would match another
// request than the user meant, the package follows RFC 14 instead. It refuses a count of zero,
// unknown keys in a count, an empty list of resources, and duplicate keys. It refuses system
// attributes and an environment that are no mapping, and null for a text. It also refuses a
// duration that is negative or too long, which Fluxion refuses only when it matches.
package jobspec

import (
	"fmt"
	"math"
	"strconv"
)

// Jobspec is a request for resources. Parse checks the tasks and the other attributes of
// a job too, and does not keep them, since no match depends on them.
type Jobspec struct {
	Resources []Resource
	// Duration is how long the resources are needed, in seconds, rounded up. 0 means as
	// long as the resource graph exists.
	Duration int64
	// Queue is the queue to run in; "" for the default.
	Queue string
	// Constraint says which nodes may be used; nil for all nodes.
	Constraint *Constraint
}

// Resource is a vertex of the request: a number of vertices of a type, each with the requested
// vertices below it.
type Resource struct {
	// Type is a resource type, such as "node" or "core", or "slot": the resources of one
	// task.
	Type      string
	Count     Count
	Exclusive Exclusive
	// With is what each of the vertices must have below it.
	With []Resource
	// Label is the name by which tasks refer to a slot. Every slot has a label.
	Label string
}

// Exclusive says whether a resource may be shared with other jobs.
type Exclusive int

const (
	// Unspecified is exclusive in and below a slot, and shared elsewhere.
	Unspecified Exclusive = iota
	// Yes is a resource that is not shared.
	Yes
	// No is a resource that may be shared.
	No
)

// Parse reads a jobspec in JSON. The caller converts YAML (sigs.k8s.io/yaml). After the
// conversion some texts that Fluxion tells apart are the same: 4 and 4.0, true and yes, a
// quoted text and an unquoted one.
//
// An error names the place in the document: "parsing jobspec: resources[0].with[1].count: …". Parse
// refuses documents that are nested too deeply.
func Parse(data []byte) (*Jobspec, error) {
	spec, err := read(data, parseJobspec)
	if err != nil {
		return nil, fmt.Errorf("parsing jobspec: %w", err)
	}
	return spec, nil
}

func parseJobspec(n node) *Jobspec {
	n.object("version", "resources", "tasks", "attributes")
	n.get("version").integer(1, 9999)
	spec := &Jobspec{Resources: parseResources(n.get("resources"))}
	if len(spec.Resources) == 0 {
		n.get("resources").fail("empty")
	}
	for _, task := range n.get("tasks").list() {
		checkTask(task)
	}
	if attributes := n.get("attributes"); attributes.value != nil {
		attributes.object("system", "user")
		if attributes.has("system") && attributes.get("system").value != nil {
			spec.parseSystem(attributes.get("system"))
		}
	}
	return spec
}

// parseSystem reads attributes.system, in which RFC 14 allows unknown keys.
func (spec *Jobspec) parseSystem(system node) {
	if system.has("duration") {
		spec.Duration = parseDuration(system.get("duration"))
	}
	spec.Queue = system.optional("queue")
	system.optional("cwd")
	if system.has("environment") {
		system.get("environment").checkTexts()
	}
	if system.has("constraints") {
		spec.Constraint = parseConstraint(system.get("constraints"))
	}
}

// parseDuration rounds up, as Fluxion does, so that a part of a second does not become 0.
func parseDuration(n node) int64 {
	text := n.text()
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64) { // NaN is refused, too
		n.fail("%q is no number of seconds", text)
		return 0
	}
	return int64(math.Ceil(seconds))
}

func parseResources(n node) []Resource {
	var resources []Resource
	for _, resource := range n.list() {
		resources = append(resources, parseResource(resource))
	}
	return resources
}

func parseResource(n node) Resource {
	n.object("type", "count", "unit", "exclusive", "with", "label", "id")
	resource := Resource{Type: n.get("type").text(), Count: parseCount(n.get("count"))}
	n.optional("unit")
	resource.Exclusive = parseExclusive(n)
	resource.Label = n.optional("label")
	n.optional("id")
	if n.has("with") {
		resource.With = parseResources(n.get("with"))
	}
	if resource.Type == "slot" && !n.has("label") {
		n.fail("a slot without a label")
	}
	return resource
}

func parseExclusive(resource node) Exclusive {
	if !resource.has("exclusive") {
		return Unspecified
	}
	switch n := resource.get("exclusive"); n.text() {
	case "true":
		return Yes
	case "false":
		return No
	default:
		n.fail("neither true nor false")
		return Unspecified
	}
}

// checkTask checks a task. As in Fluxion, and unlike in RFC 14, a task needs no count if it has three
// keys.
func checkTask(n node) {
	if keys := len(n.object()); keys < 3 || keys > 5 {
		n.fail("%d keys; a task has command, slot, count, and up to 2 more", keys)
	}
	n.get("slot").text()
	n.optional("distribution")
	for _, word := range n.get("command").list() {
		word.text()
	}
	if n.has("count") {
		count := n.get("count")
		count.checkTexts()
		if keys := len(count.object()); keys != 1 {
			count.fail("%d keys, not one", keys)
		}
	}
	if n.has("attributes") {
		n.get("attributes").checkTexts()
	}
}
