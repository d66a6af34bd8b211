// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// newDir returns the directory of a cluster that has no processes yet.
func newDir(t *testing.T) string {
	t.Helper()
	c := &Cluster{Dir: t.TempDir(), Port: 1}
	if err := c.makeDirs(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Down(t.Context(), c.Dir) })
	return c.Dir
}

func writeScript(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Started processes are found again by their records, and have ended after Down.
func TestProcessesEnd(t *testing.T) {
	dir := newDir(t)
	for _, name := range []string{"first", "second"} {
		if _, err := start(dir, name, "/bin/sleep", "1000"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := start(dir, "first", "/bin/sleep", "1000"); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Errorf("started twice: %v", err)
	}
	running, err := processes(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"first", "second"} {
		if p := running[i]; p.Name != name || !p.alive() {
			t.Errorf("process %d is %+v, alive: %v", i, p, p.alive())
		}
	}
	if err := Down(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range running {
		if p.alive() {
			t.Errorf("%s is alive", p.Name)
		}
	}
	if again, err := processes(dir); err != nil || len(again) > 0 {
		t.Errorf("records are left: %v, %v", again, err)
	}
	if err := Down(t.Context(), dir); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
}

// Down does not end another process that has the PID of a recorded one.
func TestOthersProcessesAreLeftAlone(t *testing.T) {
	dir := newDir(t)
	other, err := start(dir, "other", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	record := process{Name: "ours", PID: other.PID, Born: "long ago"}
	if record.alive() {
		t.Error("it is taken for ours")
	}
	if err := record.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !other.alive() {
		t.Error("another's process was ended")
	}
	if (&process{Name: "never", PID: os.Getpid()}).alive() {
		t.Error("a record without a time of birth is taken for a process")
	}
}

// The error of a program that ends at once has the end of its log.
func TestLastWords(t *testing.T) {
	dir := newDir(t)
	program := writeScript(t, filepath.Join(dir, "program"), "echo no such flag >&2; exit 1\n")
	p, err := start(dir, "program", program)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Dir: dir}
	err = c.await(t.Context(), "the program", func() (bool, error) { return false, nil }, p)
	if err == nil || !strings.Contains(err.Error(), "program ended") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("the error is %v", err)
	}
}

func TestOpenFindsNothing(t *testing.T) {
	for _, dir := range []string{newDir(t), filepath.Join(t.TempDir(), "none")} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "no cluster runs in "+dir) {
			t.Errorf("error %v", err)
		}
	}
}

func TestChoosePorts(t *testing.T) {
	free, err := choosePorts(0)
	if err != nil {
		t.Fatal(err)
	}
	others := map[int]bool{free: true}
	for range 50 { // as many as a suite starts
		other, err := choosePorts(0)
		if err != nil || others[other] {
			t.Errorf("ports from %d on were chosen twice, or not at all: %v", other, err)
		}
		others[other] = true
	}
	busy := free + portEtcd
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", busy))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := choosePorts(free); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d of 127.0.0.1 is in use", busy)) {
		t.Errorf("error %v", err)
	}
}

// buildLog is a BuildProgress that keeps the names of compiled packages.
type buildLog []string

func (b *buildLog) Step(int, int, string) {}
func (b *buildLog) Package(name string)   { *b = append(*b, name) }
func (b *buildLog) Done(string)           {}

func TestReadPackages(t *testing.T) {
	var packages buildLog
	complaints := readPackages(strings.NewReader(`go: downloading k8s.io/api v0.37.2
k8s.io/api/core/v1
internal/race
# k8s.io/broken
broken.go:3:4: undefined: x
`), &packages)
	if want := []string{"downloading k8s.io/api v0.37.2", "k8s.io/api/core/v1", "internal/race"}; !slices.Equal(packages, want) {
		t.Errorf("packages %q", packages)
	}
	if want := "# k8s.io/broken\nbroken.go:3:4: undefined: x\n"; complaints != want {
		t.Errorf("complaints %q", complaints)
	}
}

// Binaries of the cache are used first, and then binaries on the machine that have the right version.
// Other binaries are missing.
func TestFindBinaries(t *testing.T) {
	module, assets, onPath := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	t.Setenv("PATH", onPath+":/bin:/usr/bin")
	cache, err := component{}.cacheDir(module)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	want := Binaries{
		"etcd":           writeScript(t, filepath.Join(cache, "etcd"), ""),
		"kube-apiserver": writeScript(t, filepath.Join(assets, "kube-apiserver"), "echo Kubernetes v1.37.9\n"),
		"kwok":           writeScript(t, filepath.Join(onPath, "kwok"), "echo kwok version v0.8.1 go1.26\n"),
	}
	writeScript(t, filepath.Join(assets, "etcd"), "echo etcd Version: 3.7.9\n")
	writeScript(t, filepath.Join(assets, "kube-scheduler"), "echo Kubernetes v1.36.9\n")
	writeScript(t, filepath.Join(onPath, "kubectl"), "echo Client Version: v1.37.2\n")
	found, missing, err := FindBinaries(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range want {
		if found[name] != path {
			t.Errorf("%s is %q, want %s", name, found[name], path)
		}
	}
	if want := []string{"kube-controller-manager", "kube-scheduler", "kubectl"}; !slices.Equal(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
	// Kueue has a module of its own, and is missing only where the cluster is to have Kueue.
	nested := t.TempDir()
	if err := errors.Join(os.CopyFS(nested, os.DirFS(module)), os.CopyFS(filepath.Join(module, "kueue"), os.DirFS(nested))); err != nil {
		t.Fatal(err)
	}
	if _, missing, err := FindBinaries(t.Context(), module, Kueue); err != nil || !slices.Contains(missing, "kueue") {
		t.Errorf("missing %q, %v", missing, err)
	}
	// Other versions have another directory.
	if err := os.WriteFile(filepath.Join(module, "go.sum"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := (component{}).cacheDir(module); err != nil || other == cache {
		t.Errorf("the cache of other versions is %s, %v", other, err)
	}
}

// The cluster's own authority has signed the API server's certificate, which is valid for the server's
// addresses.
func TestCredentials(t *testing.T) {
	keys, err := makeCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(keys.certFile, keys.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(keys.ca) {
		t.Fatal("the authority's certificate cannot be read")
	}
	for _, name := range []string{"127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: pair.Leaf.NotBefore.Add(time.Hour)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	tokens, err := os.ReadFile(keys.tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(tokens), keys.token+",admin,admin,") || len(keys.token) != 32 {
		t.Errorf("tokens %q", tokens)
	}
	for _, path := range []string{keys.keyFile, keys.serviceAccountKeyFile, keys.tokenFile} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestNodeConfig(t *testing.T) {
	capacity, err := NodeConfig{Count: 1, CPU: "8", Memory: "32Gi", Pods: 110}.capacity()
	if err != nil || capacity.Cpu().Value() != 8 || capacity.Pods().Value() != 110 {
		t.Errorf("capacity %v, %v", capacity, err)
	}
	if _, err := (NodeConfig{CPU: "eight", Memory: "1Gi"}).capacity(); err == nil || !strings.Contains(err.Error(), `cpu of a node, "eight"`) {
		t.Errorf("error %v", err)
	}
}

// A killed process has given its port back, also if it has many threads: the next one of its name can listen at once.
func TestKilledGivesPortBack(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	t.Setenv(threaded, address)
	dir := newDir(t)
	for range 20 {
		p, err := start(dir, "server", os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := waitFor(t.Context(), startTimeout, func() (bool, error) { return accepts(address), nil }); err != nil {
			t.Fatal(err)
		}
		if err := p.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
	}
}

// threaded is the environment variable that makes this program a server with many threads, at an address.
const threaded = "THREADED_SERVER"

func TestMain(m *testing.M) {
	if address := os.Getenv(threaded); address != "" {
		panic(serve(address))
	}
	os.Exit(m.Run())
}

func serve(address string) error {
	for range 500 {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	listener, err := net.Listen("tcp", address)
	for err == nil {
		_, err = listener.Accept()
	}
	return err
}
