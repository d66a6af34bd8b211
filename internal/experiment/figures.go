// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"
)

// Extract reads the figures from a log. A figure that the log does not have is not in the result. It fails if a match, or
// what becomes of several matches, is no finite number, or if a filter has not ended when the context ends. The context does
// not end a single step of a filter, which may take any time and memory: see the caller in cmd/kubectl-minicluster.
func (d *Definition) Extract(ctx context.Context, log []byte) (map[string]float64, error) {
	out := map[string]float64{}
	for i := range d.Figures {
		f := &d.Figures[i]
		find := f.matches
		if f.JQ != "" {
			find = f.results
		}
		values, err := find(ctx, log)
		if err != nil {
			return out, fmt.Errorf("the figure %s: %w", f.Name, err)
		}
		if len(values) == 0 {
			continue
		}
		value := f.Take.of(values)
		if math.IsInf(value, 0) { // not even JSON has it
			return out, fmt.Errorf("the figure %s: the %s of %d numbers is too large", f.Name, f.Take, len(values))
		}
		out[f.Name] = value
	}
	return out, nil
}

// matches are the numbers that the regular expression finds.
func (f *Figure) matches(_ context.Context, log []byte) (values []float64, _ error) {
	pattern, err := regexp.Compile(f.Regexp)
	if err != nil {
		return nil, err
	}
	for _, match := range pattern.FindAllSubmatch(log, -1) {
		value, err := finite(string(match[1]))
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// finite reads a finite number.
func finite(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q is no number", short(text))
	}
	return value, nil
}

// short is the beginning of a text for a message.
func short(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// filter compiles the filter of jq.
func (f *Figure) filter() (*gojq.Code, error) {
	query, err := gojq.Parse(f.JQ)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(query)
}

// results are the numbers that the filter of jq makes of the JSON in a log. As in jq, an input for which the filter
// fails has no result. If the filter fails for all inputs, so does results.
func (f *Figure) results(ctx context.Context, log []byte) (values []float64, _ error) {
	code, err := f.filter()
	if err != nil {
		return nil, err
	}
	worked := false
	var failed error
	for input := range inputs(ctx, log) {
		found, err := run(ctx, code, input)
		if err != nil {
			failed = err
			continue
		}
		worked = true
		for _, result := range found {
			value, err := numberOf(result)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the filter %s did not end in time: %w", f.JQ, ctx.Err())
	case !worked:
		return nil, failed
	}
	return values, nil
}

// run are the results of a filter for one input, without those that are null.
func run(ctx context.Context, code *gojq.Code, input any) (found []any, _ error) {
	for results := code.RunWithContext(ctx, input); ; {
		result, more := results.Next()
		if !more {
			return found, nil
		}
		if err, failed := result.(error); failed {
			return nil, err
		}
		if result != nil {
			found = append(found, result)
		}
	}
}

// numberOf is the number of a result, which may be a text.
func numberOf(result any) (float64, error) {
	switch result := result.(type) {
	case int, float64, *big.Int, json.Number:
		return finite(fmt.Sprint(result))
	case string:
		return finite(result)
	}
	return 0, fmt.Errorf("%s is no number", short(fmt.Sprint(result)))
}

// inputs are the objects and arrays of JSON in a log that begin and end with a line, until the context ends.
func inputs(ctx context.Context, log []byte) iter.Seq[any] {
	return func(yield func(any) bool) {
		for len(log) > 0 && ctx.Err() == nil {
			if log[0] == '{' || log[0] == '[' {
				decoder := json.NewDecoder(bytes.NewReader(log))
				var value any
				err := decoder.Decode(&value)
				end, _, _ := bytes.Cut(log[decoder.InputOffset():], []byte("\n"))
				if err == nil && len(bytes.TrimSpace(end)) == 0 {
					if !yield(value) {
						return
					}
					log = log[decoder.InputOffset():]
				}
			}
			_, log, _ = bytes.Cut(log, []byte("\n"))
		}
	}
}

// of makes one number of several.
func (t Take) of(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	switch t {
	case TakeFirst:
		return values[0]
	case TakeMin:
		return slices.Min(values)
	case TakeMax:
		return slices.Max(values)
	case TakeSum:
		return sum
	case TakeMean:
		return sum / float64(len(values))
	}
	return values[len(values)-1]
}
