// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Lives of all kinds, and what Prometheus scrapes: every metric of docs/monitoring.md is there, has what happened, and
// follows the conventions. What the queue counts is what its MiniClusters used.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5)
	again := func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("1s")}
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("1s"), duration("3s")
	}
	succeeds := s.create(s.miniCluster("metered-short").Size(1).PodAnnotation(simulator.Runtime, untilTold))
	loses := s.create(s.miniCluster("metered-loser").Size(2).PodAnnotation(simulator.LoseRanks, "1").PodAnnotation(simulator.Runtime, untilTold))
	s.await(succeeds, "in use for a second at least", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.StartTime != nil && wallClock.Since(mc.Status.StartTime.Time) >= 2*time.Second
	})
	s.endCommand(succeeds)
	s.awaitSuccess(succeeds)
	s.awaitState(loses, v1alpha2.StateFailed)
	never := s.create(s.miniCluster("metered-never").Size(2).PodAnnotation(simulator.NeverStart, "1").Spec(again))
	s.awaitState(never, v1alpha2.StateFailed)
	without := s.create(s.miniCluster("metered-without").Size(2).MinSize(1).PodAnnotation(simulator.NeverStart, "1").
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.QuorumTimeout = duration("1s") }))
	s.awaitSuccess(without)
	runs := s.create(s.miniCluster("metered-runs").Launcher().Size(1).MinSize(1).MaxSize(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(runs, v1alpha2.StateRunning)
	s.patch(runs, `{"spec":{"size":2}}`)
	s.await(runs, "two brokers", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 2 })
	s.patch(runs, `{"spec":{"size":1}}`)
	s.await(runs, "one broker", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
	s.patch(queueOf(s), `{"spec":{"patience":"7m"}}`)
	s.create(s.miniCluster("metered-head").Size(5))
	s.create(s.miniCluster("metered-huge").Size(1000))
	gone := s.create(s.miniCluster("metered-gone").Size(5))
	s.await(gone, "waiting", func(mc *v1alpha2.MiniCluster) bool { return condition(mc, v1alpha2.ConditionAdmitted).Reason != "" })
	s.delete(gone)
	s.awaitGone(gone)
	s.create(s.miniCluster("metered-refused").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].Resources.Limits = corev1.ResourceList{"Not a resource": resource.MustParse("1")}
	}))

	// The queue is where labels are x.
	atLeast := map[string]float64{
		`waiting_miniclusters{queue="x",verdict="NeverFits"}`: 1, `waiting_miniclusters{queue="x",verdict="NoRoom"}`: 1, `admitted_miniclusters{queue="x"}`: 1,
		`brokers{queue="x",state="running"}`: 1, `brokers{queue="x",state="starting"}`: 0,
		`nodes{state="running"}`: 1, `nodes{state="starting"}`: 0, `nodes{state="idle"}`: 1, `nodes{state="down"}`: 0,
		`head_blocked_timestamp_seconds{queue="x"}`: 1.7e9, `queue_patience_seconds{queue="x"}`: 420,
		`wait_duration_seconds_count{outcome="Admitted",queue="x"}`: 6, `wait_duration_seconds_count{outcome="Deleted",queue="x"}`: 1,
		`start_duration_seconds_count{queue="x"}`: 4, `admissions_total{queue="x"}`: 6, `attempts_ended_total{queue="x",reason="NotStarted"}`: 1,
		`finished_total{outcome="Succeeded",queue="x"}`: 2, `finished_total{outcome="StartLimitExceeded",queue="x"}`: 1,
		`resizes_total{direction="grow",queue="x"}`: 1, `resizes_total{direction="shrink",queue="x"}`: 1,
		`brokers_lost_total{queue="x"}`: 1, `quorum_shortfall_brokers_total{queue="x"}`: 1,
		`node_seconds_total{queue="x",use="useful"}`: 1, `node_seconds_total{queue="x",use="lost"}`: 8,
		`decisions_total{step="Admit"}`: 6, `decisions_total{step="Start"}`: 4, `rejections_total{reason="PodRejected"}`: 1, `cycle_duration_seconds_count`: 6,
		`api_writes_total{code="200",resource="miniclusters/status",verb="patch"}`: 10, `api_writes_total{code="201",resource="jobsets",verb="create"}`: 6,
	}
	text := s.scrapeUntil(func(have clog.Metrics) (errs error) {
		for series, least := range atLeast {
			series = "flux_elastic_" + strings.ReplaceAll(series, `queue="x"`, `queue="`+s.namespace+`"`)
			if value, there := have[series]; !there || value < least {
				errs = errors.Join(errs, fmt.Errorf("%s is %v (%t), want %v at least", series, value, there, least))
			}
		}
		return errs
	})
	if bytes.Contains(text, []byte("metered-")) { // anybody may read them
		t.Error("a metric names a MiniCluster")
	}
	for _, name := range []string{"controller_runtime_reconcile_errors_total"} { // an alert is about it
		if !bytes.Contains(text, []byte("# TYPE "+name+" ")) {
			t.Errorf("%s is not there", name)
		}
	}
	lintMetrics(t, text)

	var want v1alpha2.Usage
	for _, mc := range []*v1alpha2.MiniCluster{succeeds, loses, never, without} {
		used := s.get(mc).Status.Usage
		want.UsefulNodeSeconds, want.LostNodeSeconds = want.UsefulNodeSeconds+used.UsefulNodeSeconds, want.LostNodeSeconds+used.LostNodeSeconds
	}
	s.awaitQueue("counting what its MiniClusters used", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		a := q.Accounting
		return a != nil && a.Usage == want && len(a.Users) == 1 && a.Users[0] == v1alpha2.UserUsage{Name: s.namespace, Usage: want}
	})
}

// scrapeUntil reads the metrics of the manager until they are as expected.
func (s *site) scrapeUntil(holds func(clog.Metrics) error) (text []byte) {
	s.t.Helper()
	eventually(s.t, func() error {
		response, err := http.Get("http://" + env.manager.Metrics + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err = io.ReadAll(response.Body); err != nil {
			return err
		}
		var names []string
		for _, match := range regexp.MustCompile(`(?m)^(flux_elastic_\w+)`).FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
		have, err := clog.ReadMetrics(bytes.NewReader(text), names...)
		if err != nil {
			return err
		}
		return holds(have)
	})
	return text
}

// awaitQueue waits until the status of the queue of the site is as expected.
func (s *site) awaitQueue(what string, holds func(*v1alpha2.MiniClusterQueueStatus) bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		queue := &v1alpha2.MiniClusterQueue{}
		if err := env.client.Get(s.ctx, client.ObjectKey{Name: s.namespace}, queue); err != nil {
			return err
		}
		if !holds(&queue.Status) {
			return fmt.Errorf("the queue is not %s: %+v", what, queue.Status.Accounting)
		}
		return nil
	})
}

// lintMetrics checks the metrics by the conventions of Prometheus, and that those with their types are in
// docs/monitoring.md that are there.
func lintMetrics(t *testing.T, text []byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(env.Root, "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flux_elastic_\\w+)` \\| (\\w+) \\|").FindAllSubmatch(page, -1) {
		documented[string(row[1])] = string(row[2])
	}
	types := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (flux_elastic_\w+) (\w+)$`).FindAllSubmatch(text, -1) {
		types[string(match[1])] = string(match[2])
	}
	if len(types) == 0 || fmt.Sprint(types) != fmt.Sprint(documented) { // maps are printed in order
		t.Errorf("scraped are %v,\nin docs/monitoring.md are %v", types, documented)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "flux_elastic_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}

// nodeSeconds are the node-seconds of a MiniCluster by the versions of its status that were seen: its nodes between
// each decision and the next one. They are counted apart from those in the status.
func (r *recorded) nodeSeconds() (sum int64) {
	var before *v1alpha2.Decision
	var nodes, since int64
	for _, mc := range r.versions {
		s := &mc.Status
		d := s.LastDecision
		if d == nil || before != nil && d.Number == before.Number {
			continue
		}
		sum += nodes * (d.Time.Unix() - since)
		nodes, since, before = 0, d.Time.Unix(), d
		if s.Admission != nil && outcome(s) == "" {
			vacated, _ := idset.Decode(s.Admission.Vacated, int(s.Admission.Size))
			nodes = int64(s.Admission.Size) - int64(len(vacated))
		}
	}
	return sum
}

// recordedNodeSeconds are the node-seconds in the status of a MiniCluster.
func recordedNodeSeconds(s *v1alpha2.MiniClusterStatus) (sum int64) {
	if s.Usage != nil {
		sum = s.Usage.UsefulNodeSeconds + s.Usage.LostNodeSeconds
	}
	if s.Admission != nil && s.Admission.Usage != nil && outcome(s) == "" {
		sum += s.Admission.Usage.NodeSeconds
	}
	return sum
}
