// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// unbounded are fields without a bound of their own. internal/weight bounds what a MiniCluster has in all.
var unbounded = []string{
	".securityContext", ".resources", ".namespaceSelector", ".nodeSelector.match", // types of Kubernetes
	".volumes{}.items{}", ".volumes{}.csiDriverAttributes{}", ".nodeAffinity{}[]", // such rules cost more than the API server allows
}

// Each text, list and map in a spec has a bound: of its own, or by a rule of the list or map that has it.
func TestBounds(t *testing.T) {
	files, err := filepath.Glob("flux-framework.org_*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &definition); err != nil {
			t.Fatal(err)
		}
		kind, whole := definition.Spec.Names.Kind, definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		checkBounds(t, kind, new(whole.Properties["spec"]))
	}
}

func checkBounds(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for _, field := range unbounded {
		if strings.Contains(path, field) {
			return
		}
	}
	values := schema.AdditionalProperties
	switch {
	case schema.Type == "string" && schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format != "date-time",
		schema.Type == "array" && schema.MaxItems == nil, values != nil && schema.MaxProperties == nil:
		t.Errorf("%s has no bound", path)
	}
	for name, property := range schema.Properties {
		checkBounds(t, path+"."+name, &property)
	}
	for _, rule := range schema.XValidations {
		if strings.HasPrefix(rule.Rule, "self.all(") && strings.Contains(rule.Rule, "size(") {
			return
		}
	}
	if schema.Items != nil {
		checkBounds(t, path+"[]", schema.Items.Schema)
	}
	if values != nil {
		checkBounds(t, path+"{}", values.Schema)
	}
}
