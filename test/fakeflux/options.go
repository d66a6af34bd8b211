// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// options are the values that were given to each option, by its long name.
type options map[string][]string

// syntax are the options of a command, each "long", "long,s" with a short name, and
// with a final "=" if it takes a value.
type syntax []string

// find is the option of a name, and whether it takes a value.
func (s syntax) find(name string) (long string, value, ok bool) {
	for _, option := range s {
		names, value := strings.CutSuffix(option, "=")
		long, short, _ := strings.Cut(names, ",")
		if name == long || name == short && name != "" {
			return long, value, true
		}
	}
	return "", false, false
}

// parse reads the options at the beginning of the arguments, and returns the others.
func parse(args []string, known syntax) (options, []string, error) {
	found := options{}
	for len(args) > 0 {
		arg := args[0]
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		var err error
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			args, err = found.long(name, args, known)
		} else {
			args, err = found.short(arg[1:], args, known)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return found, args, nil
}

func (o options) long(name string, args []string, known syntax) (rest []string, err error) {
	name, text, given := strings.Cut(name, "=")
	long, takes, ok := known.find(name)
	if !ok || len(name) < 2 {
		return nil, fmt.Errorf("error: unrecognized arguments: --%s", name)
	}
	if takes && !given {
		if len(args) == 0 {
			return nil, fmt.Errorf("error: argument --%s: expected one argument", name)
		}
		text, args = args[0], args[1:]
	}
	o[long] = append(o[long], text)
	return args, nil
}

// short reads letters: "no" is -n -o, and what follows a letter with a value is that.
func (o options) short(letters string, args []string, known syntax) (rest []string, err error) {
	for letters != "" {
		long, takes, ok := known.find(letters[:1])
		if !ok {
			return nil, fmt.Errorf("error: unrecognized arguments: -%s", letters)
		}
		letters = letters[1:]
		if !takes {
			o[long] = append(o[long], "")
			continue
		}
		if letters == "" {
			if len(args) == 0 {
				return nil, fmt.Errorf("error: argument --%s: expected one argument", long)
			}
			letters, args = args[0], args[1:]
		}
		o[long] = append(o[long], letters)
		break
	}
	return args, nil
}

func (o options) has(name string) bool { return len(o[name]) > 0 }

// label is the label of a task's lines: a prefix and its rank; nil without --label-io.
func (o options) label(prefix string) func(int) string {
	if !o.has("label-io") {
		return nil
	}
	return func(task int) string { return prefix + strconv.Itoa(task) }
}

// last is the value that counts where an option is given several times.
func (o options) last(name string) string {
	if values := o[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// list is the value as a list with commas.
func (o options) list(name string) []string {
	if text := o.last(name); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// number is the value as a number of at least one; 0 if there is none.
func (o options) number(name string) (int, error) {
	text := o.last(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("error: argument --%s: %q is no number of at least 1", name, text)
	}
	return n, nil
}
