// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const namesIntro = `# Names

<!-- "make generate" writes this page from the constants and steps of the code. -->

This page has the states, conditions, reasons, events, labels, annotations and finalizers. [API](api.md) has the fields,
and [Reference](../reference.md) describes the steps behind the events.
`

// namesPage writes the names and what their comments say.
type namesPage struct {
	strings.Builder
	groups []group
	values map[string]string // of constants, by their names
}

// names is the page of names.
func names(root string) (string, error) {
	declared, err := parseGo(root, "api/v1alpha2", "internal", "controllers")
	if err != nil {
		return "", err
	}
	p := &namesPage{groups: declared.groups, values: declared.values}
	steps, err := parseGo(root, "pkg/elastic/life")
	if err != nil {
		return "", err
	}
	p.WriteString(namesIntro)
	for _, g := range p.groups {
		if isAbout(g.comment, "States", "Conditions of", "Reasons of the") {
			title, _, _ := strings.Cut(g.comment, ".")
			title, _, _ = strings.Cut(title, ",")
			title, _, _ = strings.Cut(title, ":")
			p.heading(title)
			if title != strings.TrimSuffix(g.comment, ".") {
				p.WriteString(wrap(p.text(g.comment), "") + "\n")
			}
			for _, c := range g.constants {
				p.item(c)
			}
		}
	}
	p.addEvents(steps.types)
	p.addKeys()
	p.heading("Finalizers")
	p.WriteString(wrap(fmt.Sprintf("MiniClusters, queues and reservations have no finalizer of this project. The Workload of a "+
		"MiniCluster with quota of Kueue has the finalizer `%s` of Kueue until no pod holds a node on its quota.",
		kueueapi.ResourceInUseFinalizerName), ""))
	return p.String(), nil
}

func isAbout(comment string, beginnings ...string) bool {
	return slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(comment, beginning) })
}

func (p *namesPage) heading(title string) { fmt.Fprintf(p, "\n## %s\n\n", title) }

// item writes the value of a constant and its comment.
func (p *namesPage) item(c constant) {
	text := p.text(strings.Replace(c.comment, c.name, code(c.value), 1))
	if !strings.HasPrefix(text, code(c.value)) {
		text = code(c.value) + ": " + text
	}
	p.WriteString("- " + wrap(text, "  "))
}

var word = regexp.MustCompile(`\b[A-Za-z]+\b`)

// text is a comment with the values of constants in place of their names.
func (p *namesPage) text(comment string) string {
	return prose(word.ReplaceAllStringFunc(comment, func(name string) string {
		if value, ok := p.values[name]; ok && name != "Group" {
			return code(value)
		}
		return name
	}))
}

// addEvents writes the reasons of events, and what the comments of their causes say.
func (p *namesPage) addEvents(steps map[string]string) {
	p.heading("Events")
	p.WriteString(wrap("Each decision about a MiniCluster is an event. The action of an event is the name of its "+
		"[step](../reference.md#steps). Other events say that a check failed, why a MiniCluster waits, or that a new size "+
		"has no effect. In parentheses is the type of the event.", "") + "\n")
	event := func(reason string, warning bool, text string) {
		kind := corev1.EventTypeNormal
		if warning {
			kind = corev1.EventTypeWarning
		}
		p.WriteString("- " + wrap(fmt.Sprintf("%s (%s): %s", code(reason), kind, p.text(text)), "  "))
	}
	reasons := func(beginning string, without ...string) {
		for _, g := range p.groups {
			for _, c := range g.constants {
				if isAbout(g.comment, beginning) && !slices.Contains(without, c.value) {
					_, text, _ := strings.Cut(c.comment, ": ")
					outcome := life.Finish{Outcome: life.Outcome(c.value)}
					event(c.value, life.PropertiesOf(outcome).Warning, text)
				}
			}
		}
	}
	for _, step := range life.Steps {
		switch name := life.Name(step.Step); {
		case step.Event != "":
			event(step.Event, step.Warning, steps[name])
		case name == life.Name(life.Evict{}):
			for _, reason := range status.Evictions {
				event(reason, step.Warning, p.about("Reason", reason))
			}
		case name == life.Name(life.Finish{}):
			reasons("Reasons of the condition Finished", v1alpha2.ReasonUnfinished, v1alpha2.ReasonBrokersLost)
		}
	}
	reasons("Reasons of the condition Accepted", v1alpha2.ReasonValid)
	for _, verdict := range slices.Sorted(maps.Keys(status.QueuedEvents)) {
		event(string(verdict), status.QueuedEvents[verdict] == corev1.EventTypeWarning, p.about("Reason", string(verdict)))
	}
	reasons("Reasons of events")
}

// about is what the comment of the constant with a prefix and a value says.
func (p *namesPage) about(prefix, value string) string {
	for _, g := range p.groups {
		for _, c := range g.constants {
			if text, ok := strings.CutPrefix(c.comment, prefix+value+": "); ok {
				return text
			}
		}
	}
	panic("there is no constant " + prefix + value)
}

// addKeys writes the names that are on objects.
func (p *namesPage) addKeys() {
	lists := map[string][]constant{}
	for _, g := range p.groups {
		for _, c := range g.constants {
			switch {
			case c.comment == "":
			case strings.Contains(c.name, "Label"):
				lists["Labels"] = append(lists["Labels"], c)
			case strings.Contains(c.name, "Annotation") || strings.Contains(c.name, "PodSetPrefix"):
				lists["Annotations"] = append(lists["Annotations"], c)
			case filepath.Base(g.file) == "labels.go":
				lists["Other names"] = append(lists["Other names"], c)
			}
		}
	}
	for _, title := range []string{"Labels", "Annotations", "Other names"} {
		p.heading(title)
		for _, c := range lists[title] {
			p.item(c)
		}
	}
}
