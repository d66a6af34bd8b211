// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests what config/monitoring tells Prometheus and Grafana. It is a module of its own, because
// Prometheus is a large dependency.
package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// interval is how often rules are evaluated.
const interval = time.Minute

// promQL is the syntax of expressions, without what a flag of Prometheus would have to enable.
var promQL = parser.NewParser(parser.Options{})

// ruleFile writes the rules as a file of Prometheus, and returns its path with the rules.
func ruleFile(t *testing.T) (string, []rulefmt.Rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config/monitoring/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, object.Spec, 0o600); err != nil {
		t.Fatal(err)
	}
	parsed, errs := rulefmt.ParseFile(path, false, model.UTF8Validation, promQL, promslog.NewNopLogger())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range parsed.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return path, all
}

// Each alert fires when it should, and does not when all is well or when what it looks for is over soon.
func TestAlerts(t *testing.T) {
	const (
		up     = `up{job="flux-elastic-metrics",pod="a"}`
		leads  = `leader_election_master_status{job="flux-elastic-metrics",name="manager.flux-framework.org",pod="a"}`
		errs   = `controller_runtime_reconcile_errors_total{job="flux-elastic-metrics",controller="queue"}`
		since  = `flux_elastic_head_blocked_timestamp_seconds{queue="q"}`
		limit  = `flux_elastic_finished_total{queue="q",outcome="StartLimitExceeded"}`
		starts = `flux_elastic_start_duration_seconds_count{queue="q"}`
		storm  = `flux_elastic_rejections_total{reason="PodRejected"}`
	)
	patience := map[string]string{`flux_elastic_queue_patience_seconds{queue="q"}`: "300x60"}
	nodes := func(starting string) map[string]string {
		return map[string]string{
			`flux_elastic_nodes{state="starting"}`: starting, `flux_elastic_nodes{state="running"}`: "20x60",
			`flux_elastic_nodes{state="idle"}`: "30x60", `flux_elastic_nodes{state="down"}`: "500x60",
		}
	}
	with := func(series map[string]string, pairs ...string) map[string]string {
		all := maps.Clone(series)
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	none := map[string]string{}
	fires := map[string]map[string]map[string]string{ // by alert and case, values by series
		"FluxElasticManagerDown": {
			"no manager answers": with(none, up, "0x60"), "there is no manager": with(none, up, "1 _x59"),
		},
		"FluxElasticNoLeader":        {"no manager leads": with(none, leads, "0x60")},
		"FluxElasticReconcileErrors": {"each second": with(none, errs, "0+60x60")},
		"FluxElasticHeadWaitsTooLong": {
			"a head waits since the beginning": with(patience, since, "0x60"),
		},
		"FluxElasticStartLimitReached": {"once": with(none, limit, "0x55 1x5")},
		"FluxElasticClogSuspected": {
			"half of the nodes wait": with(nodes("50x60"), starts, "7x60"), "no command has begun yet": nodes("50x60"),
		},
		"FluxElasticRejectedStorm": {"ten a minute": with(none, storm, "0+10x60"), "many at once": with(none, storm, "0x55 50x5")},
	}
	quiet := map[string]map[string]map[string]string{
		"FluxElasticManagerDown": {
			"one of two answers": with(none, up, "0x60", `up{job="flux-elastic-metrics",pod="b"}`, "1x60"),
			"it comes back soon": with(none, up, "1x58 0x2"),
		},
		"FluxElasticNoLeader": {
			"one of two leads":   with(none, leads, "0x60", `leader_election_master_status{job="flux-elastic-metrics",name="manager.flux-framework.org",pod="b"}`, "1x60"),
			"the leader changes": with(none, leads, "1x59 0"),
		},
		"FluxElasticReconcileErrors": {"few": with(none, errs, "0+1x60")},
		"FluxElasticHeadWaitsTooLong": {
			"a head waits since ten minutes ago": with(patience, since, "3000x60"), "no head waits": patience,
		},
		"FluxElasticStartLimitReached": {"long ago": with(none, limit, "0x5 1x55"), "at the start of the manager": with(none, limit, "0x60")},
		"FluxElasticClogSuspected": {
			"commands begin": with(nodes("50x60"), starts, "0+1x60"), "few nodes wait": with(nodes("5x60"), starts, "7x60"),
			"there is nothing": with(nodes("0x60"), starts, "7x60"),
		},
		"FluxElasticRejectedStorm": {"now and then": with(none, storm, "0+1x60")},
	}
	path, all := ruleFile(t)
	for _, rule := range all {
		if len(fires[rule.Alert]) == 0 || len(quiet[rule.Alert]) == 0 {
			t.Errorf("alert %s has no test where it fires, or none where it does not", rule.Alert)
		}
	}
	for want, tests := range map[bool]map[string]map[string]map[string]string{true: fires, false: quiet} {
		for alert, cases := range tests {
			for name, series := range cases {
				t.Run(fmt.Sprintf("%s/%t/%s", alert, want, name), func(t *testing.T) {
					if state := stateAfterAnHour(t, path, alert, series); (state == rules.StateFiring) != want {
						t.Errorf("the alert is %s", state)
					}
				})
			}
		}
	}
}

// stateAfterAnHour is the state of an alert after an hour of some series.
func stateAfterAnHour(t *testing.T, path, alert string, series map[string]string) rules.AlertState {
	t.Helper()
	load := "load 1m\n"
	for name, values := range series {
		load += "  " + name + " " + values + "\n"
	}
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: promQL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(), Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: promQL,
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, path)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var state rules.AlertState
	for at := time.Unix(0, 0).UTC(); !at.After(time.Unix(3600, 0)); at = at.Add(interval) {
		suite.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range groups {
				group.Eval(suite.Context(), at)
				for _, rule := range group.Rules() {
					if rule.LastError() != nil {
						t.Fatal(rule.LastError())
					}
					if alerting, ok := rule.(*rules.AlertingRule); ok && rule.Name() == alert {
						state = alerting.State()
					}
				}
			}
		})
	}
	return state
}

// Each alert names its section in docs/monitoring.md, and each section there is for an alert.
func TestRunbooks(t *testing.T) {
	const page = "https://github.com/flux-elastic/flux-elastic/blob/main/docs/monitoring.md#"
	text, err := os.ReadFile(filepath.Join(root, "docs/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	for _, match := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, match[1])
	}
	_, all := ruleFile(t)
	for _, rule := range all {
		alerts = append(alerts, rule.Alert)
		if url := rule.Annotations["runbook_url"]; url != page+strings.ToLower(rule.Alert) {
			t.Errorf("the runbook of %s is %q", rule.Alert, url)
		}
		if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s has no summary or no severity", rule.Alert)
		}
	}
	slices.Sort(sections)
	slices.Sort(alerts)
	if !slices.Equal(sections, alerts) {
		t.Errorf("docs/monitoring.md has %v, the alerts are %v", sections, alerts)
	}
}

// others are metrics of controller-runtime and of Prometheus that alerts and panels use. TestMetrics of test/e2e sees
// those of controller-runtime.
var others = []string{"up", "leader_election_master_status", "controller_runtime_reconcile_errors_total"}

// Every metric in an alert or a panel is in docs/monitoring.md, which another test compares with the code.
func TestQueries(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range others {
		known[name] = true
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		known[row[1]] = row[2] != "histogram"
		if row[2] == "histogram" {
			known[row[1]+"_bucket"], known[row[1]+"_count"], known[row[1]+"_sum"] = true, true, true
		}
	}
	queries := panels(t)
	_, all := ruleFile(t)
	for _, rule := range all {
		queries[rule.Alert] = append(queries[rule.Alert], rule.Expr)
	}
	for where, expressions := range queries {
		for _, expression := range expressions {
			parsed, err := promQL.ParseExpr(expression)
			if err != nil {
				t.Errorf("%s: %q: %v", where, expression, err)
				continue
			}
			names := 0
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if selector, ok := node.(*parser.VectorSelector); ok {
					if names++; !known[selector.Name] {
						t.Errorf("%s: there is no metric %s", where, selector.Name)
					}
				}
				return nil
			})
			if names == 0 {
				t.Errorf("%s: %q names no metric", where, expression)
			}
		}
	}
}

// panels are the queries of the dashboard, by title. Every panel has one.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config/monitoring/grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 || panel.Title == "" || len(queries[panel.Title]) > 0 {
			t.Errorf("panel %q has no query, or its title is not its own", panel.Title)
		}
		for _, target := range panel.Targets { // Grafana replaces its variables
			queries[panel.Title] = append(queries[panel.Title], strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	if len(queries) == 0 {
		t.Error("the dashboard has no panels")
	}
	return queries
}
