// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Bounds of an experiment.
const (
	mostName = 32
	mostRuns = 100_000
	// mostFilter is for a regular expression or a filter of jq, in bytes: their parsers recurse.
	mostFilter = 4096
	// mostFilled is for the values of parameters in the texts of a MiniCluster, in bytes.
	mostFilled = 1 << 20
)

var (
	validName      = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	validParameter = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)
	validFigure    = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)
	wrongType      = regexp.MustCompile(`cannot unmarshal (.+?) into Go struct field \w+\.([\w.]+) of type .*`)
)

// Read reads the file of an experiment, and sets the defaults. An error has all problems, one on a line, each with
// the path of its field.
func Read(text []byte) (*Definition, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	d := &Definition{}
	if err := decode(data, d); err != nil {
		return nil, err
	}
	d.Repetitions = cmp.Or(d.Repetitions, 1)
	d.Order = cmp.Or(d.Order, AsWritten)
	for i := range d.Figures {
		d.Figures[i].Take = cmp.Or(d.Figures[i].Take, TakeLast)
		d.Figures[i].Better = cmp.Or(d.Figures[i].Better, Lower)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	_, err = d.Runs()
	return d, err
}

// decode reads JSON. An unknown field, and a field twice, is an error.
func decode(data []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		if parts := wrongType.FindStringSubmatch(err.Error()); parts != nil {
			return fmt.Errorf("%s: it cannot be a %s", parts[2], parts[1])
		}
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return errors.Join(strict...)
}

// problems collects errors with the paths of fields.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
}

// check returns what is wrong with the fields, except for the MiniClusters that they describe.
func (d *Definition) check() error {
	var p problems
	if d.APIVersion != APIVersion {
		p.add("apiVersion", "it has to be %s", APIVersion)
	}
	if d.Kind != Kind {
		p.add("kind", "it has to be %s", Kind)
	}
	if !validName.MatchString(d.Name) || len(d.Name) > mostName {
		p.add("name", "it has to start with a letter and hold up to %d lower case letters, digits and '-'", mostName)
	}
	if d.Repetitions < 1 {
		p.add("repetitions", "it has to be at least 1")
	}
	if d.Order != AsWritten && d.Order != Shuffled {
		p.add("order", "%q: it can be %s or %s", d.Order, AsWritten, Shuffled)
	}
	d.checkTemplate(&p)
	d.checkParameters(&p)
	d.Limits.check(&p)
	d.checkFigures(&p)
	return errors.Join(p...)
}

// checkTemplate refuses fields that would delete a MiniCluster before the record is written, or never let it end.
func (d *Definition) checkTemplate(p *problems) {
	if len(d.Template.Spec) == 0 {
		p.add("template.spec", "it is missing")
	}
	for field, why := range map[string]string{
		"cleanup":                 "the experiment deletes a MiniCluster after it has kept the log",
		"ttlSecondsAfterFinished": "the experiment deletes a MiniCluster after it has kept the log",
		"interactive":             "an interactive MiniCluster does not end",
		"suspend":                 "a suspended MiniCluster does not end",
	} {
		if value, ok := d.Template.Spec[field]; ok && value != false {
			p.add("template.spec."+field, "it cannot be set: %s", why)
		}
	}
	slices.SortFunc(*p, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
}

func (d *Definition) checkParameters(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(d.Matrix)) {
		path := "matrix." + name
		checkParameter(p, path, name)
		if len(d.Matrix[name]) == 0 {
			p.add(path, "it has no values")
		}
		seen := map[Value]bool{}
		for i, value := range d.Matrix[name] {
			if seen[value] {
				p.add(fmt.Sprintf("%s[%d]", path, i), "the value %s is there twice", value)
			}
			seen[value] = true
		}
	}
	for i, set := range d.Cases {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			path := fmt.Sprintf("cases[%d].%s", i, name)
			checkParameter(p, path, name)
			if _, both := d.Matrix[name]; both {
				p.add(path, "matrix has the parameter too")
			}
		}
	}
	runs := min(d.Repetitions, mostRuns+1) * max(len(d.Cases), 1)
	for _, values := range d.Matrix {
		runs = min(runs, mostRuns+1) * len(values)
	}
	if runs > mostRuns {
		p.add("repetitions, cases, matrix", "they make more than %d runs", mostRuns)
	}
}

func checkParameter(p *problems, path, name string) {
	if !validParameter.MatchString(name) {
		p.add(path, "the name of a parameter starts with a letter and holds letters, digits and '_'")
	}
}

func (l Limits) check(p *problems) {
	for _, number := range []struct {
		path  string
		value float64
	}{{"limits.atOnce", float64(l.AtOnce)}, {"limits.perMinute", l.PerMinute}, {"limits.failures", float64(l.Failures)}} {
		if number.value < 0 {
			p.add(number.path, "it cannot be negative")
		}
	}
	for _, text := range []struct{ path, value string }{{"limits.wait", l.Wait}, {"limits.total", l.Total}} {
		if d, err := time.ParseDuration(text.value); text.value != "" && (err != nil || d <= 0) {
			p.add(text.path, "%q is no duration, such as 30m", text.value)
		}
	}
}

func (d *Definition) checkFigures(p *problems) {
	seen := map[string]bool{}
	for i, f := range d.Figures {
		path := fmt.Sprintf("figures[%d]", i)
		if !validFigure.MatchString(f.Name) {
			p.add(path+".name", "it has to start with a letter and hold letters, digits, '_', '.' and '-'")
		} else if seen[f.Name] {
			p.add(path+".name", "%s is there twice", f.Name)
		}
		seen[f.Name] = true
		f.check(p, path)
		if !slices.Contains([]Take{TakeLast, TakeFirst, TakeMin, TakeMax, TakeSum, TakeMean}, f.Take) {
			p.add(path+".take", "%q: it can be last, first, min, max, sum or mean", f.Take)
		}
		if f.Better != Lower && f.Better != Higher {
			p.add(path+".better", "%q: it can be lower or higher", f.Better)
		}
	}
	if len(d.Figures) > 0 && !d.KeepsLogs() {
		p.add("figures", "figures are read from logs: logs cannot be false")
	}
}

// check checks where the number of a figure comes from.
func (f *Figure) check(p *problems, path string) {
	if (f.Regexp == "") == (f.JQ == "") {
		p.add(path, "it has to have either regexp or jq")
		return
	}
	if len(f.Regexp+f.JQ) > mostFilter {
		p.add(path, "its regexp or jq has more than %d characters", mostFilter)
		return
	}
	if _, err := f.filter(); f.JQ != "" && err != nil {
		p.add(path+".jq", "%v", err)
	}
	if pattern, err := regexp.Compile(f.Regexp); err != nil {
		p.add(path+".regexp", "%v", err)
	} else if f.Regexp != "" && pattern.NumSubexp() != 1 {
		p.add(path+".regexp", "it has to have one group, which matches the number")
	}
}
