// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// documented are the types and the labels of the metrics in docs/monitoring.md, by name.
func documented(t *testing.T) (types, labels map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	types, labels = map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flux_elastic_\\w+)` \\| (\\w+) \\| ([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		types[row[1]] = row[2]
		labels[row[1]] = strings.Join(strings.FieldsFunc(row[3], func(r rune) bool { return strings.ContainsRune("`, ", r) }), ",")
	}
	return types, labels
}

// The names and labels of all metrics in the registry are those in docs/monitoring.md.
func TestDocs(t *testing.T) {
	_, documented := documented(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		ctrlmetrics.Registry.(prometheus.Collector).Describe(descriptions)
		close(descriptions)
	}()
	made := map[string]string{}
	for d := range descriptions {
		if match := regexp.MustCompile(`fqName: "(flux_elastic_\w+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String()); match != nil {
			made[match[1]] = match[2]
		}
	}
	if len(made) == 0 || !maps.Equal(made, documented) {
		t.Errorf("the registry has %v,\ndocs/monitoring.md has %v", made, documented)
	}
}

// a counts decisions on a MiniCluster of queue q.
type a struct {
	status v1alpha2.MiniClusterStatus
	record life.Record
	usage  life.Usage
	now    time.Time
}

func (m *a) decides(after time.Duration, step life.Step) {
	m.now = m.now.Add(after)
	w := Written{Step: step, Before: m.status.DeepCopy(), Record: m.record, Next: life.Plan{Step: step}.Apply(m.record, m.now), Queued: noon, Now: m.now}
	if !m.record.Started.IsZero() {
		w.Lost = []int{1}
	}
	m.usage = m.usage.After(m.record, w.Next, m.now)
	m.record = w.Next
	m.status.Usage = &v1alpha2.Usage{UsefulNodeSeconds: m.usage.Useful, LostNodeSeconds: m.usage.Lost}
	w.After = &m.status
	Count(w)
}

// All metrics follow the life of a MiniCluster, and those of a queue go with the queue.
func TestCounts(t *testing.T) {
	SetQueues(map[string]bool{"q": true, "other": true})
	Observe(func() *Cluster {
		return &Cluster{Nodes: Nodes{Running: 3, Starting: 2, Idle: 1, Down: 4}, Queues: map[string]Queue{"q": {
			Waiting: map[elastic.Verdict]int{elastic.NoRoom: 2}, Admitted: 1, Starting: 2, Running: 3, Blocked: noon, Patience: 5 * time.Minute,
		}}}
	})
	mc := &a{now: noon, status: v1alpha2.MiniClusterStatus{QueueingStatus: v1alpha2.QueueingStatus{Queue: "q"}}}
	mc.decides(3*time.Second, life.Admit{Attempt: 1, Nodes: []string{"a", "b", "c", "d"}})
	mc.decides(10*time.Second, life.GiveUp{})
	mc.decides(10*time.Second, life.Admit{Attempt: 2, Nodes: []string{"a", "b", "c", "d"}})
	mc.decides(2*time.Second, life.LowerQuorum{Quorum: 3, Leaving: []int{3}})
	mc.decides(0, life.Vacate{Ranks: []int{3}, Quorum: 3}) // the command has not begun
	mc.decides(0, life.Start{Quorum: 3})
	mc.decides(5*time.Second, life.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "e"}}, Quorum: 4})
	mc.decides(5*time.Second, life.Restart{Quorum: 3, Lost: []int{1}})
	mc.decides(0, life.Lose{Ranks: []int{1}})
	mc.decides(0, life.Lose{Ranks: []int{1}})
	mc.decides(0, life.Wait{})
	mc.decides(0, life.Finish{Outcome: life.OutcomeSucceeded})
	CountWait("q", WaitDeleted, time.Minute)
	CountWait("not there", WaitDeleted, time.Minute)
	CountCycle(time.Millisecond)
	Count(Written{Step: life.Wait{}, Before: &v1alpha2.MiniClusterStatus{}, After: &v1alpha2.MiniClusterStatus{
		Conditions: []metav1.Condition{{Type: v1alpha2.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "PodRejected"}},
	}})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: CountWrites(http.DefaultTransport)}
	for _, path := range []string{"/api/v1/namespaces/n/pods/p/binding", "/api/v1/namespaces/n/pods/p/binding?dryRun=All", "/apis/apps/v1/namespaces/n/things"} {
		response, err := client.Post(server.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if response, err := client.Get(server.URL + "/api/v1/namespaces/n/pods"); err == nil {
		_ = response.Body.Close()
	}
	want := map[string]float64{
		`admissions_total{queue="q"}`:                                2,
		`attempts_ended_total{queue="q",reason="NotStarted"}`:        1,
		`finished_total{outcome="Succeeded",queue="q"}`:              1,
		`finished_total{outcome="StartLimitExceeded",queue="other"}`: 0,
		`resizes_total{direction="grow",queue="q"}`:                  1,
		`resizes_total{direction="shrink",queue="q"}`:                2,
		`brokers_lost_total{queue="q"}`:                              2,
		`quorum_shortfall_brokers_total{queue="q"}`:                  1,
		`node_seconds_total{queue="q",use="useful"}`:                 15 + 20,
		`node_seconds_total{queue="q",use="lost"}`:                   40 + 8,
		`decisions_total{step="Lose"}`:                               2,
		`rejections_total{reason="PodRejected"}`:                     1,
		`rejections_total{reason="NameClash"}`:                       0,
		`wait_duration_seconds{outcome="Admitted",queue="q"}`:        2,
		`wait_duration_seconds{outcome="Deleted",queue="q"}`:         1,
		`wait_duration_seconds{outcome="Deleted",queue=""}`:          1,
		`start_duration_seconds{queue="q"}`:                          1,
		`cycle_duration_seconds{}`:                                   1,

		`api_writes_total{code="200",resource="pods/binding",verb="create"}`: 1,
		`api_writes_total{code="200",resource="things",verb="create"}`:       1,

		`waiting_miniclusters{queue="q",verdict="NoRoom"}`: 2,
		`admitted_miniclusters{queue="q"}`:                 1,
		`brokers{queue="q",state="starting"}`:              2,
		`brokers{queue="q",state="running"}`:               3,
		`nodes{state="running"}`:                           3,
		`nodes{state="starting"}`:                          2,
		`nodes{state="idle"}`:                              1,
		`nodes{state="down"}`:                              4,
		`head_blocked_timestamp_seconds{queue="q"}`:        float64(noon.Unix()),
		`queue_patience_seconds{queue="q"}`:                300,
	}
	got := gather(t)
	for series, value := range want {
		if have, there := got[series]; !there || have != value {
			t.Errorf("%s is %v (%t), want %v", series, have, there, value)
		}
	}
	lint(t)

	SetQueues(map[string]bool{"other": true})
	Observe(func() *Cluster { return nil })
	for series := range gather(t) {
		if strings.Contains(series, `queue="q"`) || strings.HasPrefix(series, "nodes{") {
			t.Errorf("%s is still there", series)
		}
	}
}

// lint checks every metric by the conventions of Prometheus, and its type by docs/monitoring.md.
func lint(t *testing.T) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), prefix) })
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	types := map[string]string{}
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	if documented, _ := documented(t); !maps.Equal(types, documented) {
		t.Errorf("the types are %v,\nin docs/monitoring.md %v", types, documented)
	}
}

// gather returns the values of our series, with the labels sorted; the number of observations for histograms.
func gather(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), prefix)
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+`="`+label.GetValue()+`"`)
			}
			series := name + "{" + strings.Join(labels, ",") + "}"
			if ours {
				values[series] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}
