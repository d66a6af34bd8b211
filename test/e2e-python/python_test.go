// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2epython

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

// user returns a kubeconfig of somebody who may edit one namespace.
func user(t *testing.T, s *harness.Site) (path string) {
	t.Helper()
	s.Kubectl("create", "serviceaccount", "user")
	s.Kubectl("create", "rolebinding", "user", "--clusterrole=edit", "--serviceaccount="+s.Namespace+":user")
	token := strings.TrimSpace(s.Kubectl("create", "token", "user", "--duration=2h"))
	config, err := clientcmd.LoadFromFile(s.Cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Contexts {
		c.Namespace = s.Namespace
		config.AuthInfos = map[string]*clientcmdapi.AuthInfo{c.AuthInfo: {Token: token}}
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// python runs a program or a module of the checkout as a user of a new namespace, in which it leaves nothing.
func python(t *testing.T, args ...string) string {
	t.Helper()
	t.Parallel()
	s := env.cluster.NewSite(t, 0)
	t.Cleanup(s.Close)
	cmd := exec.Command(cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3"), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+user(t, s), "PYTHONPATH="+filepath.Join(env.Root, "sdk", "python"), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Describe("miniclusters")
		s.Clear()
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	harness.Eventually(t, s.NothingLeft)
	return string(out)
}

// A script for the Flux Operator's client runs after a change of its import: it submits 100 MiniClusters in parallel
// processes, collects their logs and times, and leaves nothing.
func TestFluxOperatorScript(t *testing.T) {
	out := python(t, filepath.Join(env.Root, "sdk", "python", "e2e", "hundred.py"), "100")
	for _, want := range []string{"100 MiniClusters", "100 logs that end with: " + lastLine, "100 times of create and delete"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

// The client itself, on a real API server.
func TestClient(t *testing.T) {
	python(t, "-m", "pytest", "-q", "-p", "no:cacheprovider", filepath.Join(env.Root, "sdk", "python", "e2e"))
}

// The study in examples/python, with 200 runs, makes a plot.
func TestScalingStudy(t *testing.T) {
	out := python(t, filepath.Join(env.Root, "examples", "python", "scaling.py"), "--simulated=1", "--repeats=40", "--max-active=32")
	for _, want := range []string{"200 runs, 200 succeeded", " 16 nodes: median ", "drawn in scaling.svg"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}
