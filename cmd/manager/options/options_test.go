// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"
)

const header = "apiVersion: config.flux-framework.org/v1alpha1\nkind: ManagerConfiguration\n"

// write writes a configuration file, and returns the flag that names it.
func write(t *testing.T, file string) (flag string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + path
}

// The command line wins over the file, wherever --config stands, and the file over the default.
func TestPrecedence(t *testing.T) {
	config := write(t, header+"workers: 3\nmaxBrokers: 7\nleaderElect: true\nbinder: gate\n")
	for _, args := range [][]string{
		{config, "--workers=5", "--leader-elect=false"},
		{"--workers=5", "--leader-elect=false", config},
		{"--leader-elect=false", "--workers", "5", config}, // as flag.FlagSet takes it
	} {
		o, err := Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if o.Workers != 5 || o.MaxBrokers != 7 || o.LeaderElect || o.Binder != "gate" {
			t.Errorf("%v: got %+v", args, o)
		}
	}
	if o, err := Parse([]string{config, "--workers=16"}); err != nil || o.Workers != 16 {
		t.Errorf("a flag with the default: got %d, %v", o.Workers, err)
	}
}

// samples are values that are not the default, and that are taken.
var samples = map[string]string{
	"default-ttl": "24h", "batch-node-selector": "pool=batch", "topology-labels": "example.com/rack", "kueue-namespaces": "team",
	"fluxion-library": "/lib.so", "kubeconfig": "/kubeconfig", "leader-election-namespace": "here", "metrics-bind-address": ":8443",
	"metrics-cert-dir": "/certs", "health-probe-bind-address": ":1", "pprof-bind-address": "[::1]:2", "zap-log-level": "4",
	"dashboard-bind-address": "127.0.0.1:3",
}

// needed are the arguments without which a setting is an error.
var needed = map[string][]string{"metrics-cert-dir": {"--metrics-secure"}, "dashboard-insecure-viewer": {"--dashboard-bind-address=:3"}}

// sampleOf returns a sample of a setting.
func sampleOf(s *Setting) string {
	switch {
	case s.Kind == Boolean:
		return "true"
	case s.Kind != String:
		return "77"
	case len(s.Choices) > 0:
		return s.Choices[slices.IndexFunc(s.Choices, func(choice string) bool { return choice != s.Default })]
	}
	return samples[s.Flag]
}

// Each setting has an effect, and the field has the same effect as the flag.
func TestFieldsAreFlags(t *testing.T) {
	for _, section := range Sections() {
		for _, s := range section.Settings {
			sample := sampleOf(&s)
			inYAML := sample
			if s.Kind == String {
				inYAML = `"` + sample + `"`
			}
			var got [3]*Options
			for i, args := range [][]string{nil, {"--" + s.Flag + "=" + sample}, {write(t, header+s.Field()+": "+inYAML)}} {
				var err error
				args = append(args, needed[s.Flag]...)
				if got[i], err = Parse(args); err != nil {
					t.Fatalf("%v: %v", args, err)
				}
				got[i].config = ""
			}
			ignored := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Logging" }, cmp.Comparer(func(a, b zap.Options) bool {
				return (a.NewEncoder == nil) == (b.NewEncoder == nil) && (a.Level == nil) == (b.Level == nil) && a.Development == b.Development &&
					(a.TimeEncoder == nil) == (b.TimeEncoder == nil) && (a.StacktraceLevel == nil) == (b.StacktraceLevel == nil)
			}))
			exported := cmp.AllowUnexported(Options{})
			if s.Flag != "kubeconfig" && cmp.Equal(got[0], got[1], ignored, exported, selectors) { // a variable of controller-runtime has it
				t.Errorf("--%s=%s has no effect", s.Flag, sample)
			}
			if diff := cmp.Diff(got[1], got[2], ignored, exported, selectors); diff != "" {
				t.Errorf("%s (-flag +field):\n%s", s.Field(), diff)
			}
		}
	}
}

var selectors = cmp.Comparer(func(a, b interface{ String() string }) bool { return a.String() == b.String() })

// files are configuration files, and what is wrong with them. The schema sees the same, but for what schemas cannot say.
var files = map[string]struct {
	text, want string
	unseen     bool // by the schema
}{
	"nothing but its type":        {text: header},
	"a whole number for a number": {text: header + "kubeApiQps: 20"},
	"a comment":                   {text: "# ours\n" + header + "workers: 2 # few\n"},
	"an unknown field":            {text: header + "worker: 2", want: "line 3: worker: there is no such field"},
	"a flag's name":               {text: header + "max-brokers: 2", want: "line 3: max-brokers: there is no such field"},
	"no type":                     {text: "workers: 2", want: "apiVersion is missing: it has to be config.flux-framework.org/v1alpha1\nkind is missing: it has to be ManagerConfiguration"},
	"another kind":                {text: "apiVersion: v1\nkind: ConfigMap", want: "line 1: apiVersion: \"v1\": it can be config.flux-framework.org/v1alpha1\nline 2: kind: \"ConfigMap\": it can be ManagerConfiguration"},
	"a text for a number":         {text: header + "workers: many", want: "line 3: workers: it has to be a whole number"},
	"a number in quotes":          {text: header + `workers: "2"`, want: "line 3: workers: it has to be a whole number"},
	"a number for a text":         {text: header + "metricsBindAddress: 0", want: `line 3: metricsBindAddress: it has to be a string: write "0"`},
	"a part of a number":          {text: header + "workers: 1.5", want: "line 3: workers: it has to be a whole number"},
	"a number below":              {text: header + "workers: 0", want: `line 3: workers: "0": it has to be a whole number of at least 1`},
	"yes":                         {text: header + "leaderElect: yes", want: "line 3: leaderElect: it has to be true or false", unseen: true}, // sigs.k8s.io/yaml reads true
	"no value":                    {text: header + "workers:", want: "line 3: workers: it has to be a whole number"},
	"a list":                      {text: header + "topologyLabels: [a, b]", want: "line 3: topologyLabels: it has to be a string"},
	"a map":                       {text: header + "workers: {a: 1}", want: "line 3: workers: it has to be a whole number"},
	"a wrong choice":              {text: header + "binder: Gate", want: `line 3: binder: "Gate": it can be auto, gate or direct`},
	"an alias":                    {text: header + "binder: &b gate\njobset: *b", want: "line 4: jobset: it has to be a string"},
	"two problems":                {text: header + "a: 1\nb: 2", want: "line 3: a: there is no such field\nline 4: b: there is no such field"},
	"twice":                       {text: header + "workers: 1\nworkers: 2", want: "line 4: workers: line 3 has the field already", unseen: true},
	"a wrong duration":            {text: header + "defaultTtl: 1day", want: `line 3: defaultTtl: "1day": it has to be a duration that is not negative, such as 90s, 10m or 24h`, unseen: true},
	"a negative duration":         {text: header + "defaultTtl: -1s", want: `line 3: defaultTtl: "-1s": it has to be a duration that is not negative, such as 90s, 10m or 24h`, unseen: true},
	"a wrong selector":            {text: header + "batchNodeSelector: a in", want: `line 3: batchNodeSelector: "a in": unable to parse requirement: found '' expected: '('`, unseen: true},
	"two documents":               {text: header + "---\n" + header, want: "it has more than one document", unseen: true},
	"nothing":                     {want: "it is empty"},
	"a comment alone":             {text: "# workers: 2\n", want: "it is empty"},
	"an empty document":           {text: "---\n", want: "line 2: it has no fields"},
	"a scalar":                    {text: "workers", want: "line 1: it has no fields"},
	"no YAML":                     {text: "a: b: c", want: "yaml: mapping values are not allowed in this context", unseen: true},
}

func TestFiles(t *testing.T) {
	schema := schemaOfFile(t)
	for name, tc := range files {
		config := write(t, tc.text)
		message := ""
		if _, err := Parse([]string{config}); err != nil {
			message = strings.TrimPrefix(err.Error(), strings.TrimPrefix(config, "--config=")+": ")
		}
		if message != tc.want {
			t.Errorf("%s: got %q, want %q", name, message, tc.want)
		}
		if tc.unseen {
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(tc.text), &value); err != nil {
			t.Fatal(err)
		}
		if valid := schema.Validate(value).IsValid(); valid != (tc.want == "") {
			t.Errorf("%s: by the schema it is valid: %v", name, valid)
		}
	}
}

// schemaOfFile reads the schema that is made for users.
func schemaOfFile(t *testing.T) validation.SchemaValidator {
	t.Helper()
	text, err := os.ReadFile("../../../config/manager/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var v1 apiextensionsv1.JSONSchemaProps
	var internal apiextensions.JSONSchemaProps
	if err := errors.Join(json.Unmarshal(text, &v1), apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil)); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

func TestQPS(t *testing.T) {
	for flag, want := range map[string]float32{"--workers=1": 500, "--kube-api-qps=0": -1, "--kube-api-qps=-1": -1, "--kube-api-qps=0.5": 0.5} {
		if o, err := Parse([]string{flag}); err != nil || o.QPS() != want {
			t.Errorf("%s: got %v, %v, want %g", flag, o, err, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--binder=Direct"}, `invalid value "Direct" for flag -binder: it can be auto, gate or direct`},
		{[]string{"--jobset=ours"}, `invalid value "ours" for flag -jobset: it can be embedded or external`},
		{[]string{"--matcher=best"}, `invalid value "best" for flag -matcher: it can be embedded or fluxion`},
		{[]string{"--kube-api-qps=NaN"}, `invalid value "NaN" for flag -kube-api-qps: it has to be a number of at least -1`},
		{[]string{"--default-ttl=-1s"}, `invalid value "-1s" for flag -default-ttl: it has to be a duration that is not negative, such as 90s, 10m or 24h`},
		{[]string{"--max-brokers=-1"}, `invalid value "-1" for flag -max-brokers: it has to be a whole number of at least 0`},
		{[]string{"--leader-elect=maybe"}, `invalid boolean value "maybe" for -leader-elect: it can be true or false`},
		{[]string{"--leader-elect", "false"}, `unexpected argument "false": a flag and its value are one argument, as in --flag=value`},
		{[]string{"--metrics-cert-dir=/certs"}, "--metrics-cert-dir needs --metrics-secure: without TLS no certificate is used"},
		{[]string{"--dashboard-insecure-viewer"}, "--dashboard-insecure-viewer needs --dashboard-bind-address"},
		{[]string{"--pprof-bind-address=:6060"}, "--pprof-bind-address=:6060 has to be a loopback address and a port, such as 127.0.0.1:6060: who reads profiles reads memory"},
		{[]string{"--pprof-bind-address=10.0.0.1:6060"}, "--pprof-bind-address=10.0.0.1:6060 has to be a loopback address and a port, such as 127.0.0.1:6060: who reads profiles reads memory"},
		{[]string{"--config=/nowhere"}, "--config: open /nowhere: no such file or directory"},
		{[]string{"--workerz=1"}, "flag provided but not defined: -workerz"},
	} {
		if _, err := Parse(tc.args); err == nil || err.Error() != tc.want {
			t.Errorf("%v: got %v, want %s", tc.args, err, tc.want)
		}
	}
	if _, err := Parse([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: got %v", err)
	}
	if o, err := Parse([]string{"--version", "--config=/nowhere"}); err != nil || !o.Version {
		t.Errorf("--version: got %+v, %v", o, err)
	}
}
