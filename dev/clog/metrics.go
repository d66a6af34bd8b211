// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Metrics are values of a program by series. A series is a name with its labels, in the text
// format of Prometheus.
type Metrics map[string]float64

// ReadMetrics reads the metrics with some names from the text that a program serves.
func ReadMetrics(from io.Reader, names ...string) (Metrics, error) {
	out := Metrics{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		end := strings.IndexAny(line, "{ ")
		if end < 0 || !slices.Contains(names, line[:end]) {
			continue
		}
		space := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		out[line[:space]] = value
	}
	return out, lines.Err()
}

// Since returns how much each series has grown since earlier, without series that have not.
func (m Metrics) Since(earlier Metrics) Metrics {
	out := Metrics{}
	for series, value := range m {
		if added := value - earlier[series]; added != 0 {
			out[series] = added
		}
	}
	return out
}

// Label returns the value of a label of a series, or "" if the series has no such label.
func Label(series, name string) string {
	_, rest, ok := strings.Cut(series, "{"+name+`="`)
	if !ok {
		_, rest, _ = strings.Cut(series, ","+name+`="`)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Sum adds up the series of one name. The keys of the result are the values of the labels, joined
// by blanks; empty values are left out.
func (m Metrics) Sum(name string, labels ...string) map[string]float64 {
	out := map[string]float64{}
	for series, value := range m {
		if !strings.HasPrefix(series, name+"{") && series != name {
			continue
		}
		var key []string
		for _, label := range labels {
			if text := Label(series, label); text != "" {
				key = append(key, text)
			}
		}
		out[strings.Join(key, " ")] += value
	}
	return out
}

// Quantile returns a quantile of a histogram without labels, in its unit. Like Prometheus, it
// interpolates linearly within a bucket.
func (m Metrics) Quantile(name string, q float64) float64 {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for series, count := range m {
		if !strings.HasPrefix(series, name+"_bucket{") {
			continue
		}
		if bound, err := strconv.ParseFloat(Label(series, "le"), 64); err == nil {
			buckets = append(buckets, bucket{bound, count})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	if len(buckets) == 0 {
		return 0
	}
	want, before := q*buckets[len(buckets)-1].count, bucket{}
	for _, b := range buckets {
		if b.count >= want && b.count > before.count {
			if math.IsInf(b.bound, 1) {
				return before.bound
			}
			return before.bound + (b.bound-before.bound)*(want-before.count)/(b.count-before.count)
		}
		before = b
	}
	return before.bound
}

// Writes are requests that change objects.
type Writes struct {
	// What is the verb, the resource and the subresource.
	What   string  `json:"what"`
	Count  float64 `json:"count"`
	PerPod float64 `json:"perPod"`
}

// API has the requests that the API server got, and its watch events.
type API struct {
	Writes []Writes `json:"writes"`
	// DryRuns change nothing.
	DryRuns []Writes `json:"dryRuns"`
	// WritesPerPod and WatchEventsPerPod are averages over the pods of finished gangs.
	WritesPerPod      float64            `json:"writesPerPod"`
	WatchEvents       map[string]float64 `json:"watchEvents"`
	WatchEventsPerPod float64            `json:"watchEventsPerPod"`
	// Clients are the requests that each program has counted itself, by method.
	Clients map[string]map[string]float64 `json:"clients"`
}

// Names of the API server's metrics that NewAPI reads.
const (
	RequestsTotal    = "apiserver_request_total"
	WatchEventsTotal = "apiserver_watch_events_total"
)

// NewAPI computes the API from what the API server counted during the experiment.
func NewAPI(m Metrics, pods int) API {
	out := API{WatchEvents: m.Sum(WatchEventsTotal, "resource")}
	for what, count := range m.Sum(RequestsTotal, "verb", "resource", "subresource", "dry_run") {
		verb, _, _ := strings.Cut(what, " ")
		if !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) {
			continue
		}
		w := Writes{What: what, Count: count, PerPod: count / float64(max(pods, 1))}
		if made, dry := strings.CutSuffix(what, " All"); dry {
			w.What = made
			out.DryRuns = append(out.DryRuns, w)
			continue
		}
		out.Writes = append(out.Writes, w)
		out.WritesPerPod += w.PerPod
	}
	most := func(a, b Writes) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What)) }
	slices.SortFunc(out.Writes, most)
	slices.SortFunc(out.DryRuns, most)
	for _, count := range out.WatchEvents {
		out.WatchEventsPerPod += count / float64(max(pods, 1))
	}
	return out
}
