// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobspec reads a request for resources as Flux writes it: the canonical
// jobspec of RFC 14, of which version 1 (RFC 25) is a part, with the constraints
// of RFC 31. It says what is asked for; whether there is such a thing is package
// fluxion's to say.
//
// What is read and what is refused is what Fluxion's libjobspec (flux-sched 0.54)
// reads and refuses. In particular, the count strings of RFC 14 ("2-6:2") are refused,
// resource types are not checked, and neither is whether a task's slot exists. It
// is stricter, with RFC 14, where Fluxion would go on with another request
// than was meant: a count of zero, unknown keys in a count, no resources at all, a
// key that is there twice, system attributes or an environment that are no mapping,
// null for a text, and a duration that is negative or too long, which Fluxion refuses
// when it matches.
package jobspec

import (
	"fmt"
	"math"
	"strconv"
)

// Jobspec is a request for resources, and what to run on them.
type Jobspec struct {
	Version   int
	Resources []Resource
	Tasks     []Task

	// What follows is from attributes.system. The rest of it, and
	// attributes.user, are not kept.

	// Duration is how long the resources are needed, in seconds, rounded up; 0 is
	// for as long as the resource graph lives.
	Duration int64
	// Queue is the queue to run in; empty: the default.
	Queue string
	// Cwd is the working directory of the tasks, and Environment their environment.
	Cwd         string
	Environment map[string]string
	// Constraint says which nodes may be used; nil: all.
	Constraint *Constraint
}

// Resource is a vertex of the request: so many of a type, each with what is below it.
type Resource struct {
	// Type is a resource type, such as "node" or "core", or "slot": what one
	// task gets.
	Type  string
	Count Count
	// Unit is the unit of the count, such as "GB"; Fluxion ignores it.
	Unit      string
	Exclusive Exclusive
	// With is what each of these has to have.
	With []Resource
	// Label is the name by which tasks refer to a slot; every slot has one.
	Label string
	ID    string
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

// Task is what runs in the slots of one label. Fluxion does not look at it when it
// matches.
type Task struct {
	Command []string
	// Slot is the label of the slot.
	Slot string
	// Count is how many run: a number under per_slot or total.
	Count        map[string]string
	Distribution string
	Attributes   map[string]string
}

// Parse reads a jobspec in JSON. YAML is for the caller to convert
// (sigs.k8s.io/yaml), after which some of what Fluxion tells apart is the same:
// 4 and 4.0, true and yes, a text that is quoted and one that is not.
//
// An error names the place: "parsing jobspec: resources[0].with[1].count: …".
// The nesting of what is read is bounded.
func Parse(data []byte) (*Jobspec, error) {
	spec, err := read(data, parseJobspec)
	if err != nil {
		return nil, fmt.Errorf("parsing jobspec: %w", err)
	}
	return spec, nil
}

func parseJobspec(n node) *Jobspec {
	n.object("version", "resources", "tasks", "attributes")
	spec := &Jobspec{
		Version:   int(n.get("version").integer(1, 9999)),
		Resources: parseResources(n.get("resources")),
	}
	if len(spec.Resources) == 0 {
		n.get("resources").fail("empty")
	}
	for _, task := range n.get("tasks").list() {
		spec.Tasks = append(spec.Tasks, parseTask(task))
	}
	if attributes := n.get("attributes"); attributes.value != nil {
		attributes.object("system", "user")
		if attributes.has("system") && attributes.get("system").value != nil {
			spec.parseSystem(attributes.get("system"))
		}
	}
	return spec
}

// parseSystem reads attributes.system, in which, by RFC 14, unknown keys are allowed.
func (spec *Jobspec) parseSystem(system node) {
	if system.has("duration") {
		spec.Duration = parseDuration(system.get("duration"))
	}
	spec.Queue = system.optional("queue")
	spec.Cwd = system.optional("cwd")
	if system.has("environment") {
		spec.Environment = system.get("environment").texts()
	}
	if system.has("constraints") {
		spec.Constraint = parseConstraint(system.get("constraints"))
	}
}

// parseDuration rounds up as Fluxion does, so that a part of a second is not none.
func parseDuration(n node) int64 {
	text := n.text()
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64) { // NaN is neither
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
	resource := Resource{
		Type:      n.get("type").text(),
		Count:     parseCount(n.get("count")),
		Unit:      n.optional("unit"),
		Exclusive: parseExclusive(n),
		Label:     n.optional("label"),
		ID:        n.optional("id"),
	}
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

func parseTask(n node) Task {
	// Like Fluxion, and unlike RFC 14, a task need not have a count, as long as it has something.
	if keys := len(n.object()); keys < 3 || keys > 5 {
		n.fail("%d keys; a task has command, slot, count, and up to 2 more", keys)
	}
	task := Task{
		Slot:         n.get("slot").text(),
		Distribution: n.optional("distribution"),
	}
	for _, word := range n.get("command").list() {
		task.Command = append(task.Command, word.text())
	}
	if n.has("count") {
		if task.Count = n.get("count").texts(); len(task.Count) != 1 {
			n.get("count").fail("%d keys, not one", len(task.Count))
		}
	}
	if n.has("attributes") {
		task.Attributes = n.get("attributes").texts()
	}
	return task
}
