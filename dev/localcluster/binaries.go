// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// component is one program of the control plane, or of real nodes.
type component struct {
	name string // of the binary
	pkg  string // Go package of its main function
	// version is the beginning of a line of `<name> --version` by which a binary
	// that is already on the machine is known to match.
	version string
	// module is the directory of the module that pins it, seen from the control
	// plane's, where it has one of its own.
	module string
	real   bool // only real nodes need it
}

// components in the order in which they are built: the API server compiles most
// of what the others share.
var components = []component{
	{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", version: "Kubernetes v1.36."},
	{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", version: "Kubernetes v1.36."},
	{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler", version: "Kubernetes v1.36."},
	{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", version: "etcd Version: 3.7."},
	{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", version: "kwok version v0.8."},
	{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", version: "Kubernetes v1.36.", real: true},
	{name: "coredns", pkg: ".", module: "coredns", real: true},
}

// Binaries are the paths of the control plane's programs, by name.
type Binaries map[string]string

// BuildProgress is told how building goes on.
type BuildProgress interface {
	// Step begins building `name`, number `step` of `steps`.
	Step(step, steps int, name string)
	// Package is told of every package that is compiled.
	Package(name string)
	// Done ends the step.
	Done(name string)
}

// Mode says what nodes a cluster has.
type Mode string

// The modes.
const (
	Simulated Mode = "simulated" // nodes that kwok keeps
	Real      Mode = "real"      // kubelets
	Kind      Mode = "kind"      // a cluster of kind's, which has a control plane of its own
)

// FindBinaries returns the control plane's programs, and those of nodes of the given
// modes: those in the directory of KUBEBUILDER_ASSETS or on the PATH that
// have the right version, and else those in the cache. What is missing is listed.
func FindBinaries(ctx context.Context, moduleDir string, modes ...Mode) (found Binaries, missing []string, err error) {
	found = Binaries{}
	for _, c := range components {
		if c.real && !slices.Contains(modes, Real) {
			continue
		}
		cache, err := cacheDir(c.moduleDir(moduleDir))
		if err != nil {
			return nil, nil, err
		}
		switch path := c.find(ctx, cache); path {
		case "":
			missing = append(missing, c.name)
		default:
			found[c.name] = path
		}
	}
	return found, missing, nil
}

// EnsureBinaries is FindBinaries, and builds what is missing. It needs the go
// command. Building from nothing takes some minutes.
func EnsureBinaries(ctx context.Context, moduleDir string, progress BuildProgress, modes ...Mode) (Binaries, error) {
	found, missing, err := FindBinaries(ctx, moduleDir, modes...)
	if err != nil {
		return nil, err
	}
	ldflags := ""
	for i, name := range missing {
		c := componentOf(name)
		if ldflags == "" {
			if ldflags, err = versionFlags(ctx, moduleDir); err != nil {
				return nil, err
			}
		}
		cache, err := cacheDir(c.moduleDir(moduleDir))
		if err != nil {
			return nil, err
		}
		progress.Step(i+1, len(missing), name)
		if err := c.build(ctx, c.moduleDir(moduleDir), cache, ldflags, progress); err != nil {
			return nil, fmt.Errorf("building %s: %w", name, err)
		}
		progress.Done(name)
		found[name] = filepath.Join(cache, name)
	}
	return found, nil
}

func componentOf(name string) component {
	for _, c := range components {
		if c.name == name {
			return c
		}
	}
	return component{}
}

// moduleDir is the directory of its module, given the control plane's.
func (c component) moduleDir(controlPlane string) string {
	return filepath.Join(controlPlane, c.module)
}

// find returns the path of a matching binary, or "".
func (c component) find(ctx context.Context, cache string) string {
	if path := filepath.Join(cache, c.name); isFile(path) {
		return path
	}
	if c.version == "" { // no other build will do
		return ""
	}
	candidates := []string{}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		candidates = append(candidates, filepath.Join(assets, c.name))
	}
	if path, err := exec.LookPath(c.name); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err == nil && strings.HasPrefix(string(out), c.version) {
			return path
		}
	}
	return ""
}

// build compiles into the cache. The binary appears whole or not at all, so that
// two builds at once do no harm.
func (c component) build(ctx context.Context, moduleDir, cache, ldflags string, progress BuildProgress) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, "."+c.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	out := filepath.Join(tmp, c.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-ldflags", ldflags, "-o", out, c.pkg)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	// Interrupted, the go command ends the compilers it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	complaints := readPackages(stderr, progress)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, complaints)
	}
	return os.Rename(out, filepath.Join(cache, c.name))
}

// readPackages reports each line of `go build -v` that names a package, and
// returns the others.
func readPackages(r io.Reader, progress BuildProgress) (complaints string) {
	var other strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			progress.Package(strings.TrimPrefix(line, "go: "))
		case strings.ContainsAny(line, " :"):
			other.WriteString(line + "\n")
		default:
			progress.Package(line)
		}
	}
	return other.String()
}

// versionFlags makes Kubernetes' programs say their version; built plainly they
// call themselves v0.0.0-master, which others refuse to talk to.
func versionFlags(ctx context.Context, moduleDir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of Kubernetes: %w", withStderr(err))
	}
	version := strings.TrimSpace(string(out))
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const pkg = "k8s.io/component-base/version."
	return fmt.Sprintf("-s -w -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s",
		pkg, version, pkg, major, pkg, minor), nil
}

// cacheDir is where the binaries of one set of versions are kept. Whatever
// changes a version changes go.sum, and with it the directory.
func cacheDir(moduleDir string) (string, error) {
	base, err := CacheDir()
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(moduleDir, "*.go"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, path := range append([]string{filepath.Join(moduleDir, "go.mod"), filepath.Join(moduleDir, "go.sum")}, sources...) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the versions of the control plane: %w", err)
		}
		hash.Write(data)
	}
	key := hex.EncodeToString(hash.Sum(nil))[:12]
	return filepath.Join(base, "controlplane", runtime.GOOS+"-"+runtime.GOARCH+"-"+key), nil
}

// CacheDir is where what takes long to make is kept.
func CacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding a cache directory: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "flux-elastic"), nil
}

// Root finds the checkout that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !isFile(filepath.Join(ModuleDir(dir), "go.mod")) {
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no hack/controlplane here or above: run this inside a checkout of flux-elastic")
		}
		dir = parent
	}
	return dir, nil
}

// ModuleDir is the directory of the nested module in a checkout.
func ModuleDir(root string) string { return filepath.Join(root, "hack", "controlplane") }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// withStderr adds what a command printed to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
