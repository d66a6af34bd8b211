// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const pythonIntro = `# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# "make generate" writes this file from api/v1alpha2.
"""The objects of flux-framework.org/v1alpha2 as dataclasses.

A field has the name of the API with underscores: min_size is minSize. A field that is None is not sent. Objects of
Kubernetes, such as metadata and resources, are dictionaries with the names of the API.
"""
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, List, Optional, Union

from ._model import Model, field
`

// kinds are the types of all kinds, in the order of their definitions.
var kinds = []any{v1alpha2.MiniCluster{}, v1alpha2.MiniClusterQueue{}, v1alpha2.MiniClusterReservation{}}

// pythonClasses writes the classes of the Python client.
type pythonClasses struct {
	strings.Builder
	source *source
	// seen has the types whose classes are written, or are to be.
	seen map[reflect.Type]bool
}

// pythonClass is a type whose class is to be written, and what the API server knows of the type.
type pythonClass struct {
	of     reflect.Type
	schema *apiextensionsv1.JSONSchemaProps
}

// models is the module with a class for each object of the API. Names of classes are those of the types, and what a
// field may have is in the definitions.
func models(root string) (string, error) {
	all, err := definitions(root)
	if err != nil {
		return "", err
	}
	source, err := parseGo(root, "api/v1alpha2")
	if err != nil {
		return "", err
	}
	p := &pythonClasses{source: source, seen: map[reflect.Type]bool{}}
	p.WriteString(pythonIntro)
	for i, crd := range all {
		p.add(pythonClass{reflect.TypeOf(kinds[i]), crd.Spec.Versions[0].Schema.OpenAPIV3Schema})
	}
	return p.String(), nil
}

// add writes a class, and those of its fields.
func (p *pythonClasses) add(class pythonClass) {
	fmt.Fprintf(p, "\n\n@dataclass\nclass %s(Model):\n    \"\"\"%s\"\"\"\n", class.of.Name(), p.about(class))
	var inner []pythonClass
	for _, f := range fieldsOf(class.of) {
		name := jsonName(f)
		schema := class.schema.Properties[name]
		kind, of := p.kind(f.Type, &schema)
		p.field(name, kind, nameOf(of), describe(&schema))
		if of != nil && !p.seen[of.of] {
			p.seen[of.of] = true
			inner = append(inner, *of)
		}
	}
	for _, class := range inner {
		p.add(class)
	}
}

// fieldsOf are the fields of a type, with those of a type that is inlined in its place.
func fieldsOf(of reflect.Type) (all []reflect.StructField) {
	for i := range of.NumField() {
		if f := of.Field(i); jsonName(f) != "" {
			all = append(all, f)
		} else {
			all = append(all, fieldsOf(f.Type)...)
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// about is what the class says of the type.
func (p *pythonClasses) about(class pythonClass) string {
	text, _, _ := strings.Cut(p.source.types[class.of.Name()], " +kubebuilder:")
	if text == "" {
		text = oneLine(class.schema.Description)
	}
	return docstring(text)
}

// docstring is a text between the quotes of Python. Its last character is no quote.
func docstring(text string) string {
	text = strings.TrimSuffix(wrap(strings.ReplaceAll(oneLine(text), `\`, `\\`), "    "), "\n")
	if strings.HasSuffix(text, `"`) {
		text += " "
	}
	return text
}

func nameOf(class *pythonClass) string {
	if class == nil {
		return ""
	}
	return class.of.Name()
}

// field writes a field, with its text below as editors show it.
func (p *pythonClasses) field(name, kind, class, text string) {
	arguments := fmt.Sprintf("%q", name)
	switch {
	case class != "":
		arguments += fmt.Sprintf(", %q", class)
	case kind == "datetime":
		arguments += ", datetime"
	}
	fmt.Fprintf(p, "\n    %s: Optional[%s] = field(%s)\n", pythonName(name), kind, arguments)
	if text != "" {
		fmt.Fprintf(p, "    \"\"\"%s\"\"\"\n", docstring(text))
	}
}

// describe is the text of a field with its default and its bounds.
func describe(schema *apiextensionsv1.JSONSchemaProps) string {
	text := oneLine(schema.Description)
	var traits []string
	if schema.Default != nil {
		traits = append(traits, "default "+strings.Trim(string(schema.Default.Raw), `"`))
	}
	traits = append(traits, bounds(schema)...)
	if len(traits) == 0 {
		return text
	}
	return strings.TrimSpace(text + " (" + strings.ReplaceAll(strings.Join(traits, "; "), "`", "") + ")")
}

// kind is the type of a field in Python, and the class of the objects in the field; nil if there is none.
func (p *pythonClasses) kind(of reflect.Type, schema *apiextensionsv1.JSONSchemaProps) (kind string, class *pythonClass) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case schema.XIntOrString:
		return "Union[int, str]", nil
	case schema.Format == "date-time":
		return "datetime", nil
	case schema.Type == "array":
		kind, class = p.kind(of.Elem(), schema.Items.Schema)
		return "List[" + kind + "]", class
	case schema.AdditionalProperties != nil:
		kind, class = p.kind(of.Elem(), schema.AdditionalProperties.Schema)
		return "Dict[str, " + kind + "]", class
	case schema.Type == "object" && isOurs(of):
		return of.Name(), &pythonClass{of, schema}
	case schema.Type == "object":
		return "Dict[str, Any]", nil
	}
	return map[string]string{"boolean": "bool", "integer": "int", "number": "float", "string": "str"}[schema.Type], nil
}

// isOurs reports whether a type gets a class. Other types of Kubernetes are dictionaries.
func isOurs(of reflect.Type) bool {
	return of.Kind() == reflect.Struct &&
		(of.PkgPath() == reflect.TypeFor[v1alpha2.MiniCluster]().PkgPath() || of == reflect.TypeFor[metav1.Condition]())
}

// keywords are names that a field cannot have: Python has them for itself, and the classes call field.
var keywords = strings.Fields(`and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield field`)

var (
	beforeWord = regexp.MustCompile(`(.)([A-Z][a-z]+)`)
	afterWord  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// pythonName is the name of a field with underscores.
func pythonName(name string) string {
	name = strings.ToLower(afterWord.ReplaceAllString(beforeWord.ReplaceAllString(name, "${1}_${2}"), "${1}_${2}"))
	if slices.Contains(keywords, name) {
		name += "_"
	}
	return name
}
