// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	_ "embed" // own
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/config/crd"
)

// own is the JSON schema of an experiment's file, without the fields of MiniClusters.
//
//go:embed experiment.schema.json
var own []byte

// Schema returns the JSON schema of an experiment's file, for editors. It has the fields of the MiniCluster, too.
func Schema() ([]byte, error) {
	var schema, definition map[string]any
	if err := json.Unmarshal(own, &schema); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	if err := yaml.Unmarshal(crd.MiniClusters, &definition); err != nil {
		return nil, fmt.Errorf("reading the definition of MiniClusters: %w", err)
	}
	version, _ := find(definition, "spec", "versions").([]any)
	if len(version) == 0 {
		return nil, fmt.Errorf("the definition of MiniClusters has no version")
	}
	spec, template := find(version[0], "schema", "openAPIV3Schema", "properties", "spec"), find(schema, "properties", "template", "properties")
	template.(map[string]any)["spec"] = forEditors(spec)
	return json.MarshalIndent(schema, "", " ")
}

// find returns what is at a path of names.
func find(in any, path ...string) any {
	for _, name := range path {
		object, _ := in.(map[string]any)
		in = object[name]
	}
	return in
}

// forEditors turns a schema of Kubernetes into one of JSON, for objects whose texts may have placeholders. Unknown
// fields are errors, as they are in Read.
func forEditors(in any) any {
	schema, ok := in.(map[string]any)
	if !ok {
		return in
	}
	out := map[string]any{}
	for key, value := range schema {
		switch key {
		case "properties":
			out[key] = eachForEditors(value)
		case "items", "additionalProperties":
			out[key] = forEditors(value)
		case "enum":
			out["anyOf"] = []any{map[string]any{key: value}, map[string]any{"pattern": placeholder.String()}}
		case "pattern", "format", "minLength", "maxLength":
		default:
			if !strings.HasPrefix(key, "x-kubernetes-") {
				out[key] = value
			}
		}
	}
	if _, open := out["additionalProperties"]; out["properties"] != nil && !open && schema["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	return out
}

func eachForEditors(in any) map[string]any {
	out := map[string]any{}
	fields, _ := in.(map[string]any)
	for name, field := range fields {
		out[name] = forEditors(field)
	}
	return out
}
