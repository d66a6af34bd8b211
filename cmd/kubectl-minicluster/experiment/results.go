// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// Files of a directory of results. runs.csv is made from runs.jsonl.
const (
	definitionFile = "experiment.yaml" // a copy of the file
	identityFile   = "experiment.json"
	linesFile      = "runs.jsonl"
	tableFile      = "runs.csv"
	logsDir        = "logs"
)

// identity is what does not follow from the file of an experiment.
type identity struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Began     time.Time `json:"began"`
}

// results is a directory of results.
type results struct {
	dir        string
	identity   identity
	definition *core.Definition
	runs       []core.Run
	records    []*core.Record

	lines *os.File // locked, and open for appending; nil if the results are only read
}

// createResults makes a directory of results. It fails if the directory has results already.
func createResults(dir string, text []byte, namespace string, now time.Time) error {
	if _, err := os.Stat(filepath.Join(dir, identityFile)); err == nil {
		return fmt.Errorf("%s has results: go on with kubectl minicluster experiment resume %s, or choose another directory with --out", dir, dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, logsDir), 0o755); err != nil {
		return err
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	data, err := json.Marshal(identity{ID: hex.EncodeToString(id), Namespace: namespace, Began: now.UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, definitionFile), text); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, identityFile), append(data, '\n')) // the last: with it there are results
}

// readResults reads a directory of results.
func readResults(dir string) (*results, error) {
	r := &results{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no results of an experiment: there is no %s", dir, identityFile)
	}
	if err == nil {
		err = json.Unmarshal(data, &r.identity)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	path := filepath.Join(dir, definitionFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	if r.definition, err = core.Read(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.runs, err = r.definition.Runs(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	_, err = r.readRecords()
	return r, err
}

// readRecords reads the records, and returns the length of the whole lines.
func (r *results) readRecords() (whole int, err error) {
	path := filepath.Join(r.dir, linesFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		r.records, whole, err = core.ParseLines(data)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return whole, nil
}

// open opens results for writing, and drops a last record that was not written to its end. Only one program can have
// them open.
func (r *results) open() error {
	file, err := os.OpenFile(filepath.Join(r.dir, linesFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return fmt.Errorf("another program runs the experiment of %s: %w", r.dir, err)
	}
	r.lines = file
	whole, err := r.readRecords()
	if err == nil {
		err = file.Truncate(int64(whole))
	}
	if err != nil {
		r.close()
	}
	return err
}

func (r *results) close() { r.lines.Close() }

// append writes a record. After append has returned, a crash does not lose it.
func (r *results) append(record *core.Record) error {
	line, err := record.Line()
	if err != nil {
		return err
	}
	if _, err := r.lines.Write(line); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	if err := r.lines.Sync(); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	r.records = append(r.records, record)
	return nil
}

// writeTable writes the records as a table.
func (r *results) writeTable() error {
	var out bytes.Buffer
	if err := core.WriteCSV(&out, r.records); err != nil {
		return err
	}
	return writeFile(filepath.Join(r.dir, tableFile), out.Bytes())
}

// writeFile writes a file whole or not at all.
func writeFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
