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
	// maxCriteria keeps the parser of Find, which is recursive, off the end of the
	// stack.
	maxCriteria = 64 << 10
	// maxReserve is what resource-query allows for reserve_vtx_vec; the library ends
	// the process where memory for it cannot be had.
	maxReserve = 2_000_000
)

// matchFormats are the writers, and whether each needs a rank on every node: with
// those the library returns EINVAL otherwise and keeps the resources for good. The
// writer rlite is left out: it makes every failed match EINVAL.
var matchFormats = map[string]bool{
	"simple": false, "pretty_simple": false, "jgf": false, "jgf_shorthand": false,
	"rv1": true, "rv1_nosched": true, "rv1_shorthand": true,
}

// policies are the matcher policies with a name.
var policies = []string{
	"first", "firstnodex", "high", "low", "lonode", "hinode", "lonodex", "hinodex", "locality", "variation",
}

// checkText refuses what does not survive as a C string.
func checkText(what, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%s: empty", what)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s: a NUL byte in it", what)
	}
	return nil
}

// checkJobID refuses 0, which cannot be cancelled in part, and what does not fit
// into the library's int64: it would take such a job and could not cancel it.
func checkJobID(jobid uint64) error {
	if jobid == 0 || jobid > math.MaxInt64 {
		return fmt.Errorf("job id %d: not from 1 to 2⁶³−1", jobid)
	}
	return nil
}

// options are those that matter to later calls.
type options struct {
	matchFormat string
}

// ranked says whether every node must have a rank.
func (o options) ranked() bool { return matchFormats[o.matchFormat] }

// checkOptions reads the options of initialize: of keys that the library does not
// know it says nothing, of a value of another type it takes the string regardless.
func checkOptions(text string) (options, error) {
	out := options{matchFormat: "jgf"}
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

// isPolicy says whether a text is a custom policy, such as
// "policy=high node_centric=true".
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

// isFilter says whether a text is prune filters that leave the root, a cluster, with
// totals, without which looking ahead ends the process: none at all, or one for all
// vertices or for clusters.
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

// checkJobspec refuses what makes the library count for ever.
func checkJobspec(text string) error {
	var jobspec struct {
		Resources []request `json:"resources"`
	}
	if err := decode("jobspec", text, &jobspec); err != nil {
		return err
	}
	return checkRequests(jobspec.Resources)
}

// request is the part of a jobspec's resource that is checked here; the library
// checks the rest.
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

// checkCount refuses a range of counts in which the step after the last is past 32
// bits: the library's then starts again from a small number.
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

// checkFind refuses formats that the library cannot return what it finds in.
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
