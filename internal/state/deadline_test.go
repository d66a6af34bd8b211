// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

const year = 31500000 * time.Second

func TestDeadlineOfASpec(t *testing.T) {
	hours := elastic.Deadlines{Default: time.Hour, Max: 2 * time.Hour}
	for name, tc := range map[string]struct {
		set             *int64
		queue           elastic.Deadlines
		deadline, limit time.Duration
		tooLong         string
	}{
		"nothing is set":                        {nil, elastic.Deadlines{}, 0, 0, ""},
		"the spec sets one":                     {new(int64(60)), elastic.Deadlines{}, time.Minute, time.Minute, ""},
		"more than a year is no limit":          {new(int64(31500001)), elastic.Deadlines{}, year + time.Second, 0, ""},
		"the queue sets one":                    {nil, hours, time.Hour, time.Hour, ""},
		"0 sets none":                           {new(int64(0)), hours, time.Hour, time.Hour, ""},
		"the schema's default sets none":        {new(int64(31500000)), hours, time.Hour, time.Hour, ""},
		"the spec comes first":                  {new(int64(7200)), hours, 2 * time.Hour, 2 * time.Hour, ""},
		"the queue has only a longest":          {nil, elastic.Deadlines{Max: 2 * time.Hour}, 2 * time.Hour, 2 * time.Hour, ""},
		"longer than the default of a queue":    {new(int64(7200)), elastic.Deadlines{Default: time.Hour}, 2 * time.Hour, 2 * time.Hour, ""},
		"longer than the queue allows":          {new(int64(7201)), hours, 2 * time.Hour, 2 * time.Hour, "deadlineSeconds 7201 is more than queue research allows (2h)"},
		"more than a year, in a queue of hours": {new(int64(9000000000)), hours, 2 * time.Hour, 2 * time.Hour, "deadlineSeconds 9000000000 is more than queue research allows (2h)"},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.DeadlineSeconds = tc.set }).Defaulted()
			deadline, limit, tooLong := Deadline(mc, tc.queue), Limit(mc, tc.queue), TooLong(mc, "research", tc.queue)
			if deadline != tc.deadline || limit != tc.limit || tooLong != tc.tooLong {
				t.Errorf("a deadline of %s, a limit of %s, %q", deadline, limit, tooLong)
			}
		})
	}
}

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second, "20m": 20 * time.Minute, "10s": 10 * time.Second, "24h": 24 * time.Hour,
	} {
		if got := Short(d); got != want {
			t.Errorf("%s is short for %s, want %s", got, d, want)
		}
	}
}

func TestDeadlinesOfAQueue(t *testing.T) {
	queue := fixture.Queue("research").Deadlines(time.Hour, 2*time.Hour).Obj()
	if got := Deadlines(queue); got != (elastic.Deadlines{Default: time.Hour, Max: 2 * time.Hour, Grace: 10 * time.Minute}) {
		t.Errorf("got %+v", got)
	}
	queue.Spec.MaxGrace, queue.Spec.ExtendDeadlines = &metav1.Duration{Duration: time.Minute}, true
	if got := Deadlines(queue); got != (elastic.Deadlines{Default: time.Hour, Max: 2 * time.Hour, Extend: true, Grace: time.Minute}) {
		t.Errorf("got %+v", got)
	}
	if got := Deadlines(nil); got != (elastic.Deadlines{Grace: 10 * time.Minute}) {
		t.Errorf("a queue that does not exist has %+v", got)
	}
}

// A deadline becomes longer with the next admission alone, unless the queue lets it: with a short one, the MiniCluster may
// have passed others.
func TestDeadlineMayOnlyFall(t *testing.T) {
	extends := elastic.Deadlines{Extend: true}
	for name, tc := range map[string]struct {
		queue    elastic.Deadlines
		recorded *int64
		set      int64
		want     time.Duration
	}{
		"it was raised":                      {recorded: new(int64(60)), set: 3600, want: time.Minute},
		"it was taken away":                  {recorded: new(int64(60)), want: time.Minute},
		"it was lowered":                     {recorded: new(int64(60)), set: 30, want: 30 * time.Second},
		"there was none":                     {set: 30, want: 30 * time.Second},
		"it was raised, and the queue lets":  {queue: extends, recorded: new(int64(60)), set: 3600, want: time.Hour},
		"it was taken away, which lets, too": {queue: extends, recorded: new(int64(60)), want: 0},
	} {
		mc := fixture.MiniCluster("lmp").Size(2).Deadline(tc.set).Admitted(1, 2, "n[0-1]").Defaulted()
		mc.Status.Admission.DeadlineSeconds = tc.recorded
		if got := Deadline(mc, tc.queue); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		mc.Status.Admission = nil
		if got, want := Deadline(mc, tc.queue), time.Duration(tc.set)*time.Second; got != want {
			t.Errorf("%s: the next admission has %s, want %s", name, got, want)
		}
	}
}

// What a MiniCluster claims for its start and for its checkpoints is bounded by its queue.
func TestClaimsAreBounded(t *testing.T) {
	const forever = 999999 * time.Hour
	mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[0-1]").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.StartTimeout = &metav1.Duration{Duration: forever}
		s.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Wait: &metav1.Duration{Duration: forever}}
	}).Defaulted()
	for seconds, want := range map[int64]time.Duration{v1alpha2.DefaultDeadlineSeconds: forever, 60: v1alpha2.DefaultStartTimeout, 3600: time.Hour} {
		mc.Spec.DeadlineSeconds = &seconds
		if p := Policy(mc); p.StartTimeout != want {
			t.Errorf("with a deadline of %d s it may start for %s", seconds, p.StartTimeout)
		}
	}
	mc.Spec.DeadlineSeconds = nil
	mc.Default()
	for most, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Second: v1alpha2.DefaultStartTimeout} {
		mc.Status.Admission.QueueDeadlines = &v1alpha2.Deadlines{Max: &metav1.Duration{Duration: most}}
		if p := Policy(mc); p.StartTimeout != want {
			t.Errorf("in a queue of commands that run for %s it may start for %s", most, p.StartTimeout)
		}
	}
	const want = "elastic.checkpoint.wait 999999h is more than queue q allows (maxGrace: 10m)"
	if got := TooLong(mc, "q", Deadlines(nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	short := fixture.Queue("q").Obj()
	short.Spec.MaxGrace = &metav1.Duration{Duration: time.Minute}
	for queue, want := range map[*v1alpha2.MiniClusterQueue]time.Duration{nil: 10 * time.Minute, short: time.Minute} { // now
		o, err := Observe(View{MiniCluster: mc, Queue: queue, Node: func(string) *corev1.Node { return nil }})
		if err != nil || o.Policy.MaxGrace != want {
			t.Errorf("%v: it has %s, want %s", err, o.Policy.MaxGrace, want)
		}
	}
	mc.Spec.Elastic.Checkpoint.Wait.Duration = 10 * time.Minute
	if got := TooLong(mc, "q", Deadlines(nil)) + TooLong(mc, "q", elastic.Deadlines{}); got != "" {
		t.Errorf("what is allowed: %q", got)
	}
}

// The deadlines of the queue at the admission count for a MiniCluster with nodes: for its end, for the
// scheduler, and for its life.
func TestDeadlineOfAnAdmission(t *testing.T) {
	hour, two := &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: 2 * time.Hour}
	for name, tc := range map[string]struct {
		set    *int64
		queue  *v1alpha2.Deadlines
		policy time.Duration
		limit  time.Duration
	}{
		"of an earlier manager":              {new(int64(60)), nil, time.Minute, time.Minute},
		"of an earlier manager, without one": {nil, nil, year, 0},
		"without limit":                      {new(int64(0)), nil, 0, 0},
		"the queue's":                        {nil, &v1alpha2.Deadlines{Default: hour, Max: two}, time.Hour, time.Hour},
		"its own":                            {new(int64(60)), &v1alpha2.Deadlines{Default: hour, Max: two}, time.Minute, time.Minute},
		"raised by an edit":                  {new(int64(7200)), &v1alpha2.Deadlines{Default: hour, Max: two}, 2 * time.Hour, 2 * time.Hour},
		"raised too much":                    {new(int64(7201)), &v1alpha2.Deadlines{Default: hour, Max: two}, 2 * time.Hour, 2 * time.Hour},
		"raised where only a default is":     {new(int64(7201)), &v1alpha2.Deadlines{Default: hour}, 7201 * time.Second, 7201 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Admitted(1, 1, "a").Spec(func(s *v1alpha2.MiniClusterSpec) { s.DeadlineSeconds = tc.set }).Defaulted()
			mc.Status.Admission.QueueDeadlines = tc.queue
			o, err := Observe(View{MiniCluster: mc, Node: aNode})
			if err != nil || o.Policy.Deadline != tc.policy {
				t.Errorf("it lives for %s (%v), want %s", o.Policy.Deadline, err, tc.policy)
			}
			var end time.Time
			if tc.limit > 0 {
				end = fixture.Noon.Add(tc.limit)
			}
			promise, err := PromiseOf(mc)
			if err != nil || !promise.End.Equal(end) {
				t.Errorf("its promise ends at %s (%v), want %s", promise.End, err, end)
			}
			if r := Running(mc, fixture.Pod("x").Obj(), promise); r.Limit != tc.limit || !r.End.Equal(end) {
				t.Errorf("it runs with a limit of %s until %s, want %s until %s", r.Limit, r.End, tc.limit, end)
			}
		})
	}
}
