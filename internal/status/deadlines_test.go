// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// An admission records the deadlines of its queue, and what follows from them.
func TestDeadlinesOfAnAdmission(t *testing.T) {
	for name, tc := range map[string]struct {
		queue    elastic.Deadlines
		deadline time.Duration
		seconds  *int64
		recorded *v1alpha2.Deadlines
		note     string
	}{
		"none":             {elastic.Deadlines{}, 0, nil, nil, "Placed 2 of 4 brokers on n[1-2]"},
		"that of the spec": {elastic.Deadlines{}, time.Minute, new(int64(60)), nil, "Placed 2 of 4 brokers on n[1-2]"},
		"that of the queue": {
			elastic.Deadlines{Default: time.Minute, Max: time.Hour}, time.Minute, new(int64(60)),
			&v1alpha2.Deadlines{Default: &metav1.Duration{Duration: time.Minute}, Max: &metav1.Duration{Duration: time.Hour}},
			"Placed 2 of 4 brokers on n[1-2]; queue night lets the command run for 1m0s",
		},
		"the longest": {
			elastic.Deadlines{Max: time.Hour}, time.Hour, new(int64(3600)), &v1alpha2.Deadlines{Max: &metav1.Duration{Duration: time.Hour}},
			"Placed 2 of 4 brokers on n[1-2]; queue night lets the command run for 1h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := compute(t, Input{
				MiniCluster: wanted4().Defaulted(), Observation: &life.Observation{Policy: policy}, Queue: "night", Now: fixture.Noon,
				Plan: life.Plan{Step: life.Admit{Attempt: 1, Nodes: []string{"n1", "n2"}}}, Deadlines: tc.queue, Deadline: tc.deadline,
			})
			if diff := cmp.Diff(tc.recorded, s.Admission.QueueDeadlines); diff != "" {
				t.Errorf("of the queue (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.seconds, s.Admission.DeadlineSeconds); diff != "" {
				t.Errorf("seconds (-want +got):\n%s", diff)
			}
			if s.LastDecision.Message != tc.note {
				t.Errorf("the event says %q", s.LastDecision.Message)
			}
		})
	}
}

// A deadline that was changed since the admission is shown, and what the queue said stays. Once the
// MiniCluster has finished, its deadline stays, too.
func TestChangedDeadline(t *testing.T) {
	hour := v1alpha2.Deadlines{Max: &metav1.Duration{Duration: time.Hour}}
	mc := wanted4().Admitted(1, 2, "n[1-2]").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.DeadlineSeconds, s.Admission.QueueDeadlines = new(int64(60)), hour.DeepCopy()
	}).Defaulted()
	in := Input{
		MiniCluster: mc, Observation: &life.Observation{Policy: policy, Brokers: upBrokers(2)}, Now: fixture.Noon,
		Plan: life.Plan{Step: life.Wait{}, State: life.StateStarting}, Deadline: 2 * time.Minute, Deadlines: elastic.Deadlines{Default: time.Second},
	}
	if s := compute(t, in); *s.Admission.DeadlineSeconds != 120 || !cmp.Equal(s.Admission.QueueDeadlines, &hour) {
		t.Errorf("got %d s, and %+v of the queue", *s.Admission.DeadlineSeconds, s.Admission.QueueDeadlines)
	}
	in.Plan = life.Plan{Step: life.Finish{Outcome: life.OutcomeSucceeded}, State: life.StateSucceeded}
	if s := compute(t, in); *s.Admission.DeadlineSeconds != 60 {
		t.Errorf("at its end it has %d s", *s.Admission.DeadlineSeconds)
	}
}
