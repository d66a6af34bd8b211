// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

const full = `{
  "version": 1,
  "resources": [
    {"type": "rack", "count": {"min": 1}, "exclusive": false, "id": "r0", "with": [
      {"type": "slot", "count": {"min": 2, "max": 8, "operator": "*", "operand": 2}, "label": "task", "with": [
        {"type": "core", "count": 4},
        {"type": "memory", "count": 2, "unit": "GB", "exclusive": true}
      ]}
    ]}
  ],
  "tasks": [
    {"command": ["app", "-n", 1], "slot": "task", "count": {"per_slot": 1}, "distribution": "cyclic", "attributes": {"a": "b"}}
  ],
  "attributes": {
    "system": {
      "duration": 0.5, "queue": "batch", "cwd": "/home", "environment": {"HOME": "/home", "N": 1},
      "constraints": {"ranks": ["0"]}, "dependencies": [{"scheme": "after"}]
    },
    "user": {"anything": [1, 2]}
  }
}`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	one := func(n uint32) Count { return Count{Min: n, Max: n, Operator: '+', Operand: 1} }
	want := &Jobspec{
		Resources: []Resource{{
			Type: "rack", Count: Count{Min: 1, Max: math.MaxUint32, Operator: '+', Operand: 1}, Exclusive: No,
			With: []Resource{{
				Type: "slot", Count: Count{Min: 2, Max: 8, Operator: '*', Operand: 2}, Label: "task",
				With: []Resource{
					{Type: "core", Count: one(4)},
					{Type: "memory", Count: one(2), Exclusive: Yes},
				},
			}},
		}},
		Duration: 1, Queue: "batch",
		Constraint: got.Constraint,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got.Constraint == nil || got.Constraint.Match(fakeNode{rank: 1}) || !got.Constraint.Match(fakeNode{rank: 0}) {
		t.Error("the constraint is not that of the text")
	}
}

// The parts of a jobspec that the tables below replace.
const (
	someResource = `{"type": "node", "count": 1}`
	someTask     = `{"command": ["app"], "slot": "task", "count": {"total": 1}}`
	someSystem   = `{"duration": 3600.0}`
)

func jobspec(resource, task, system string) string {
	return fmt.Sprintf(`{"version": 1, "resources": [%s], "tasks": [%s], "attributes": {"system": %s}}`, resource, task, system)
}

func withResource(resource string) string { return jobspec(resource, someTask, someSystem) }
func withCount(count string) string {
	return withResource(`{"type": "node", "count": ` + count + `}`)
}
func withTask(task string) string     { return jobspec(someResource, task, someSystem) }
func withSystem(system string) string { return jobspec(someResource, someTask, system) }

// flux-jobspec-validate of flux-sched 0.54 accepts these too.
func TestParseAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"attributes that are null":                     `{"version": 9999, "resources": [` + someResource + `], "tasks": [], "attributes": null}`,
		"attributes that are empty, and no tasks":      `{"version": 1, "resources": [` + someResource + `], "tasks": [], "attributes": {}}`,
		"a version in quotes":                          `{"version": "1", "resources": [` + someResource + `], "tasks": [], "attributes": {}}`,
		"system attributes that are null":              withSystem(`null`),
		"a system attribute that is unknown (RFC 14)":  withSystem(`{"preemptible-after": {"a": []}}`),
		"user attributes of any kind (RFC 14)":         strings.Replace(full, `{"anything": [1, 2]}`, `5`, 1),
		"an empty list of what is below":               withResource(`{"type": "node", "count": 1, "with": []}`),
		"exclusive in quotes":                          withResource(`{"type": "node", "count": 1, "exclusive": "true"}`),
		"numbers as texts":                             withResource(`{"type": 5, "count": 1, "unit": 1.5, "label": 2, "id": 3}`),
		"slots whose label is empty":                   withResource(`{"type": "slot", "count": 1, "label": ""}`),
		"siblings of one type, and slots below slots":  withResource(`{"type": "slot", "count": 1, "label": "a", "with": [{"type": "slot", "count": 1, "label": "a"}, {"type": "slot", "count": 1, "label": "a"}]}`),
		"a task with an empty command":                 withTask(`{"command": [], "slot": "task", "count": {"total": 1}}`),
		"a task with a slot that is not there":         withTask(`{"command": ["a"], "slot": "nowhere", "count": {"total": 1}}`),
		"a task with a distribution and without count": withTask(`{"command": ["a"], "slot": "task", "distribution": "x"}`),
		"a task with an unknown key":                   withTask(`{"command": ["a"], "slot": "task", "count": {"total": 1}, "x": []}`),
		"a task count that nobody knows":               withTask(`{"command": ["a"], "slot": "task", "count": {"per_moon": 1}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
}

// flux-jobspec-validate of flux-sched 0.54 refuses these too, except where a comment names a
// stricter source.
func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat(`{"type": "node", "count": 1, "with": [`, 100) + strings.Repeat(`]}`, 100)
	cases := map[string]struct {
		text, want string
	}{
		"nothing (RFC 14)":                      {"", "unexpected EOF"},
		"no JSON":                               {`{"version": 1,}`, "invalid character"},
		"an end that is missing":                {`{"version": 1`, "unexpected EOF"},
		"two documents (RFC 14)":                {full + "{}", "text after the document"},
		"a list":                                {`[]`, "parsing jobspec: not a mapping"},
		"no version":                            {`{"resources": [], "tasks": [], "attributes": {}}`, `missing key "version"`},
		"no resources":                          {`{"version": 1, "tasks": [], "attributes": {}}`, `missing key "resources"`},
		"no tasks":                              {`{"version": 1, "resources": [` + someResource + `], "attributes": {}}`, `missing key "tasks"`},
		"no attributes":                         {`{"version": 1, "resources": [` + someResource + `], "tasks": []}`, `missing key "attributes"`},
		"a fifth key":                           {`{"version": 1, "resources": [], "tasks": [], "attributes": {}, "name": 1}`, `unknown key "name"`},
		"a key in other letters":                {`{"Version": 1, "resources": [], "tasks": [], "attributes": {}}`, `unknown key "Version"`},
		"a key that is there twice":             {`{"version": 1, "version": 1, "resources": [], "tasks": [], "attributes": {}}`, `key "version" is there twice, at byte 24`},
		"version 0":                             {`{"version": 0, "resources": [], "tasks": [], "attributes": {}}`, `version: "0" is no integer from 1 to 9999`},
		"version 10000":                         {`{"version": 10000, "resources": [], "tasks": [], "attributes": {}}`, "version: "},
		"a version that is null":                {`{"version": null, "resources": [], "tasks": [], "attributes": {}}`, "version: not a scalar"},
		"a mapping of resources":                {`{"version": 1, "resources": {}, "tasks": [], "attributes": {}}`, "resources: not a sequence"},
		"an empty list of resources (RFC 14)":   {`{"version": 1, "resources": [], "tasks": [], "attributes": {}}`, "resources: empty"},
		"a mapping of tasks":                    {`{"version": 1, "resources": [` + someResource + `], "tasks": {}, "attributes": {}}`, "tasks: not a sequence"},
		"a list of attributes":                  {`{"version": 1, "resources": [` + someResource + `], "tasks": [], "attributes": []}`, "attributes: not a mapping"},
		"an unknown kind of attributes":         {`{"version": 1, "resources": [` + someResource + `], "tasks": [], "attributes": {"x": 1}}`, `attributes: unknown key "x"`},
		"resources that are nested too deeply":  {withResource(deep), "nested more than 128 deep"},
		"brackets that are nested too deeply":   {strings.Repeat("[", 100000), "nested more than 128 deep"},
		"a resource that is a name":             {withResource(`"node"`), "resources[0]: not a mapping"},
		"a resource without a type":             {withResource(`{"count": 1}`), `resources[0]: missing key "type"`},
		"a resource without a count":            {withResource(`{"type": "node"}`), `resources[0]: missing key "count"`},
		"a resource with an unknown key":        {withResource(`{"type": "node", "count": 1, "size": 1}`), `resources[0]: unknown key "size"`},
		"a resource with a count twice":         {withResource(`{"type": "node", "count": 1, "count": 1}`), `key "count" is there twice`},
		"a type that is null":                   {withResource(`{"type": null, "count": 1}`), "resources[0].type: not a scalar"},
		"a type that is a list":                 {withResource(`{"type": [], "count": 1}`), "resources[0].type: not a scalar"},
		"a unit that is a list":                 {withResource(`{"type": "node", "count": 1, "unit": []}`), "resources[0].unit: not a scalar"},
		"a label that is null":                  {withResource(`{"type": "node", "count": 1, "label": null}`), "resources[0].label: not a scalar"},
		"an id that is a mapping":               {withResource(`{"type": "node", "count": 1, "id": {}}`), "resources[0].id: not a scalar"},
		"exclusive but not quite":               {withResource(`{"type": "node", "count": 1, "exclusive": "yes"}`), "resources[0].exclusive: neither true nor false"},
		"exclusive that is null":                {withResource(`{"type": "node", "count": 1, "exclusive": null}`), "resources[0].exclusive: not a scalar"},
		"a slot without a label":                {withResource(`{"type": "slot", "count": 1}`), "resources[0]: a slot without a label"},
		"one resource below, not a list":        {withResource(`{"type": "node", "count": 1, "with": {"type": "core", "count": 1}}`), "resources[0].with: not a sequence"},
		"a mistake further down":                {withResource(someResource + `, {"type": "node", "count": 1, "with": [` + someResource + `, {"type": "core", "count": "x"}]}`), `resources[1].with[1].count: "x" is no integer`},
		"a count of zero (RFC 14)":              {withCount(`0`), `resources[0].count: "0" is no integer from 1 to 4294967295`},
		"a negative count":                      {withCount(`-1`), "resources[0].count: "},
		"a count with a fraction":               {withCount(`4.0`), "resources[0].count: "},
		"a count with an exponent":              {withCount(`1e3`), "resources[0].count: "},
		"a count above 32 bits":                 {withCount(`4294967296`), "resources[0].count: "},
		"a count that is null":                  {withCount(`null`), "resources[0].count: not a scalar"},
		"a count that is true":                  {withCount(`true`), "resources[0].count: "},
		"a list of counts":                      {withCount(`[1, 2]`), "resources[0].count: not a scalar"},
		"a count as a range of RFC 45":          {withCount(`"2-6:2"`), "resources[0].count: "},
		"a count as an idset of RFC 22":         {withCount(`"1,2"`), "resources[0].count: "},
		"a range without min":                   {withCount(`{"max": 2, "operator": "+", "operand": 1}`), `resources[0].count: missing key "min"`},
		"a range without max":                   {withCount(`{"min": 1, "operator": "+", "operand": 1}`), `resources[0].count: missing key "max"`},
		"a range without operator":              {withCount(`{"min": 1, "max": 2, "operand": 1}`), `resources[0].count: missing key "operator"`},
		"a range without operand":               {withCount(`{"min": 1, "max": 2, "operator": "+"}`), `resources[0].count: missing key "operand"`},
		"a range with an unknown key (RFC 14)":  {withCount(`{"min": 1, "maximum": 2}`), `resources[0].count: unknown key "maximum"`},
		"a range with a list for its min":       {withCount(`{"min": [1]}`), "resources[0].count.min: not a scalar"},
		"a range from zero":                     {withCount(`{"min": 0}`), "resources[0].count.min: "},
		"a range that falls":                    {withCount(`{"min": 3, "max": 2, "operator": "+", "operand": 1}`), `resources[0].count.max: "2" is no integer from 3 to`},
		"a range to below zero":                 {withCount(`{"min": 1, "max": -1, "operator": "+", "operand": 1}`), "resources[0].count.max: "},
		"a range with an unknown operator":      {withCount(`{"min": 1, "max": 2, "operator": "-", "operand": 1}`), "resources[0].count.operator: neither"},
		"a range with two operators":            {withCount(`{"min": 1, "max": 2, "operator": "++", "operand": 1}`), "resources[0].count.operator: neither"},
		"a range with an empty operator":        {withCount(`{"min": 1, "max": 2, "operator": "", "operand": 1}`), "resources[0].count.operator: neither"},
		"adding zero":                           {withCount(`{"min": 1, "max": 2, "operator": "+", "operand": 0}`), "resources[0].count.operand: "},
		"multiplying by one":                    {withCount(`{"min": 1, "max": 2, "operator": "*", "operand": 1}`), "resources[0].count.operand: "},
		"the first power":                       {withCount(`{"min": 2, "max": 4, "operator": "^", "operand": 1}`), "resources[0].count.operand: "},
		"powers of one":                         {withCount(`{"min": 1, "max": 4, "operator": "^", "operand": 2}`), "resources[0].count.min: at least 2"},
		"an operand above 31 bits":              {withCount(`{"min": 1, "max": 4, "operator": "+", "operand": 2147483648}`), "resources[0].count.operand: "},
		"a task that is a name":                 {withTask(`"app"`), "tasks[0]: not a mapping"},
		"a task of two keys":                    {withTask(`{"command": ["a"], "slot": "task"}`), "tasks[0]: 2 keys"},
		"a task of six keys":                    {withTask(`{"command": ["a"], "slot": "task", "count": {"total": 1}, "x": 1, "y": 1, "z": 1}`), "tasks[0]: 6 keys"},
		"a task without a command":              {withTask(`{"slot": "task", "count": {"total": 1}, "x": 1}`), `tasks[0]: missing key "command"`},
		"a task without a slot":                 {withTask(`{"command": ["a"], "count": {"total": 1}, "x": 1}`), `tasks[0]: missing key "slot"`},
		"a command line":                        {withTask(`{"command": "a b", "slot": "task", "count": {"total": 1}}`), "tasks[0].command: not a sequence"},
		"a list in a command":                   {withTask(`{"command": ["a", []], "slot": "task", "count": {"total": 1}}`), "tasks[0].command[1]: not a scalar"},
		"null in a command (a text to yaml)":    {withTask(`{"command": ["a", null], "slot": "task", "count": {"total": 1}}`), "tasks[0].command[1]: not a scalar"},
		"a list of slots":                       {withTask(`{"command": ["a"], "slot": ["task"], "count": {"total": 1}}`), "tasks[0].slot: not a scalar"},
		"a task count that is a number":         {withTask(`{"command": ["a"], "slot": "task", "count": 1}`), "tasks[0].count: not a mapping"},
		"two task counts":                       {withTask(`{"command": ["a"], "slot": "task", "count": {"total": 1, "per_slot": 1}}`), "tasks[0].count: 2 keys"},
		"no task count":                         {withTask(`{"command": ["a"], "slot": "task", "count": {}}`), "tasks[0].count: 0 keys"},
		"tasks per resource, which RFC 14 has":  {withTask(`{"command": ["a"], "slot": "task", "count": {"per_resource": {"type": "core", "count": 1}}}`), "tasks[0].count.per_resource: not a scalar"},
		"a distribution that is null":           {withTask(`{"command": ["a"], "slot": "task", "distribution": null}`), "tasks[0].distribution: not a scalar"},
		"mappings in the attributes of a task":  {withTask(`{"command": ["a"], "slot": "task", "count": {"total": 1}, "attributes": {"environment": {}}}`), "tasks[0].attributes.environment: not a scalar"},
		"a list of system attributes":           {withSystem(`[1]`), "attributes.system: not a mapping"},
		"a number as system attribute (RFC 14)": {withSystem(`5`), "attributes.system: not a mapping"},
		"a duration with a unit":                {withSystem(`{"duration": "1h"}`), `attributes.system.duration: "1h" is no number of seconds`},
		"a duration that is null":               {withSystem(`{"duration": null}`), "attributes.system.duration: not a scalar"},
		"a duration without end, as a word":     {withSystem(`{"duration": "inf"}`), "attributes.system.duration: "},
		"a duration that is no number":          {withSystem(`{"duration": "nan"}`), "attributes.system.duration: "},
		"a duration beyond floating point":      {withSystem(`{"duration": 1e400}`), "attributes.system.duration: "},
		"a negative duration (when it matches)": {withSystem(`{"duration": -0.5}`), "attributes.system.duration: "},
		"a duration too long (when it matches)": {withSystem(`{"duration": 9223372036854775807}`), "attributes.system.duration: "},
		"a list of queues":                      {withSystem(`{"queue": []}`), "attributes.system.queue: not a scalar"},
		"a queue that is null (RFC 14)":         {withSystem(`{"queue": null}`), "attributes.system.queue: not a scalar"},
		"a directory that is a mapping":         {withSystem(`{"cwd": {}}`), "attributes.system.cwd: not a scalar"},
		"lists in the environment":              {withSystem(`{"environment": {"a": []}}`), "attributes.system.environment.a: not a scalar"},
		"an environment of words (RFC 14)":      {withSystem(`{"environment": "a=b"}`), "attributes.system.environment: not a mapping"},
		"a constraint that is null":             {withSystem(`{"constraints": null}`), "attributes.system.constraints: not a mapping"},
		"a mistake in a constraint":             {withSystem(`{"constraints": {"and": [{}, {"ranks": ["x"]}]}}`), "attributes.system.constraints.and[1].ranks[0]: idset"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec, err := Parse([]byte(tc.text))
			if err == nil {
				t.Fatalf("%s is %+v, want an error", tc.text, spec)
			}
			if !strings.HasPrefix(err.Error(), "parsing jobspec: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %q, want it to have %q", err, tc.want)
			}
		})
	}
}

// Fluxion rounds up (traversers/dfu_impl.hpp), and reads numbers in quotes.
func TestDuration(t *testing.T) {
	for text, want := range map[string]int64{
		`0`: 0, `0.0`: 0, `0.001`: 1, `1`: 1, `3600.0`: 3600, `3600.5`: 3601, `"60"`: 60, `1e3`: 1000, `"1e3"`: 1000,
	} {
		spec, err := Parse([]byte(withSystem(`{"duration": ` + text + `}`)))
		if err != nil || spec.Duration != want {
			t.Errorf("duration %s is %+v, %v; want %d", text, spec, err, want)
		}
	}
	if spec, err := Parse([]byte(withSystem(`{}`))); err != nil || spec.Duration != 0 {
		t.Errorf("no duration is %+v, %v; want 0", spec, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(withCount(`"0x10"`)))
	f.Add([]byte(withSystem(`{"duration": "1e3", "constraints": {"not": [{"properties": ["^a"]}, {"hostlist": ["n[0-3]"]}]}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := Parse(data)
		if (spec == nil) == (err == nil) {
			t.Fatalf("%q is %v and error %v", data, spec, err)
		}
		if err != nil {
			return
		}
		if len(spec.Resources) == 0 || spec.Duration < 0 {
			t.Errorf("%q is %+v", data, spec)
		}
		for _, resource := range spec.Resources {
			checkResource(t, resource)
		}
		spec.Constraint.Match(fakeNode{})
	})
}

// checkResource checks the properties of a resource on which matchers rely.
func checkResource(t *testing.T, r Resource) {
	t.Helper()
	c := r.Count
	if c.Min < 1 || c.Max < c.Min || c.Operand < 1 || c.Largest(c.Min) != c.Min || c.EffectiveMax() < c.Min || c.EffectiveMax() > c.Max {
		t.Errorf("count %+v, at most %d", c, c.EffectiveMax())
	}
	for _, below := range r.With {
		checkResource(t, below)
	}
}
