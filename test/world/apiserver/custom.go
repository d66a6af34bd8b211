// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// definition is what one version of a CustomResourceDefinition says about its objects. It is compiled once in a process.
type definition struct {
	structural *structuralschema.Structural
	whole      validation.SchemaValidator
	rules      *schemacel.Validator
	// top has the rules of the whole object, without those of its parts; nil without.
	top           *schemacel.Validator
	topStructural *structuralschema.Structural
	hasStatus     bool
	parts         map[string]*definition                          // of the fields at the top, with a schema and rules alone
	scale         *apiextensionsv1.CustomResourceSubresourceScale // nil without
}

var (
	definitions      = map[[sha256.Size]byte]*definition{}
	definitionsMutex sync.Mutex
)

// define compiles a version of a definition.
func define(v *apiextensionsv1.CustomResourceDefinitionVersion) (*definition, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	definitionsMutex.Lock()
	defer definitionsMutex.Unlock()
	if d := definitions[sum]; d != nil {
		return d, nil
	}
	d, err := compileDefinition(v)
	if err == nil {
		definitions[sum] = d
	}
	return d, err
}

func compileDefinition(v *apiextensionsv1.CustomResourceDefinitionVersion) (*definition, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", v.Name)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	d := &definition{structural: structural, hasStatus: v.Subresources != nil && v.Subresources.Status != nil}
	if v.Subresources != nil {
		d.scale = v.Subresources.Scale
	}
	if d.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	d.parts = map[string]*definition{}
	for name, property := range props.Properties {
		part := structural.Properties[name]
		p := &definition{structural: &part, rules: schemacel.NewValidator(&part, false, celconfig.PerCallLimit)}
		if p.whole, _, err = validation.NewSchemaValidator(&property); err != nil {
			return nil, err
		}
		d.parts[name] = p
	}
	if len(structural.XValidations) > 0 {
		d.topStructural = withoutRules(structural)
		d.top = schemacel.NewValidator(d.topStructural, true, celconfig.PerCallLimit)
	}
	d.rules = schemacel.NewValidator(structural, true, celconfig.PerCallLimit)
	return d, nil
}

// complete prunes and coerces an object as it was sent, and gives it the defaults of the schema.
func (d *definition) complete(u *unstructured.Unstructured) error {
	kind, apiVersion := u.GetKind(), u.GetAPIVersion()
	metadata, found, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return err
	}
	pruning.Prune(u.Object, d.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, d.structural)
	if err := objectmeta.Coerce(nil, u.Object, d.structural, false, false); err != nil {
		return err
	}
	u.SetKind(kind)
	u.SetAPIVersion(apiVersion)
	if found {
		if err := objectmeta.SetObjectMeta(u.Object, metadata); err != nil {
			return err
		}
	}
	defaulting.Default(u.Object, d.structural)
	return nil
}

// completeStatus completes the status alone: a write of the status changes nothing else.
func (d *definition) completeStatus(u *unstructured.Unstructured) error {
	status, part := u.Object["status"], d.parts["status"]
	if status == nil || part == nil {
		return nil
	}
	status = ownJSON(status)
	pruning.Prune(status, part.structural, false)
	defaulting.PruneNonNullableNullsWithoutDefaults(status, part.structural)
	if err := objectmeta.Coerce(nil, status, part.structural, false, false); err != nil {
		return err
	}
	defaulting.Default(status, part.structural)
	u.Object["status"] = status
	return nil
}

// validate checks a new object against the schema and its rules.
func (d *definition) validate(u *unstructured.Unstructured) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, u.Object, d.whole)
	errs = append(errs, d.validateScale(u, false)...)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	return append(errs, d.follow(errs, u, nil)...)
}

// validateUpdate checks a changed object. What has not changed may break the schema: the API server is called ratcheting.
// So parts that have not changed need no look, and neither have their rules. The rules of the whole object have.
func (d *definition) validateUpdate(u, old *unstructured.Unstructured, subresource string) field.ErrorList {
	if d.isFine(u, old) {
		return nil
	}
	return d.validateAll(u, old, subresource)
}

// isFine reports whether the parts of an object that have changed are valid. It does not say what is wrong.
func (d *definition) isFine(u, old *unstructured.Unstructured) bool {
	for name := range old.Object {
		if _, there := u.Object[name]; !there {
			return false
		}
	}
	isRead := false // a changed part, by the rules of the whole object
	for name, value := range u.Object {
		before, there := old.Object[name]
		switch {
		case name == "metadata" || there && sameJSON(value, before): // the rules see only the name, which stays
		case !there && name != "status" || !d.parts[name].holds(name, value, before):
			return false
		default:
			isRead = isRead || d.topReads(name)
		}
	}
	return len(d.validateScale(u, false)) == 0 && (!isRead || d.topHolds(u, old))
}

// topHolds reports whether an object breaks no rule of the whole object.
func (d *definition) topHolds(u, old *unstructured.Unstructured) bool {
	if d.top == nil {
		return true
	}
	found, _ := d.top.Validate(context.Background(), nil, d.topStructural, u.Object, old.Object, celconfig.RuntimeCELCostBudget)
	return len(found) == 0
}

// wholeSelf is a rule that reads more than some fields of an object.
var wholeSelf = regexp.MustCompile(`\b(self|oldSelf)\b($|[^.])`)

// topReads reports whether the rules of the whole object may read a field at its top.
func (d *definition) topReads(name string) bool {
	return slices.ContainsFunc(d.structural.XValidations, func(r apiextensionsv1.ValidationRule) bool {
		return strings.Contains(r.Rule, "."+name) || wholeSelf.MatchString(r.Rule)
	})
}

// withoutRules is a schema without the rules below its top.
func withoutRules(s *structuralschema.Structural) *structuralschema.Structural {
	top := s.DeepCopy()
	rules := top.XValidations
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		s.XValidations = nil
		return true
	}}
	visitor.Visit(top)
	top.XValidations = rules
	return top
}

// holds reports whether a changed part is valid, also where it has not changed.
func (d *definition) holds(name string, value, before any) bool {
	if d == nil { // the schema does not know the part
		return false
	}
	path := field.NewPath(name)
	content, _ := value.(map[string]any)
	if len(validation.ValidateCustomResource(path, value, d.whole)) > 0 ||
		len(objectmeta.Validate(context.Background(), path, value, d.structural, false)) > 0 || len(listtype.ValidateListSetsAndMaps(path, d.structural, content)) > 0 {
		return false
	}
	if d.rules == nil {
		return true
	}
	found, _ := d.rules.Validate(context.Background(), path, d.structural, value, before, celconfig.RuntimeCELCostBudget)
	return len(found) == 0
}

func (d *definition) validateAll(u, old *unstructured.Unstructured, subresource string) field.ErrorList {
	correlated := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: d.structural})
	var errs field.ErrorList
	if subresource == "status" {
		if status, there := u.Object["status"]; there && d.parts["status"] != nil {
			ratcheting := validation.WithRatcheting(correlated.Key("status"))
			errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], d.parts["status"].whole, ratcheting)
		}
		errs = append(errs, d.validateScale(u, true)...)
	} else {
		errs = validation.ValidateCustomResourceUpdate(nil, u.Object, old.Object, d.whole, validation.WithRatcheting(correlated))
		errs = append(errs, d.validateScale(u, false)...)
		errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, d.structural, false)...)
	}
	if before := listtype.ValidateListSetsAndMaps(nil, d.structural, old.Object); len(before) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	}
	return append(errs, d.follow(errs, u, old, schemacel.WithRatcheting(correlated))...)
}

// validateScale checks the numbers of the subresource scale.
func (d *definition) validateScale(u *unstructured.Unstructured, statusAlone bool) (errs field.ErrorList) {
	if d.scale == nil {
		return nil
	}
	paths := []string{d.scale.SpecReplicasPath, d.scale.StatusReplicasPath}
	if statusAlone {
		paths = paths[1:]
	}
	for _, path := range paths {
		number, _, err := unstructured.NestedInt64(u.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(path), number, err.Error()))
		case number < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), number, "should be a non-negative integer"))
		case number > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), number, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	return errs
}

// follow evaluates the rules of the schema, unless errors show that the rules cannot be evaluated.
func (d *definition) follow(errs field.ErrorList, u, old *unstructured.Unstructured, options ...schemacel.Option) field.ErrorList {
	if d.rules == nil {
		return nil
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
		}
	}
	var before any
	if old != nil {
		before = old.Object
	}
	found, _ := d.rules.Validate(context.Background(), nil, d.structural, u.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return found
}

// establish makes the resources of a new or changed definition, and says in its status that the server has them.
func (s *Server) establish(crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if !v.Served || !v.Storage { // versions are not converted
			continue
		}
		d, err := define(v)
		if err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
		r := &Resource{
			Kind: crd.Spec.Names.Kind, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, definition: d,
			listKind: crd.Spec.Names.ListKind, singular: crd.Spec.Names.Singular, shortNames: crd.Spec.Names.ShortNames,
			traits: traits{needsVersion: true, counts: true},
		}
		r.Group, r.Version, r.Resource = crd.Spec.Group, v.Name, crd.Spec.Names.Plural
		if d.hasStatus {
			r.subresources = append(r.subresources, "status")
		}
		if t := s.table(r.Group, r.Version, r.Resource); t != nil {
			t.Resource = r
		} else {
			s.tables = append(s.tables, newTable(r))
		}
	}
	return nil
}

// abolish takes away the resources of a definition that is gone, and their objects.
func (s *Server) abolish(crd *apiextensionsv1.CustomResourceDefinition) {
	var left []*table
	for _, t := range s.tables {
		if t.definition == nil || t.Group != crd.Spec.Group || t.GroupVersionResource.Resource != crd.Spec.Names.Plural {
			left = append(left, t)
			continue
		}
		for len(t.sorted) > 0 {
			v := t.objects[t.sorted[0]]
			s.remove(v, v.object)
		}
		for _, stream := range append([]*Stream(nil), s.streams...) {
			if stream.table == t {
				stream.end()
			}
		}
	}
	s.tables = left
}
