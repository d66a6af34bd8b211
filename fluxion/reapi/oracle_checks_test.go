// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// maxCriteria keeps the recursion of Find's parser from the end of the stack.
	maxCriteria = 64 << 10
	// maxReserve is the most that resource-query allows for reserve_vtx_vec. The library ends
	// the process if it finds no memory for so many vertices.
	maxReserve = 2_000_000
)

// matchFormats are the match formats, each with whether every node needs a rank. Without such a
// rank the library returns EINVAL and never frees the resources. The format "rlite" is not
// supported, because every failed match is EINVAL in that format.
var matchFormats = map[string]bool{
	"simple": false, "pretty_simple": false, "jgf": false, "jgf_shorthand": false,
	"rv1": true, "rv1_nosched": true, "rv1_shorthand": true,
}

// policies are the matcher policies with a name.
var policies = []string{
	"first", "firstnodex", "high", "low", "lonode", "hinode", "lonodex", "hinodex", "locality", "variation",
}

// checkText refuses a text that is empty, or that would end early as a C string.
func checkText(what, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%s: empty", what)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s: a NUL byte in it", what)
	}
	return nil
}

// checkJobID refuses 0, which cannot be cancelled in part, and ids that are no int64. The
// library would take a job with such an id, and could not cancel the job.
func checkJobID(jobid uint64) error {
	if jobid == 0 || jobid > math.MaxInt64 {
		return fmt.Errorf("job id %d: not from 1 to 2⁶³−1", jobid)
	}
	return nil
}

// clientOptions are the options that matter to later calls.
type clientOptions struct {
	matchFormat string
}

// ranked reports whether every node must have a rank.
func (o clientOptions) ranked() bool { return matchFormats[o.matchFormat] }

// checkOptions reads the options of initialize. The library ignores unknown keys, and takes a
// value of another type for a string.
func checkOptions(text string) (clientOptions, error) {
	out := clientOptions{matchFormat: "jgf"}
	var object map[string]json.RawMessage
	if err := decode("options", text, &object); err != nil {
		return out, err
	}
	if _, ok := object["load_format"]; !ok {
		return out, errors.New(`options: load_format must be "jgf"; the library takes "grug" otherwise`)
	}
	for key, value := range object {
		if err := checkOption(key, value); err != nil {
			return out, fmt.Errorf("options: %s: %w", key, err)
		}
	}
	if value, ok := object["match_format"]; ok {
		return out, json.Unmarshal(value, &out.matchFormat)
	}
	return out, nil
}

func checkOption(key string, value json.RawMessage) error {
	if string(value) == "null" {
		return errors.New("null")
	}
	switch key {
	case "reserve_vtx_vec":
		var count int
		if err := json.Unmarshal(value, &count); err != nil || count < 0 || count > maxReserve {
			return fmt.Errorf("%s is not a number from 0 to %d", value, maxReserve)
		}
		return nil
	case "elapse_time":
		var on bool
		return json.Unmarshal(value, &on)
	}
	check, ok := optionChecks[key]
	if !ok {
		return errors.New("no such option")
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return err
	}
	if !check(text) {
		return fmt.Errorf("%q is not supported", text)
	}
	return nil
}

// optionChecks are the options that are strings.
var optionChecks = map[string]func(string) bool{
	"load_format":      func(text string) bool { return text == "jgf" },
	"load_allowlist":   func(string) bool { return true },
	"matcher_name":     func(text string) bool { return text == "CA" || text == "ca" },
	"matcher_policy":   func(text string) bool { return slices.Contains(policies, text) || isPolicy(text) },
	"traverser_policy": func(text string) bool { return text == "simple" || text == "flexible" },
	"match_format":     func(text string) bool { _, ok := matchFormats[text]; return ok },
	"prune_filters":    isFilter,
}

// isPolicy reports whether a text is a custom policy, for example "policy=high
// node_centric=true".
func isPolicy(text string) bool {
	directed := false
	for word := range strings.SplitSeq(text, " ") {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "policy":
			directed = true
			if value != "high" && value != "low" {
				return false
			}
		case "node_centric", "node_exclusive", "stop_on_1_matches":
			if value != "true" && value != "false" {
				return false
			}
		default:
			return false
		}
	}
	return directed
}

// isFilter reports whether a text is a list of prune filters that is empty, or has a filter for
// all vertices or for clusters. Without totals at the root, which is a cluster, looking ahead
// ends the process.
func isFilter(text string) bool {
	rooted := text == ""
	for pair := range strings.SplitSeq(text, ",") {
		anchor, kind, _ := strings.Cut(pair, ":")
		if text != "" && (anchor == "" || kind == "" || strings.Contains(kind, ":")) {
			return false
		}
		rooted = rooted || anchor == "ALL" || anchor == "cluster"
	}
	return rooted
}

// checkJobspec refuses jobspecs that make the library count for ever.
func checkJobspec(text string) error {
	var jobspec struct {
		Resources []request `json:"resources"`
	}
	if err := decode("jobspec", text, &jobspec); err != nil {
		return err
	}
	return checkRequests(jobspec.Resources)
}

// request is a resource of a jobspec. The library checks the other fields.
type request struct {
	Count json.RawMessage `json:"count"`
	With  []request       `json:"with"`
}

func checkRequests(requests []request) error {
	for _, r := range requests {
		if err := checkCount(r.Count); err != nil {
			return err
		}
		if err := checkRequests(r.With); err != nil {
			return err
		}
	}
	return nil
}

// checkCount refuses a range of counts if the first count after the range is past 32 bits. In
// the library this count wraps to a small number, which is in the range again.
func checkCount(text json.RawMessage) error {
	if len(text) == 0 || text[0] != '{' {
		var number uint32
		if err := json.Unmarshal(text, &number); err != nil {
			return fmt.Errorf("jobspec: count %s is no whole number or range", text)
		}
		return nil
	}
	var count struct {
		Min, Max, Operand uint32
		Operator          string
	}
	if err := json.Unmarshal(text, &count); err != nil {
		return fmt.Errorf("jobspec: count %s: %w", text, err)
	}
	beyond := 0.0
	switch count.Operator {
	case "*":
		beyond = float64(count.Max) * float64(count.Operand)
	case "^":
		beyond = math.Pow(float64(count.Max), float64(count.Operand))
	}
	if beyond > math.MaxUint32 {
		return fmt.Errorf("jobspec: count %s: max%soperand is past 32 bits", text, count.Operator)
	}
	return nil
}

// checkFind refuses formats in which the library cannot return what it finds.
func checkFind(criteria, format string) error {
	if err := checkText("criteria", criteria); err != nil {
		return err
	}
	if len(criteria) > maxCriteria {
		return fmt.Errorf("criteria: more than %d bytes", maxCriteria)
	}
	if _, ok := matchFormats[format]; !ok || strings.HasSuffix(format, "simple") {
		return fmt.Errorf("format: %q is not supported", format)
	}
	return nil
}

// decode reads a JSON object.
func decode(what, text string, into any) error {
	if err := checkText(what, text); err != nil {
		return err
	}
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return fmt.Errorf("%s: no JSON object", what)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
