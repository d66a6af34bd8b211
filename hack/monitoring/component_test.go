// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The component adds to the manager what finds it: a Service of its pods, a ServiceMonitor of this Service, and alerts
// about the job of this name.
func TestComponent(t *testing.T) {
	made := render(t, "config/default", "config/monitoring")
	value := func(kind, name, path string) string {
		t.Helper()
		for _, object := range made.Resources() {
			if object.GetKind() == kind && object.GetName() == name {
				if object.GetNamespace() != "flux-elastic-system" {
					t.Errorf("%s %s is in namespace %q", kind, name, object.GetNamespace())
				}
				at, err := object.GetFieldValue(path)
				if err != nil {
					t.Fatalf("%s %s: %v", kind, name, err)
				}
				text, _ := at.(string)
				return text
			}
		}
		t.Fatalf("there is no %s %s", kind, name)
		return ""
	}
	const label = `[app.kubernetes.io/name]`
	pods := value("Deployment", "flux-elastic", "spec.template.metadata.labels."+label)
	if got := value("Service", "flux-elastic-metrics", "spec.selector."+label); got != pods || got == "" {
		t.Errorf("the Service selects %q, the pods are %q", got, pods)
	}
	service := value("Service", "flux-elastic-metrics", "metadata.labels."+label)
	if got := value("ServiceMonitor", "flux-elastic", "spec.selector.matchLabels."+label); got != service || got == "" {
		t.Errorf("the ServiceMonitor selects %q, the Service is %q", got, service)
	}
	if got := value("ServiceMonitor", "flux-elastic", "spec.endpoints.0.port"); got != value("Service", "flux-elastic-metrics", "spec.ports.0.name") {
		t.Errorf("the ServiceMonitor scrapes port %q", got)
	}
	if got := value("Service", "flux-elastic-metrics", "spec.ports.0.targetPort"); got != value("Deployment", "flux-elastic", "spec.template.spec.containers.0.ports.0.name") {
		t.Errorf("the Service is for port %q", got)
	}
	if value("ConfigMap", "flux-elastic-dashboard", "metadata.labels.grafana_dashboard") != "1" {
		t.Error("Grafana does not find the dashboard")
	}
	_, all := ruleFile(t)
	for _, rule := range all {
		if strings.Contains(rule.Expr, "job=") && !strings.Contains(rule.Expr, `job="flux-elastic-metrics"`) {
			t.Errorf("%s is about another job: %s", rule.Alert, rule.Expr)
		}
	}
}

// render builds a directory of this repository with a component.
func render(t *testing.T, resource, component string) resmap.ResMap {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(to string) string {
		absolute, err := filepath.Abs(filepath.Join(root, to))
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(dir, absolute)
		if err != nil {
			t.Fatal(err)
		}
		return relative
	}
	text := "resources: [" + path(resource) + "]\ncomponents: [" + path(component) + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
