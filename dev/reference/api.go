// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const apiIntro = `# API

<!-- "make generate" writes this page from api/v1alpha2. -->

This page has every field of the three kinds of ''flux-framework.org/v1alpha2''. ''kubectl explain'' prints the same
texts. [Names](names.md) has the states, conditions, events, labels and annotations.

Each field is followed by its type, its default if the API server sets one, and its bounds. A *duration* is a string
such as ''1h30m'', ''90s'' or ''500ms''. A *quantity* is one of Kubernetes, such as ''4'', ''500m'' or ''16Gi''. A field
is optional, unless it is marked as required. A *rule* is the message with which the API server refuses an object.
`

const (
	duration     = `^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	wholeSeconds = `^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`
)

// foreign are types of Kubernetes by a field that only they have.
var foreign = map[string]string{
	"matchExpressions": "LabelSelector", "lastTransitionTime": "Condition", "claims": "ResourceRequirements",
	"fsGroup": "PodSecurityContext", "allowPrivilegeEscalation": "SecurityContext", "tolerationSeconds": "Toleration",
}

// apiPage writes the fields of all kinds.
type apiPage struct {
	strings.Builder
	kind string
	// seen has the sections of objects by their schemas: services have the fields of containers.
	seen map[string]string
}

// section is an object whose fields follow.
type section struct {
	path   string
	schema *apiextensionsv1.JSONSchemaProps
}

// api is the page of the fields.
func api(root string) (string, error) {
	page := &apiPage{}
	page.WriteString(strings.ReplaceAll(apiIntro, "''", "`"))
	definitions, err := definitions(root)
	for _, crd := range definitions {
		page.addKind(crd)
	}
	return page.String(), err
}

// definitions are those of all kinds.
func definitions(root string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, plural := range []string{"miniclusters", "miniclusterqueues", "miniclusterreservations"} {
		text, err := os.ReadFile(filepath.Join(root, "config", "crd", "flux-framework.org_"+plural+".yaml"))
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, err
		}
		all = append(all, crd)
	}
	return all, nil
}

func (p *apiPage) addKind(crd *apiextensionsv1.CustomResourceDefinition) {
	names, version := crd.Spec.Names, crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	p.kind, p.seen = names.Kind, map[string]string{}
	fmt.Fprintf(p, "\n## %s\n\n%s\n", names.Kind, wrap(prose(schema.Description), ""))
	scope := "It has a namespace."
	if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
		scope = "It has no namespace."
	}
	p.WriteString(wrap(fmt.Sprintf("%s `kubectl get %s` shows these columns, and those in parentheses with `-o wide`: %s.",
		scope, names.ShortNames[0], columns(version.AdditionalPrinterColumns)), ""))
	p.addRules(schema)
	spec, status := schema.Properties["spec"], schema.Properties["status"]
	p.addObject(section{"spec", &spec})
	p.addObject(section{"status", &status})
}

func columns(definitions []apiextensionsv1.CustomResourceColumnDefinition) string {
	var columns []string
	for _, column := range definitions {
		text := code(column.Name)
		if column.Priority > 0 {
			text = "(" + text + ")"
		}
		columns = append(columns, text)
	}
	return strings.Join(columns, ", ")
}

// addObject writes the fields of an object, and then those of the objects in it.
func (p *apiPage) addObject(object section) {
	fmt.Fprintf(p, "\n### %s: `%s`\n\n", p.kind, object.path)
	if object.schema.Description != "" {
		p.WriteString(wrap(prose(object.schema.Description), ""))
	}
	p.addRules(object.schema)
	p.WriteString("\n")
	var inner []section
	for _, name := range slices.Sorted(maps.Keys(object.schema.Properties)) {
		field := object.schema.Properties[name]
		traits, found := p.traits(object.path+"."+name, &field)
		if slices.Contains(object.schema.Required, name) {
			traits = append(traits, "required")
		}
		text := fmt.Sprintf("- **%s** (%s): %s", code(name), strings.Join(traits, "; "), prose(field.Description))
		for _, rule := range rulesOf(&field) {
			if len(found) == 0 || field.Type != "object" { // else its section has the rules
				text += " Rule: " + rule + "."
			}
		}
		p.WriteString(wrap(text, "  "))
		inner = append(inner, found...)
	}
	for _, object := range inner {
		p.addObject(object)
	}
}

func (p *apiPage) addRules(schema *apiextensionsv1.JSONSchemaProps) {
	messages := rulesOf(schema)
	if len(messages) == 0 {
		return
	}
	p.WriteString("\nRules:\n\n")
	for _, message := range messages {
		p.WriteString(wrap("- "+message, "  "))
	}
}

// rulesOf are the messages of an object's rules. Those of a field that is an object are in its section.
func rulesOf(schema *apiextensionsv1.JSONSchemaProps) (messages []string) {
	for _, rule := range schema.XValidations {
		messages = append(messages, prose(rule.Message))
	}
	return messages
}

// traits are the type, the default and the bounds of a field, and the objects whose fields are to follow.
func (p *apiPage) traits(path string, field *apiextensionsv1.JSONSchemaProps) (traits []string, inner []section) {
	var kind string
	switch {
	case field.XIntOrString:
		return []string{"quantity"}, nil
	case field.Type == "array":
		of, found := p.traits(path+"[]", field.Items.Schema)
		kind, inner = "list of "+strings.Join(of, ", "), found
	case field.AdditionalProperties != nil:
		of, found := p.traits(path+".*", field.AdditionalProperties.Schema)
		kind, inner = "map of "+strings.Join(of, ", "), found
	case field.Type == "object":
		kind, inner = p.object(path, field)
	case isDuration(field):
		kind = "duration"
	case field.Format == "date-time":
		kind = "time"
	default:
		kind = field.Type
	}
	traits = append(traits, kind)
	if field.Default != nil {
		traits = append(traits, "default "+code(strings.Trim(string(field.Default.Raw), `"`)))
	}
	return append(traits, bounds(field)...), inner
}

// object is the type of an object: one of Kubernetes, or a link to the section of its fields.
func (p *apiPage) object(path string, schema *apiextensionsv1.JSONSchemaProps) (kind string, inner []section) {
	for name := range schema.Properties {
		if kind, ok := foreign[name]; ok {
			return kind + " of Kubernetes", nil
		}
	}
	if len(schema.Properties) == 0 {
		return "object", nil
	}
	known, err := json.Marshal(schema.Properties)
	if err != nil {
		panic(err) // it was read from a file
	}
	at, ok := p.seen[string(known)]
	if !ok {
		at = path
		p.seen[string(known)] = path
		inner = []section{{path, schema}}
	}
	return fmt.Sprintf("[object](#%s)", anchor(p.kind+": "+at)), inner
}

// anchor is the name that GitHub gives to a heading of this page.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ":", "", ".", "", "[", "", "]", "", "*", "", "`", "").Replace(strings.ToLower(heading))
}

// bounds are what the schema allows of a field.
func bounds(field *apiextensionsv1.JSONSchemaProps) []string {
	if len(field.Enum) > 0 {
		return []string{values(field.Enum)}
	}
	bounds := []string{
		between(whole(field.Minimum), whole(field.Maximum), ""),
		between(field.MinItems, field.MaxItems, " items"),
		between(nil, field.MaxProperties, " entries"),
	}
	if !isDuration(field) {
		bounds = append(bounds, between(field.MinLength, field.MaxLength, " characters"))
		if field.Pattern != "" {
			bounds = append(bounds, "pattern "+code(field.Pattern))
		}
	}
	return slices.DeleteFunc(bounds, func(bound string) bool { return bound == "" })
}

// values are those of an enumeration. The empty one is the same as no value.
func values(enum []apiextensionsv1.JSON) string {
	var values []string
	for _, value := range enum {
		if text := strings.Trim(string(value.Raw), `"`); text != "" {
			values = append(values, code(text))
		}
	}
	return strings.Join(values, ", ")
}

func whole(bound *float64) *int64 {
	if bound == nil {
		return nil
	}
	return new(int64(*bound))
}

func between(least, most *int64, what string) string {
	switch {
	case least != nil && most != nil:
		return fmt.Sprintf("%d to %d%s", *least, *most, what)
	case least != nil:
		return fmt.Sprintf("at least %d%s", *least, what)
	case most != nil:
		return fmt.Sprintf("at most %d%s", *most, what)
	}
	return ""
}

func isDuration(field *apiextensionsv1.JSONSchemaProps) bool {
	return field.Pattern == duration || field.Pattern == wholeSeconds
}
