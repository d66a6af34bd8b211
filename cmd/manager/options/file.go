// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// The type of the configuration file.
const (
	APIVersion = "config.flux-framework.org/v1alpha1"
	FileKind   = "ManagerConfiguration"
)

// fileType are the fields that every file has.
var fileType = []struct{ field, value string }{{"apiVersion", APIVersion}, {"kind", FileKind}}

// kinds are the names of kinds in messages.
var kinds = map[Kind]string{Boolean: "true or false", Integer: "a whole number", Number: "a number", String: "a string"}

// tags are the kinds that YAML reads.
var tags = map[string]Kind{"!!bool": Boolean, "!!int": Integer, "!!float": Number, "!!str": String}

// read sets what the fields of a configuration file say. The error has all problems, with their lines.
func read(file []byte, sections []Section) error {
	root, err := document(file)
	if err != nil {
		return err
	}
	fields := map[string]*Value{}
	for _, t := range fileType {
		fields[t.field] = &Value{Kind: String, Choices: []string{t.value}, set: func(string) error { return nil }}
	}
	for _, section := range sections {
		for _, s := range section.Settings {
			fields[s.Field()] = s.Value
		}
	}
	var problems []error
	lines := map[string]int{} // of the fields
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("line %d: %s: %w", key.Line, key.Value, fmt.Errorf(format, args...)))
		}
		field, known := fields[key.Value]
		switch before, twice := lines[key.Value]; {
		case !known:
			problem("there is no such field")
		case twice:
			problem("line %d has the field already", before)
		default:
			if err := field.setNode(value); err != nil {
				problem("%w", err)
			}
		}
		lines[key.Value] = key.Line
	}
	for _, t := range fileType {
		if lines[t.field] == 0 {
			problems = append(problems, fmt.Errorf("%s is missing: it has to be %s", t.field, t.value))
		}
	}
	return errors.Join(problems...)
}

// document returns the fields of the one document of a file.
func document(file []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	root := first.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: it has no fields", root.Line)
	}
	return root, nil
}

// setNode sets the value of a field.
func (v *Value) setNode(node *yaml.Node) error {
	kind := tags[node.ShortTag()]
	switch {
	case node.Kind != yaml.ScalarNode:
		return fmt.Errorf("it has to be %s", kinds[v.Kind])
	case kind == v.Kind || (kind == Integer && v.Kind == Number):
	case kind != "" && v.Kind == String:
		return fmt.Errorf("it has to be a string: write %q", node.Value)
	default:
		return fmt.Errorf("it has to be %s", kinds[v.Kind])
	}
	if err := v.Set(node.Value); err != nil {
		return fmt.Errorf("%q: %w", node.Value, err)
	}
	return nil
}
