// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/hack/release/manifests"
)

const (
	root      = "../../.."
	dir       = root + "/charts/flux-elastic"
	system    = "flux-elastic-system" // the namespace of config
	elsewhere = "hpc"
)

// values reads values as Helm reads a file with them.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := common.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// render does what `helm template` does.
func render(chart *chartv2.Chart, values map[string]any, namespace string) (map[string]string, error) {
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "batch", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// load reads the chart.
func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	chart, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// objects are by their kinds and names.
type objects map[string]map[string]any

func (o objects) add(t *testing.T, m resmap.ResMap) {
	t.Helper()
	for _, resource := range m.Resources() {
		object, err := resource.Map()
		if err != nil {
			t.Fatal(err)
		}
		o[resource.CurId().String()] = object
	}
}

// rendered returns the objects of the chart with some values.
func rendered(t *testing.T, values map[string]any, namespace string) objects {
	t.Helper()
	files, err := render(load(t), values, namespace)
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		m, err := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		all.add(t, m)
	}
	return all
}

// valueFiles are the values that the chart is tested with.
func valueFiles(t *testing.T) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(dir + "/ci/*.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%v: %v", paths, err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What `helm lint` says.
func TestLint(t *testing.T) {
	for _, path := range valueFiles(t) {
		for _, message := range lint.RunAll(dir, values(t, read(t, path)), elsewhere).Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %s", filepath.Base(path), message)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the table of values in docs/install.md")

// rows returns the table rows of values with comments, by the order of their file. A value without a comment has
// values inside that have one.
func rows(t *testing.T, prefix string, node *yamlv3.Node) (lines []string) {
	t.Helper()
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		comment := strings.ReplaceAll(strings.ReplaceAll(key.HeadComment, "\n# ", " "), "# ", "")
		if comment == "" {
			if value.Kind != yamlv3.MappingNode || len(value.Content) == 0 {
				t.Errorf("%s%s has no comment", prefix, key.Value)
			}
			lines = append(lines, rows(t, prefix+key.Value+".", value)...)
			continue
		}
		var decoded any
		if err := value.Decode(&decoded); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("| %#q | %#q | %s |", prefix+key.Value, text, comment))
	}
	return lines
}

// The documentation has all values.
func TestDocumentation(t *testing.T) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(read(t, dir+"/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	const path, begin, end = root + "/docs/install.md", "-update -->\n", "<!-- end of values -->"
	text := read(t, path)
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the values", path)
	}
	table := "| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows(t, "", document.Content[0]), "\n") + "\n"
	want := before + begin + "\n" + table + "\n" + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("the values have changed: run `go -C hack/release test ./chart -update`\n%s", cmp.Diff(text, want))
	}
}

// helms are what Helm's conventions add to an object.
var helms = map[string][]string{
	"labels":      {"app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"},
	"annotations": {"helm.sh/resource-policy"},
}

// plain removes what Helm's conventions add to an object.
func plain(object map[string]any) map[string]any {
	metadata := object["metadata"].(map[string]any)
	for field, keys := range helms {
		if entries, ok := metadata[field].(map[string]any); ok {
			for _, key := range keys {
				delete(entries, key)
			}
			if len(entries) == 0 {
				delete(metadata, field)
			}
		}
	}
	return object
}

// The chart makes the objects that kustomize makes.
func TestSameAsKustomize(t *testing.T) {
	for values, kustomization := range map[string]string{
		"default":  "resources: [../config/default]",
		"embedded": "resources: [../config/embedded]",
		"direct": `
resources: [../config/embedded]
components: [../config/direct]
patches:
  - target: {kind: Deployment}
    patch: |
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --beside-flux-operator=false}
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --default-ttl=24h}
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --starting-pods=1000000}
`,
		"available": `
resources: [../config/embedded, ../config/embedded/admission]
components: [../config/availability, ../config/monitoring, ../config/network]
`,
	} {
		t.Run(values, func(t *testing.T) {
			m, err := manifests.Build(root, kustomization)
			if err != nil {
				t.Fatal(err)
			}
			want := objects{}
			want.add(t, m)
			maps.DeleteFunc(want, func(_ string, object map[string]any) bool { return object["kind"] == "Namespace" }) // Helm makes it
			got := rendered(t, valuesOf(t, values), system)
			for _, object := range got {
				plain(object)
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("kustomize (-) and Helm (+) differ:\n%s", difference)
			}
		})
	}
}

func valuesOf(t *testing.T, name string) map[string]any {
	t.Helper()
	return values(t, read(t, filepath.Join(dir, "ci", name+".yaml")))
}

// In another namespace, nothing names that of config.
func TestNamespace(t *testing.T) {
	for _, path := range valueFiles(t) {
		for id, object := range rendered(t, values(t, read(t, path)), elsewhere) {
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(system)) {
				t.Errorf("%s: %s names %s:\n%s", filepath.Base(path), id, system, text)
			}
		}
	}
}

// What a site's values change beyond what kustomize can make.
func TestSite(t *testing.T) {
	const critical = "priorityClassName: system-cluster-critical"
	quotas := func(text, namespace string) (pods []any) {
		for _, object := range rendered(t, values(t, text), namespace) {
			if object["kind"] == "ResourceQuota" {
				pods = append(pods, object["spec"].(map[string]any)["hard"].(map[string]any)["pods"])
			}
		}
		return pods
	}
	for _, tc := range []struct {
		values, namespace string
		want              []any
	}{
		{"{}", elsewhere, nil},
		{"{" + critical + "}", elsewhere, []any{"2"}},
		{"{" + critical + ", replicas: 5}", elsewhere, []any{"10"}},
		{"{" + critical + ", replicas: 2}", "kube-system", nil}, // other pods of this class run there
		{"{" + critical + ", priorityClassQuota: false}", elsewhere, nil},
	} {
		if got := quotas(tc.values, tc.namespace); !slices.Equal(got, tc.want) {
			t.Errorf("%s in %s: quotas of %v pods, want %v", tc.values, tc.namespace, got, tc.want)
		}
	}

	files, err := render(load(t), valuesOf(t, "site"), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"policies.yaml":   `"system:serviceaccount:batch:js-jobset-controller"`,
		"monitoring.yaml": "kind: Service\n",
		"deployment.yaml": "mountPath: /certs",
	} {
		if text := files["flux-elastic/templates/"+file]; !strings.Contains(text, want) {
			t.Errorf("%s has no %s:\n%s", file, want, text)
		}
	}
	if text := files["flux-elastic/templates/monitoring.yaml"]; strings.Count(text, "release: prometheus") != 2 {
		t.Errorf("the ServiceMonitor and the alerts lack a label:\n%s", text)
	}
	if text := files["flux-elastic/templates/policies.yaml"]; strings.Contains(text, "jobset-system") {
		t.Errorf("another controller may make Jobs:\n%s", text)
	}
}

// Wrong values are refused with an error that names them.
func TestWrongValues(t *testing.T) {
	for text, want := range map[string]string{
		"{jobset: internal}":                     "at '/jobset': value must be one of 'external', 'embedded'",
		"{binder: Direct}":                       "at '/binder': value must be one of 'auto', 'gate', 'direct'",
		"{replicas: -1}":                         "at '/replicas': minimum: got -1, want 0",
		"{replica: 2}":                           "additional properties 'replica' not allowed",
		"{image: {name: x}}":                     "at '/image': additional properties 'name' not allowed",
		"{image: {digest: latest}}":              "at '/image/digest': 'latest' does not match pattern",
		"{flags: {--workers: 3}}":                "'--workers' does not match pattern",
		"{flags: {workers: [3]}}":                "at '/flags/workers': got array, want boolean or number or string",
		"{flags: {jobset: embedded}}":            `flags has "jobset", which the chart sets itself`,
		"{admission: true}":                      "at '/admission': got boolean, want object",
		"{tolerations: {key: x}}":                "at '/tolerations': got object, want array",
		"{nodeSelector: {disk: true}}":           "at '/nodeSelector/disk': got boolean, want string",
		"{resources: {limit: {memory: 1Gi}}}":    "at '/resources': additional properties 'limit' not allowed",
		"{networkPolicies: {manager: {}}}":       "at '/networkPolicies/manager': got object, want boolean",
		"{metrics: {service: {}}}":               "at '/metrics/service': got object, want boolean",
		"{metrics: {labels: {release: 1}}}":      "at '/metrics/labels/release': got number, want string",
		"{networkPolicies: {namespaces: [A]}}":   "at '/networkPolicies/namespaces/0': 'A' does not match pattern",
		"{crds: {install: 'no'}}":                "at '/crds/install': got string, want boolean",
		"{imagePullSecrets: [registry]}":         "at '/imagePullSecrets/0': got string, want object",
		"{priorityClassName: {name: important}}": "at '/priorityClassName': got object, want string",
	} {
		_, err := render(load(t), values(t, text), system)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// The values of an archive are those of a release, and the same input gives the same bytes.
func TestWrite(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-g0123456": "1.2.3-4-g0123456", "0123456-dirty": "0.0.0-git-0123456-dirty"} {
		dirs := []string{t.TempDir(), t.TempDir()}
		var archives [2][]byte
		for i, dir := range dirs {
			if err := Write(root, dir, "registry.example.com/flux-elastic", version); err != nil {
				t.Fatal(err)
			}
			archives[i] = []byte(read(t, filepath.Join(dir, "flux-elastic-"+want+".tgz")))
		}
		if !bytes.Equal(archives[0], archives[1]) {
			t.Errorf("%s: the second archive differs", version)
		}
		chart, err := loader.LoadArchive(bytes.NewReader(archives[0]))
		if err != nil {
			t.Fatal(err)
		}
		if err := chart.Validate(); err != nil || chart.Metadata.Version != want || chart.Metadata.AppVersion != version {
			t.Errorf("%s: got %+v, %v", version, chart.Metadata, err)
		}
		files, err := render(chart, nil, system)
		if err != nil {
			t.Fatal(err)
		}
		if line, deployment := "image: registry.example.com/flux-elastic:"+version+"\n", files["flux-elastic/templates/deployment.yaml"]; !strings.Contains(deployment, line) {
			t.Errorf("there is no %s:\n%s", line, deployment)
		}
		if names := slices.Collect(maps.Keys(files)); slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "/ci/") }) {
			t.Errorf("the archive has the values of tests: %v", names)
		}
	}
}
