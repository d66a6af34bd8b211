// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record says that a suite passed with some inputs.
type record struct {
	Suite string `json:"suite"`
	// At is when the suite ended, and Revision is that of the checkout.
	At       time.Time `json:"at"`
	Revision string    `json:"revision"`
	Inputs   inputs    `json:"inputs"`

	path string
}

// kept is how many records of a suite are kept: several revisions may take turns on a machine.
const kept = 20

// records are those of a directory.
type records struct{ dir string }

// of returns the records of a suite, the newest first.
func (r records) of(target string) ([]record, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, target, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, path := range paths {
		own := record{path: path}
		if err := read(path, &own); err != nil {
			return nil, err
		}
		all = append(all, own)
	}
	slices.SortFunc(all, func(a, b record) int { return b.At.Compare(a.At) })
	return all, nil
}

// add writes a record, and removes the oldest if there are many.
func (r records) add(own *record) error {
	own.path = filepath.Join(r.dir, own.Suite, own.Inputs.key()+".json")
	if err := write(own.path, own); err != nil {
		return err
	}
	all, err := r.of(own.Suite)
	if err != nil || len(all) <= kept {
		return err
	}
	for i := range all[kept:] {
		err = errors.Join(err, os.Remove(all[kept+i].path))
	}
	return err
}

// key is one hash of all inputs.
func (in inputs) key() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(&text, "%q %q\n", name, in[name])
	}
	return hash([]byte(text.String()))
}

// differs returns the names of what differs, in order.
func (in inputs) differs(other inputs) []string {
	names := map[string]bool{}
	for _, both := range [][2]inputs{{in, other}, {other, in}} {
		for name, value := range both[0] {
			if got, ok := both[1][name]; !ok || got != value {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// verdict says whether a suite has to run, and why.
func (r records) verdict(target string, now inputs) (due bool, why string, err error) {
	all, err := r.of(target)
	if err != nil {
		return false, "", err
	}
	for i := range all {
		if own := &all[i]; own.Inputs.key() == now.key() {
			return false, fmt.Sprintf("it passed %s, and nothing that it depends on has changed since (%s)", own.when(), own.path), nil
		}
	}
	if len(all) == 0 {
		return true, "it never passed on this machine", nil
	}
	changed := all[0].Inputs.differs(now)
	const few = 4
	more := ""
	if n := len(changed) - few; n > 0 {
		changed, more = changed[:few], fmt.Sprintf(" and %d more", n)
	}
	return true, fmt.Sprintf("%s%s differ from when it passed %s", strings.Join(changed, ", "), more, all[0].when()), nil
}

func (own *record) when() string {
	return fmt.Sprintf("on %s at %s", own.At.Format("2006-01-02 15:04"), own.Revision)
}

func read(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// write writes a file in one step.
func write(path string, from any) error {
	data, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, ignoreMissing(os.Remove(file.Name())))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
