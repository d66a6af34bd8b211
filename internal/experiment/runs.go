// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Labels of the MiniClusters of an experiment.
const (
	labelPrefix = "experiment.flux-framework.org/"
	// NameLabel has the name of the experiment.
	NameLabel = labelPrefix + "name"
	// IDLabel has what distinguishes an experiment from others of the same name.
	IDLabel = labelPrefix + "id"
	// CaseLabel has the number of the case, and RepetitionLabel that of the repetition. Both count from 1.
	CaseLabel       = labelPrefix + "case"
	RepetitionLabel = labelPrefix + "repetition"
)

// Parameters that set fields of the MiniCluster. TasksPerNode sets tasks to as many for each node of its size.
const (
	Size         = "size"
	MinSize      = "minSize"
	MaxSize      = "maxSize"
	Tasks        = "tasks"
	TasksPerNode = "tasksPerNode"
	Queue        = "queue"
)

// Run is one MiniCluster of an experiment.
type Run struct {
	// Name is the name of the MiniCluster. The same file gives the same names.
	Name string
	// Case and Repetition count from 1.
	Case, Repetition int
	Parameters       map[string]string
}

// Runs lists all runs in the order in which they are submitted. It fails if the template of a case is no
// MiniCluster.
func (d *Definition) Runs() ([]Run, error) {
	cases := d.combinations()
	var runs []Run
	width, repetitionWidth := len(strconv.Itoa(len(cases))), len(strconv.Itoa(d.Repetitions))
	for repetition := 1; repetition <= d.Repetitions; repetition++ {
		for i, parameters := range cases {
			runs = append(runs, Run{
				Name: fmt.Sprintf("%s-%0*d-%0*d", d.Name, width, i+1, repetitionWidth, repetition),
				Case: i + 1, Repetition: repetition, Parameters: parameters,
			})
		}
	}
	for _, run := range runs[:len(cases)] {
		if _, err := d.MiniCluster(run); err != nil {
			return nil, fmt.Errorf("case %d (%s): %w", run.Case, Describe(run.Parameters), err)
		}
	}
	if d.Order == Shuffled {
		random := rand.New(rand.NewPCG(d.Seed, 0))
		random.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	}
	return runs, nil
}

// combinations are the parameters of each case. The sets of Cases vary slowest, then the parameters of Matrix in the
// order of their names.
func (d *Definition) combinations() []map[string]string {
	out := []map[string]string{{}}
	if len(d.Cases) > 0 {
		out = nil
		for _, set := range d.Cases {
			one := map[string]string{}
			for name, value := range set {
				one[name] = string(value)
			}
			out = append(out, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Matrix)) {
		var next []map[string]string
		for _, known := range out {
			for _, value := range d.Matrix[name] {
				one := maps.Clone(known)
				one[name] = string(value)
				next = append(next, one)
			}
		}
		out = next
	}
	return out
}

// Describe says the parameters of a case, in the order of their names.
func Describe(parameters map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		parts = append(parts, name+"="+parameters[name])
	}
	return strings.Join(parts, " ")
}

// MiniCluster makes the MiniCluster of a run, without IDLabel and without a namespace.
func (d *Definition) MiniCluster(run Run) (*v1alpha2.MiniCluster, error) {
	known := maps.Clone(run.Parameters)
	known["name"] = run.Name
	fill := &filler{parameters: known, room: mostFilled}
	content := fill.value("template", map[string]any{
		"metadata": map[string]any{"labels": anyMap(d.Template.Metadata.Labels), "annotations": anyMap(d.Template.Metadata.Annotations)},
		"spec":     d.Template.Spec,
	})
	if fill.room < 0 {
		fill.errs = append(fill.errs, fmt.Errorf("template: the values of its parameters have more than %d bytes", mostFilled))
	}
	if err := errors.Join(fill.errs...); err != nil {
		return nil, err
	}
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	mc := &v1alpha2.MiniCluster{}
	if err := decode(data, mc); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	if err := setFields(mc, run.Parameters); err != nil {
		return nil, err
	}
	mc.APIVersion, mc.Kind, mc.Name = v1alpha2.GroupVersion.String(), v1alpha2.MiniClusterKind, run.Name
	if mc.Labels == nil {
		mc.Labels = map[string]string{}
	}
	mc.Labels[NameLabel] = d.Name
	mc.Labels[CaseLabel], mc.Labels[RepetitionLabel] = strconv.Itoa(run.Case), strconv.Itoa(run.Repetition)
	return mc, nil
}

// setFields sets the fields that have a parameter of their own.
func setFields(mc *v1alpha2.MiniCluster, parameters map[string]string) error {
	if parameters[Tasks] != "" && parameters[TasksPerNode] != "" {
		return errors.New("the parameters tasks and tasksPerNode exclude each other")
	}
	var tasks, perNode int32
	for _, field := range []struct {
		name string
		to   *int32
	}{{Size, &mc.Spec.Size}, {MinSize, &mc.Spec.MinSize}, {MaxSize, &mc.Spec.MaxSize}, {Tasks, &tasks}, {TasksPerNode, &perNode}} {
		text, ok := parameters[field.name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("the parameter %s: %q is no number of %s", field.name, text, field.name)
		}
		*field.to = int32(n)
	}
	if perNode > 0 {
		tasks = perNode * max(mc.Spec.Size, 1)
	}
	if tasks > 0 || parameters[Tasks] != "" {
		mc.Spec.Tasks = &tasks
	}
	if queue, ok := parameters[Queue]; ok {
		mc.Spec.Queue = queue
	}
	return nil
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}

// placeholder stands for the value of a parameter. No shell gives this text a meaning.
var placeholder = regexp.MustCompile(`\$\{\{ *([^{}]*?) *\}\}`)

// filler puts the values of parameters into texts.
type filler struct {
	parameters map[string]string
	room       int // bytes that values may still have
	errs       []error
}

// value returns a copy of a value of JSON, with the values of parameters in its texts.
func (f *filler) value(path string, in any) any {
	switch in := in.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(in)) {
			out[key] = f.value(path+"."+key, in[key])
		}
		return out
	case []any:
		out := make([]any, len(in))
		for i, item := range in {
			out[i] = f.value(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return out
	case string:
		return placeholder.ReplaceAllStringFunc(in, func(match string) string {
			name := placeholder.FindStringSubmatch(match)[1]
			value, ok := f.parameters[name]
			if !ok {
				f.errs = append(f.errs, fmt.Errorf("%s: there is no parameter %q", path, name))
			}
			if f.room -= len(value); f.room < 0 {
				return ""
			}
			return value
		})
	}
	return in
}
