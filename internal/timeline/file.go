// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"time"
)

// file is a record in a file.
type file struct {
	Nodes []string         `json:"nodes"`
	Begun time.Time        `json:"begun"`
	Last  time.Time        `json:"last"`
	Runs  map[string]*Run  `json:"runs"`
	Spans map[string]*Span `json:"spans"`
}

// MarshalJSON writes the record.
func (r *Recorder) MarshalJSON() ([]byte, error) {
	return json.Marshal(file{r.nodes, r.begun, r.last, r.runs, r.spans})
}

// UnmarshalJSON reads a record that MarshalJSON wrote.
func (r *Recorder) UnmarshalJSON(data []byte) error {
	f := file{Runs: map[string]*Run{}, Spans: map[string]*Span{}}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*r = Recorder{nodes: f.Nodes, begun: f.Begun, last: f.Last, runs: f.Runs, spans: f.Spans}
	return nil
}
