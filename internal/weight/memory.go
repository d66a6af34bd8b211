// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package weight

import (
	"reflect"
	"time"
)

// memoryOf is how many bytes of memory an object takes, about: an empty text in a list has two bytes in the API server's own
// format, and sixteen in memory. What the decoder leaves free at the end of lists does not count, so that an object takes as
// much in the cache as when it was made.
func memoryOf(object any) int {
	v := reflect.ValueOf(object)
	return int(v.Type().Size()) + behind(v)
}

var timeType = reflect.TypeFor[time.Time]()

// behind is how many bytes a value refers to.
func behind(v reflect.Value) (bytes int) {
	switch v.Kind() {
	case reflect.String:
		return (v.Len() + 7) &^ 7
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return int(v.Elem().Type().Size()) + behind(v.Elem())
		}
	case reflect.Slice:
		return v.Len()*int(v.Type().Elem().Size()) + behindAll(v)
	case reflect.Array:
		return behindAll(v)
	case reflect.Map:
		return behindMap(v)
	case reflect.Struct:
		if v.Type() == timeType { // all share the zone
			return 0
		}
		for i := range v.NumField() {
			bytes += behind(v.Field(i))
		}
	}
	return bytes
}

// behindAll is how many bytes the elements of a list refer to.
func behindAll(v reflect.Value) (bytes int) {
	if kind := v.Type().Elem().Kind(); kind < reflect.Array { // a number
		return 0
	}
	for i := range v.Len() {
		bytes += behind(v.Index(i))
	}
	return bytes
}

// behindMap is how many bytes a map has. A map has room for eight entries, and may be half full later.
func behindMap(v reflect.Value) (bytes int) {
	if v.IsNil() {
		return 0
	}
	bytes = max(8, 2*v.Len()) * int(v.Type().Key().Size()+v.Type().Elem().Size())
	for entries := v.MapRange(); entries.Next(); {
		bytes += behind(entries.Key()) + behind(entries.Value())
	}
	return bytes
}
