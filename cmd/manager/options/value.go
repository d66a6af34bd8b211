// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Kind is the type of a field, as JSON schema names it.
type Kind string

// The kinds.
const (
	Boolean Kind = "boolean"
	Integer Kind = "integer"
	Number  Kind = "number"
	String  Kind = "string"
)

// Value is the value of a setting: it is a flag.Value, and says which texts it takes.
type Value struct {
	Kind    Kind
	Default string
	// Choices are all texts that it takes; others are taken, too, if there are none.
	Choices []string
	// Minimum is the smallest number that it takes, if it has one.
	Minimum *int

	text string
	set  func(text string) error
}

// newValue returns a value that is stored in target. The default has to be a text that parse reads.
func newValue[T any](target *T, kind Kind, text string, parse func(string) (T, error)) *Value {
	v := &Value{Kind: kind, Default: text}
	v.set = func(text string) error {
		value, err := parse(text)
		if err == nil {
			*target = value
		}
		return err
	}
	if err := v.Set(text); err != nil {
		panic(err)
	}
	return v
}

// String returns the value as text.
func (v *Value) String() string { return v.text }

// Set changes the value.
func (v *Value) Set(text string) error {
	if len(v.Choices) > 0 && !slices.Contains(v.Choices, text) {
		return fmt.Errorf("it can be %s", anyOf(v.Choices))
	}
	if err := v.set(text); err != nil {
		return err
	}
	v.text = text
	return nil
}

// IsBoolFlag reports whether the flag may have no value.
func (v *Value) IsBoolFlag() bool { return v.Kind == Boolean }

func anyOf(choices []string) string {
	last := len(choices) - 1
	if last == 0 {
		return choices[0]
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

func toggle(target *bool) *Value {
	return newValue(target, Boolean, "false", func(text string) (bool, error) {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return false, errors.New("it can be true or false")
		}
		return value, nil
	})
}

func plain(target *string, value string) *Value {
	return newValue(target, String, value, func(text string) (string, error) { return text, nil })
}

func choice[T ~string](target *T, value T, choices ...T) *Value {
	v := newValue(target, String, string(value), func(text string) (T, error) { return T(text), nil })
	for _, c := range choices {
		v.Choices = append(v.Choices, string(c))
	}
	return v
}

func count(target *int, value, least int) *Value {
	v := newValue(target, Integer, strconv.Itoa(value), func(text string) (int, error) {
		value, err := strconv.Atoi(text)
		if err != nil || value < least {
			return 0, fmt.Errorf("it has to be a whole number of at least %d", least)
		}
		return value, nil
	})
	v.Minimum = &least
	return v
}

func number(target *float64, value float64, least int) *Value {
	v := newValue(target, Number, strconv.FormatFloat(value, 'f', -1, 64), func(text string) (float64, error) {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value >= float64(least)) { // not NaN either
			return 0, fmt.Errorf("it has to be a number of at least %d", least)
		}
		return value, nil
	})
	v.Minimum = &least
	return v
}

func duration(target *time.Duration, value string) *Value {
	return newValue(target, String, value, func(text string) (time.Duration, error) {
		value, err := time.ParseDuration(text)
		if err != nil || value < 0 {
			return 0, errors.New("it has to be a duration that is not negative, such as 90s, 10m or 24h")
		}
		return value, nil
	})
}

func selector(target *labels.Selector, value string) *Value {
	return newValue(target, String, value, func(text string) (labels.Selector, error) { return labels.Parse(text) })
}

// foreign is the value of a flag that a library defines. The library has its default, too.
func foreign(library *flag.FlagSet, name string, kind Kind, value string, choices ...string) *Value {
	return &Value{Kind: kind, Default: value, Choices: choices, text: value, set: library.Lookup(name).Value.Set}
}
