// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"reflect"
)

// sameJSON reports whether two values of custom resources are equal. Values that are shared are not looked into.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		if reflect.ValueOf(x).UnsafePointer() == reflect.ValueOf(y).UnsafePointer() {
			return true
		}
		for key, value := range x {
			other, there := y[key]
			if !there || !sameJSON(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// mergeJSON applies a merge patch (RFC 7396) to a value, which it leaves as it is: what is not patched, both share.
func mergeJSON(value, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	before, _ := value.(map[string]any)
	after := make(map[string]any, len(before)+len(changes))
	for key, kept := range before {
		after[key] = kept
	}
	for key, change := range changes {
		if change == nil {
			delete(after, key)
		} else {
			after[key] = mergeJSON(before[key], change)
		}
	}
	return after
}

// ownJSON copies a value as deep as it may be changed later.
func ownJSON(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = ownJSON(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = ownJSON(item)
		}
		return out
	}
	return value
}
