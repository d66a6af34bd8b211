// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Kueue's configuration file is the one that Kueue ships, with the changes of the cluster and of the caller.
func TestKueueConfiguration(t *testing.T) {
	sources := t.TempDir()
	shipped := filepath.Join(sources, "config", "components", "manager", "controller_manager_config.yaml")
	if err := os.MkdirAll(filepath.Dir(shipped), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `
kind: Configuration
leaderElection: {leaderElect: true, resourceName: kueue}
integrations: {frameworks: [batch/job, ray.io/rayjob, pod], labelKeysToCopy: [team]}
clientConnection: {qps: 300, burst: 500}
`
	if err := os.WriteFile(shipped, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kueue{Cluster: &Cluster{Port: 7000}, dir: "/keys", sources: sources}
	data, err := k.configuration(KueueConfig{Configuration: `
integrations: {frameworks: [pod]}
waitForPodsReady: {timeout: 1m}
clientConnection: {burst: null}
`})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"kind":             "Configuration",
		"namespace":        "kueue-system",
		"leaderElection":   map[string]any{"leaderElect": false, "resourceName": "kueue"},
		"integrations":     map[string]any{"frameworks": []any{"pod"}, "labelKeysToCopy": []any{"team"}},
		"clientConnection": map[string]any{"qps": 300.},
		"waitForPodsReady": map[string]any{"timeout": "1m"},
		"health":           map[string]any{"healthProbeBindAddress": "127.0.0.1:7010"},
		"webhook":          map[string]any{"host": "127.0.0.1", "port": 7009., "certDir": "/keys"},
		"metrics":          map[string]any{"bindAddress": "0"},
		"visibilityServer": map[string]any{"bindAddress": "127.0.0.1", "bindPort": 7011.},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := k.configuration(KueueConfig{Configuration: "a: 1\na: 2\n"}); err == nil {
		t.Error("a configuration with a key twice is taken")
	}
}

// Kueue makes keys of its own in place of those that lack what it looks for: names, and a key in PKCS #1.
func TestKueueKeys(t *testing.T) {
	k := &kueue{dir: t.TempDir()}
	ca, err := k.makeKeys()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	later := time.Now().AddDate(0, 6, 0)
	for pair, names := range map[string][]string{"ca": {"kueue-ca"}, "tls": {"kueue-webhook-service.kueue-system.svc", "127.0.0.1"}} {
		keys, err := tls.LoadX509KeyPair(filepath.Join(k.dir, pair+".crt"), filepath.Join(k.dir, pair+".key"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := keys.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: later}); err != nil {
				t.Errorf("%s is not valid for %s: %v", pair, name, err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(k.dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		t.Error(err)
	}
}
