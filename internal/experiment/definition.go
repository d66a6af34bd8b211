// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The type of an experiment's file.
const (
	APIVersion = "experiment.flux-framework.org/v1alpha1"
	Kind       = "Experiment"
)

// Definition is the file of an experiment. Schema describes each field.
type Definition struct {
	metav1.TypeMeta `json:",inline"`

	Name     string   `json:"name"`
	Out      string   `json:"out,omitempty"`
	Template Template `json:"template"`
	// Matrix has the values of each parameter, and Cases has sets of parameters. There is a case for each
	// combination of a value of each parameter and a set.
	Matrix      map[string][]Value `json:"matrix,omitempty"`
	Cases       []map[string]Value `json:"cases,omitempty"`
	Repetitions int                `json:"repetitions,omitempty"`
	Order       Order              `json:"order,omitempty"`
	Seed        uint64             `json:"seed,omitempty"`
	Limits      Limits             `json:"limits,omitzero"`
	Logs        *bool              `json:"logs,omitempty"`
	Figures     []Figure           `json:"figures,omitempty"`
}

// Template is the MiniCluster of all runs.
type Template struct {
	Metadata Metadata       `json:"metadata,omitzero"`
	Spec     map[string]any `json:"spec"`
}

// Metadata are the labels and annotations of all MiniClusters.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Order is the order in which runs are submitted.
type Order string

// Orders.
const (
	// AsWritten is all cases once, then all cases for the second time, and so on.
	AsWritten Order = "as-written"
	// Shuffled is a random order, which depends on the seed alone.
	Shuffled Order = "shuffled"
)

// Limits bound what an experiment does. Durations have Go's format; 0 and "" are no limit.
type Limits struct {
	// AtOnce is the largest number of MiniClusters that wait or run at the same time.
	AtOnce int `json:"atOnce,omitempty"`
	// PerMinute is the number of MiniClusters that are submitted in a minute, at even distances.
	PerMinute float64 `json:"perMinute,omitempty"`
	// Wait is how long a MiniCluster may wait for the start of its command.
	Wait string `json:"wait,omitempty"`
	// Total is how long after the first start of the experiment runs are submitted.
	Total string `json:"total,omitempty"`
	// Failures is the number of failed runs after which no more are submitted.
	Failures int `json:"failures,omitempty"`
}

// Figure is a number that is read from the log of a run: by a regular expression, or from the JSON in the log.
type Figure struct {
	Name string `json:"name"`
	// Regexp has one group, which matches the number.
	Regexp string `json:"regexp,omitempty"`
	// JQ is a filter of jq. Its input is each object and array of the log that begins and ends with a line.
	JQ   string `json:"jq,omitempty"`
	Unit string `json:"unit,omitempty"`
	// Take says which match counts if there are several.
	Take Take `json:"take,omitempty"`
	// Better says which numbers are better.
	Better Better `json:"better,omitempty"`
}

// Take is how several matches become one number.
type Take string

// Values of Take.
const (
	TakeLast  Take = "last"
	TakeFirst Take = "first"
	TakeMin   Take = "min"
	TakeMax   Take = "max"
	TakeSum   Take = "sum"
	TakeMean  Take = "mean"
)

// Better is the direction in which a figure becomes better.
type Better string

// Values of Better.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Value is the text of a parameter's value. In the file it is a text, a number or a truth value.
type Value string

// UnmarshalJSON reads a text, a number or a truth value.
func (v *Value) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return err
	}
	switch content := content.(type) {
	case string, json.Number, bool:
		*v = Value(fmt.Sprint(content))
		return nil
	}
	return fmt.Errorf("the value %s of a parameter is no text, number or truth value", data)
}

// KeepsLogs reports whether the log of each run is kept.
func (d *Definition) KeepsLogs() bool { return d.Logs == nil || *d.Logs }

// wait and total are durations that Read has checked.
func (l Limits) wait() time.Duration  { return duration(l.Wait) }
func (l Limits) total() time.Duration { return duration(l.Total) }

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}
