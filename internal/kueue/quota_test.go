// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A Workload that is deleted soon after it was made is made again once the cache must have shown it.
func TestAsksAgain(t *testing.T) {
	now, m := fixture.Noon, &Memory{}
	m.NoteAsked(now.Add(-time.Second))
	q := &Quota{Input: Input{MiniCluster: fixture.MiniCluster("lmp").Defaulted(), Now: now}}
	if want := now.Add(cacheDelay - time.Second); m.MayAsk(now) || !m.MayAsk(want) || !q.LookAgain(m).Equal(want) {
		t.Errorf("it is looked at again at %s, want %s", q.LookAgain(m), want)
	}
}

// An order to grow is carried out as far as there is quota, and Kueue is asked for the rest.
func TestWithinQuota(t *testing.T) {
	cases := map[string]struct {
		first, further int32 // brokers with quota
		most           int
		wanted         int // the size that the spec asks for
		vacated        []int
		order          []int
		unknown        bool
		want           string
	}{
		"no quota is left":                  {first: 3, most: 8, order: []int{3, 4}, want: "[] asks 2"},
		"quota for one":                     {first: 3, further: 1, most: 8, order: []int{4, 3}, want: "[3] asks 1"},
		"quota for all":                     {first: 3, further: 2, most: 8, order: []int{3, 4}, want: "[3 4] asks 0"},
		"vacated ranks count":               {first: 3, most: 8, vacated: []int{1}, order: []int{1, 3}, want: "[1] asks 1"},
		"a rank that has a node does not":   {first: 3, further: 1, most: 8, order: []int{2, 3}, want: "[3] asks 0"},
		"more than is allowed":              {first: 3, most: 4, order: []int{3, 4}, want: "[] asks 0"},
		"below the wanted size by its rule": {first: 3, further: 1, most: 8, wanted: 6, order: []int{3, 4, 5}, want: "[] asks 2"},
		"nothing is asked by an old cache":  {first: 3, most: 8, order: []int{3}, unknown: true, want: "[] asks 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &life.Observation{Record: life.Record{Admission: &life.Admission{Nodes: []string{"a", "b", "c"}, Vacated: c.vacated}}}
			o.Policy.Max = min(c.most, int(c.first+c.further))
			o.Policy.Sizing = elastic.Sizing{Min: 3, Size: max(c.wanted, 3), Operator: elastic.Multiply, Operand: 2}
			q := &Quota{Grant: Grant{State: life.QuotaAdmitted}, Workload: &kueueapi.Workload{}, most: o.Policy.Max, limit: c.most, further: int(c.further), known: !c.unknown}
			q.Workload.Status.Admission = &kueueapi.Admission{PodSetAssignments: []kueueapi.PodSetAssignment{{Name: "all", Count: ptr.To(c.first)}}}
			q.Workload.Spec.PodSets = []kueueapi.PodSet{{Name: "all", Count: c.first}}
			var order elastic.Grow
			for _, rank := range c.order {
				order.Pods = append(order.Pods, elastic.Pod{Rank: rank})
			}
			part, _ := q.Order(o, order).(elastic.Grow)
			ranks := []int{}
			for _, pod := range part.Pods {
				ranks = append(ranks, pod.Rank)
			}
			if got := fmt.Sprint(ranks, " asks ", q.Input.Ask); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
