// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// maxDepth bounds the nesting of a document, and so the stack. A resource takes two levels.
const maxDepth = 128

// node is a value of a JSON document, and its place in the document. All nodes of a document share
// the first error. After an error the values mean nothing. So code that reads a document needs no
// error handling.
type node struct {
	value any // map[string]any, []any, or a scalar: string, json.Number, bool, nil
	path  string
	err   *error
}

// read returns the result of interpret for a document, or the first error of the document.
func read[T any](data []byte, interpret func(node) T) (T, error) {
	var none T
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	value, err := decode(decoder, 0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return none, err
	}
	if _, end := decoder.Token(); !errors.Is(end, io.EOF) {
		return none, errors.New("text after the document")
	}
	result := interpret(node{value: value, err: &err})
	if err != nil {
		return none, err
	}
	return result, nil
}

// decode reads one value. Unlike json.Unmarshal it refuses a duplicate key, since one of its values
// would be ignored.
func decode(decoder *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(decoder, depth)
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			element, err := decode(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = decoder.Token()
		return list, err
	}
	return token, nil
}

func decodeObject(decoder *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder refuses other keys
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("key %q is there twice, at byte %d", key, decoder.InputOffset())
		}
		if object[key], err = decode(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}

// fail sets the error of the document, unless there is one already.
func (n node) fail(format string, args ...any) {
	if *n.err != nil {
		return
	}
	*n.err = fmt.Errorf(format, args...)
	if n.path != "" {
		*n.err = fmt.Errorf("%s: %w", n.path, *n.err)
	}
}

// object returns the value as a mapping. If keys are given, other keys are an error.
func (n node) object(keys ...string) map[string]any {
	object, ok := n.value.(map[string]any)
	if !ok {
		n.fail("not a mapping")
	}
	if len(keys) > 0 {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if !slices.Contains(keys, key) {
				n.fail("unknown key %q", key)
			}
		}
	}
	return object
}

// has reports whether the mapping has a key, even with the value null.
func (n node) has(key string) bool {
	_, ok := n.object()[key]
	return ok
}

// get returns the value of a required key.
func (n node) get(key string) node {
	value, ok := n.object()[key]
	if !ok {
		n.fail("missing key %q", key)
	}
	child := node{value: value, path: key, err: n.err}
	if n.path != "" {
		child.path = n.path + "." + key
	}
	return child
}

// list returns the value as a sequence.
func (n node) list() []node {
	values, ok := n.value.([]any)
	if !ok {
		n.fail("not a sequence")
	}
	nodes := make([]node, len(values))
	for i, value := range values {
		nodes[i] = node{value: value, path: fmt.Sprintf("%s[%d]", n.path, i), err: n.err}
	}
	return nodes
}

// text returns the value as a scalar. In YAML, and so for Fluxion, numbers and truth values are
// texts as well.
func (n node) text() string {
	switch value := n.value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	}
	n.fail("not a scalar")
	return ""
}

// optional returns the text of an optional key.
func (n node) optional(key string) string {
	if !n.has(key) {
		return ""
	}
	return n.get(key).text()
}

// checkTexts refuses a value that is no mapping of scalars.
func (n node) checkTexts() {
	for _, key := range slices.Sorted(maps.Keys(n.object())) {
		n.get(key).text()
	}
}

// integer returns the value as a whole number within limits. As with Fluxion, the number may be
// quoted, and may then be hexadecimal or octal. It must have neither fraction nor exponent.
func (n node) integer(low, high int64) int64 {
	text := n.text()
	number, err := strconv.ParseInt(text, 0, 64)
	if err != nil || number < low || number > high {
		n.fail("%q is no integer from %d to %d", text, low, high)
	}
	return number
}
