// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"encoding/json"
	"fmt"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// ranked is what some ranks have of an R: ids by type.
type ranked struct {
	ranks    idset.Set
	children map[string]idset.Set
}

// parseExecution reads the execution part of an R of version 1.
func parseExecution(text string) ([]ranked, error) {
	r, err := parseRv1([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading R: %w", err)
	}
	var out []ranked
	for _, entry := range r.Execution.Rlite {
		ranks, err := idset.Parse(entry.Rank)
		if err != nil {
			return nil, fmt.Errorf("reading R: %w", err)
		}
		g := ranked{ranks, map[string]idset.Set{}}
		for _, child := range entry.Children {
			if g.children[child.kind], err = idset.Parse(child.ids); err != nil {
				return nil, fmt.Errorf("reading R: %w", err)
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// schedulingOf is the JGF document in an R, or the text itself where it is bare.
func schedulingOf(text string) string {
	var r struct {
		Scheduling json.RawMessage `json:"scheduling"`
	}
	if json.Unmarshal([]byte(text), &r) == nil && len(r.Scheduling) > 0 {
		return string(r.Scheduling)
	}
	return text
}
