// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// fromGo is what a Go program sends that uses the Flux Operator's own types: every field that
// those encode without omitempty is there, and has its zero value if the program did not set it.
const fromGo = `
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: from-go, creationTimestamp: null}
spec:
  containers:
  - imagePullSecret: ""
    image: app
    workingDir: ""
    name: ""
    command: run
    ports: null
    environment: null
    secrets: {TOKEN: {name: token, key: value}}
    launcher: false
    batch: false
    batchRaw: false
    logs: ""
    runFlux: false
    noWrapEntrypoint: false
    volumes: {data: {emptyDir: true, path: /data, items: null, csiDriverAttributes: null}}
    lifeCycle: {postStartExec: "", preStopExec: ""}
    resources: {limits: {cpu: "8"}}
    commands: {prefix: "", script: "", init: "", pre: "", post: "", workerPre: "", brokerPre: "", servicePre: ""}
    securityContext: {}
  services: null
  network: {}
  jobLabels: null
  interactive: false
  flux:
    container: {workingDir: "", pythonPath: "", resources: {}, imagePullSecret: "", securityContext: {}}
    optionFlags: ""
    minimalService: false
    disableSocket: false
    topology: ""
    noWaitSocket: false
    completeWorkers: false
    curveCert: ""
    scheduler: {simple: false, queuePolicy: ""}
    mungeSecret: ""
    bursting:
      leadBroker: {address: "", name: "", size: 0}
      hostlist: ""
      clusters: [{name: ""}]
    brokerConfig: ""
    environment: null
  logging: {}
  archive: {}
  shareProcessNamespace: false
  size: 2
  pod:
    annotations: null
    labels: null
    tolerations: [{operator: Exists}]
    resources: null
    securityContext: {}
status: {size: 0, selector: "", jobid: "", maximumSize: 0}
`

// A MiniCluster from such a program runs, as if the program had left those fields out.
func TestGoClientOfTheFluxOperator(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{%q:%q}}}`, v1alpha2.QueueLabel, s.namespace)
	sent := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(fromGo), &sent.Object); err != nil {
		t.Fatal(err)
	}
	sent.SetNamespace(s.namespace)
	pod := sent.Object["spec"].(map[string]any)["pod"].(map[string]any)
	pod["nodeSelector"] = map[string]any{siteLabel: s.namespace}
	if err := env.client.Create(s.ctx, sent); err != nil {
		t.Fatal(err)
	}
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: sent.GetName()}}
	s.awaitSuccess(mc)
	if mc.Status.MaximumSize != 2 {
		t.Errorf("its largest size is %d", mc.Status.MaximumSize)
	}
	mc.Default()
	if flux := mc.Spec.Flux; flux.Bursting.LeadBroker != nil || flux.Bursting.Clusters[0].Name != "burst-0" || flux.Scheduler.QueuePolicy != "easy" {
		t.Errorf("the settings of its Flux are %+v", flux)
	}
}

// The list of fields above is complete: it has all fields of a checkout of the Flux Operator.
func TestGoClientSendsAllFields(t *testing.T) {
	t.Parallel()
	source := os.Getenv("FLUX_OPERATOR_SRC")
	if source == "" {
		t.Skip("FLUX_OPERATOR_SRC names no checkout of the Flux Operator")
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(source, "api", "v1alpha2", "minicluster_types.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	structs := structsOf{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if fields, ok := spec.Type.(*ast.StructType); ok {
				structs[spec.Name.Name] = fields
			}
		}
		return true
	})
	var sent map[string]any
	if err := yaml.UnmarshalStrict([]byte(fromGo), &sent); err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{}
	structs.check(t, "MiniCluster", "", sent, checked)
	for _, name := range []string{"FluxBroker", "BurstedCluster", "ContainerVolume", "Secret", "Toleration", "LifeCycle", "Commands", "FluxContainer"} {
		if !checked[name] {
			t.Errorf("no %s was checked", name)
		}
	}
}

// structsOf are the structs of a file of Go.
type structsOf map[string]*ast.StructType

// check finds out whether a value has all fields that a struct of the file always sends.
func (s structsOf) check(t *testing.T, name, path string, value map[string]any, checked map[string]bool) {
	t.Helper()
	checked[name] = true
	for _, field := range s[name].Fields.List {
		if field.Tag == nil {
			continue
		}
		key, options, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		if key == "" { // inlined
			continue
		}
		kind, isStruct := s.elem(field.Type)
		sent, has := value[key]
		if !has && (isStruct || !strings.Contains(options, "omitempty")) { // omitempty omits no struct
			t.Errorf("a %s always has %s.%s, which the test does not send", name, path, key)
		}
		if s[kind] == nil {
			continue
		}
		switch sent := sent.(type) {
		case map[string]any:
			if isStruct {
				s.check(t, kind, path+"."+key, sent, checked)
				continue
			}
			for _, item := range sent {
				s.check(t, kind, path+"."+key, item.(map[string]any), checked)
			}
		case []any:
			for _, item := range sent {
				s.check(t, kind, path+"."+key, item.(map[string]any), checked)
			}
		}
	}
}

// elem is the name of the type of a field, or of its items; isStruct is true for a struct itself.
func (s structsOf) elem(kind ast.Expr) (name string, isStruct bool) {
	switch kind := kind.(type) {
	case *ast.Ident:
		return kind.Name, s[kind.Name] != nil
	case *ast.ArrayType:
		name, _ = s.elem(kind.Elt)
	case *ast.MapType:
		name, _ = s.elem(kind.Value)
	case *ast.SelectorExpr: // of Kubernetes: structs, but for this map
		return "", kind.Sel.Name != "ResourceList"
	}
	return name, false
}
