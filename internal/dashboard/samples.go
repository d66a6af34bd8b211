// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strconv"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// SampleInterval is the time between two samples.
	SampleInterval = 5 * time.Second
	// MostSamples is how many samples are kept: those of an hour.
	MostSamples = 720
	// mostNamed bounds the queues of a sample.
	mostNamed = 50
	// noQueue stands for queues that nobody has made. Tenants name them as they like, and all viewers of queues see a sample.
	noQueue = "no queue"
)

// Sample says how many nodes the queues used at a time.
type Sample struct {
	// At is the key, in seconds since 1970.
	At int64 `json:"at"`
	// ID is At as text.
	ID string `json:"key"`
	// Used is the number of nodes by queue. A node with MiniClusters of two queues counts for both.
	Used map[string]int `json:"used,omitempty"`
	// Up is the number of nodes that are up.
	Up int `json:"up"`
}

// Key is the time.
func (s Sample) Key() string { return s.ID }

// SampleOf counts the nodes that queues use.
func SampleOf(v *View, now time.Time) Sample {
	s := Sample{At: now.Unix(), ID: strconv.FormatInt(now.Unix(), 10), Used: map[string]int{}}
	queues, named := make(map[string]string, len(v.MiniClusters)), map[string]bool{v1alpha2.DefaultQueue: true, v1alpha2.KueueQueue: true}
	for i := range v.Queues {
		named[v.Queues[i].Name] = named[v.Queues[i].Name] || v.Queues[i].Listed
	}
	for i := range v.MiniClusters {
		mc := &v.MiniClusters[i]
		if queues[mc.ID] = noQueue; named[mc.Queue] {
			queues[mc.ID] = mc.Queue
		}
	}
	for i := range v.Nodes {
		node := &v.Nodes[i]
		if node.Down == "" {
			s.Up++
		}
		counted := map[string]bool{}
		for _, holder := range node.Holders {
			queue, known := queues[holder.Of]
			if known && !counted[queue] && (s.Used[queue] > 0 || len(s.Used) < mostNamed) {
				counted[queue] = true
				s.Used[queue]++
			}
		}
	}
	return s
}

// Keep returns the samples with another one, without those that are too old. The slice is a new one.
func Keep(samples []Sample, another Sample) []Sample {
	from := max(0, len(samples)+1-MostSamples)
	return append(append(make([]Sample, 0, MostSamples), samples[from:]...), another)
}
