// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func shallowTyped(object client.Object) client.Object {
	copied := reflect.New(reflect.TypeOf(object).Elem())
	copied.Elem().Set(reflect.ValueOf(object).Elem())
	return copied.Interface().(client.Object)
}

// part is a field of an object at its top: a field of a Go struct, or of the content of a custom resource.
func part(object client.Object, goName, jsonName string) any {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object[jsonName]
	}
	field := reflect.ValueOf(object).Elem().FieldByName(goName)
	if !field.IsValid() {
		return nil
	}
	return field.Addr().Interface()
}

// setPart gives an object a part of another one. Both share it then.
func setPart(object, from client.Object, goName, jsonName string) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		field := reflect.ValueOf(object).Elem().FieldByName(goName)
		if field.IsValid() {
			field.Set(reflect.ValueOf(from).Elem().FieldByName(goName))
		}
		return
	}
	value, there := from.(*unstructured.Unstructured).Object[jsonName]
	if there {
		u.Object[jsonName] = value
	} else {
		delete(u.Object, jsonName)
	}
}

func clearPart(object client.Object, goName, jsonName string) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		delete(u.Object, jsonName)
		return
	}
	if field := reflect.ValueOf(object).Elem().FieldByName(goName); field.IsValid() {
		field.SetZero()
	}
}

// sameContent is isSame of custom resources.
func sameContent(a, b *unstructured.Unstructured) bool {
	if len(a.Object) != len(b.Object) {
		return false
	}
	for key, value := range a.Object {
		other := b.Object[key]
		if key == "metadata" {
			value, other = withoutVersion(value), withoutVersion(other)
		}
		if !sameJSON(value, other) {
			return false
		}
	}
	return true
}

func withoutVersion(metadata any) any {
	out := maps.Clone(metadata.(map[string]any))
	delete(out, "resourceVersion")
	return out
}

// isSame reports whether two objects of a kind are equal except for their resource versions.
func isSame(a, b client.Object) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		return sameContent(u, b.(*unstructured.Unstructured))
	}
	version := a.GetResourceVersion()
	a.SetResourceVersion(b.GetResourceVersion())
	same := equality.Semantic.DeepEqual(a, b)
	a.SetResourceVersion(version)
	return same
}
