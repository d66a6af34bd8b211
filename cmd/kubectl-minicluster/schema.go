// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/config/crd"
)

// schema applies the definition of MiniClusters to an object, as the API server does.
type schema struct {
	structural *structuralschema.Structural
	fields     apiextensionsvalidation.SchemaValidator
	rules      *cel.Validator
}

func newSchema() (*schema, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(crd.MiniClusters, &definition); err != nil {
		return nil, fmt.Errorf("reading the definition of MiniClusters: %w", err)
	}
	var properties apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &properties, nil)
	if err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&properties)
	if err != nil {
		return nil, err
	}
	fields, _, err := apiextensionsvalidation.NewSchemaValidator(&properties)
	if err != nil {
		return nil, err
	}
	return &schema{structural, fields, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit sets the defaults of an object, or returns its errors. As with kubectl, an unknown field is
// an error.
func (s *schema) admit(object map[string]any, namespace string) error {
	u := &unstructured.Unstructured{Object: object}
	if metadata, ok := object["metadata"].(map[string]any); ok && metadata["namespace"] == nil {
		metadata["namespace"] = namespace
	}
	if unknown := s.prune(object); len(unknown) > 0 {
		return fmt.Errorf("unknown field %s", unknown[0])
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	errs := apiextensionsvalidation.ValidateCustomResource(nil, object, s.fields)
	if len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(u, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	}
	if len(errs) == 0 {
		errs, _ = s.rules.Validate(context.Background(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	return errs.ToAggregate()
}

// prune removes the unknown fields of an object, and returns their paths.
func (s *schema) prune(object map[string]any) []string {
	return pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}
