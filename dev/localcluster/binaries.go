// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"cmp"
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
	// version is the prefix of the output of `<name> --version` that a matching binary on
	// the machine has. With "", only a binary of the cache is used.
	version string
	// module is the directory of the component's own module, relative to the control plane's
	// module; "" if it has none.
	module string
	// variable is a linker flag (-X) that sets a string variable; "" if there is none.
	variable string
	part     Part // the only part of a cluster that needs this component; "" if every cluster needs it
}

// Part is a part that some clusters have.
type Part string

// The parts.
const (
	RealNodes Part = "real nodes"
	Kueue     Part = "Kueue"
	Karpenter Part = "Karpenter"
	// Coscheduling and Volcano are schedulers for comparison.
	Coscheduling Part = "Coscheduling"
	Volcano      Part = "Volcano"
)

// defaultMinor is the minor version of Kubernetes in the control plane's module.
const defaultMinor = "1.37"

// Minor is the minor version of Kubernetes that the control plane has. The environment variable KUBERNETES selects
// another one, which has a module of its own: v<minor>.
var Minor = cmp.Or(os.Getenv("KUBERNETES"), defaultMinor)

// kubernetesModule is the module of the components of Kubernetes, if it is not that of the others.
func kubernetesModule() string {
	if Minor == defaultMinor {
		return ""
	}
	return "v" + Minor
}

// components are in the order in which they are built. The API server is first: its build compiles
// most packages that the others share.
var components = []component{
	{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", version: "Kubernetes v" + Minor + ".", module: kubernetesModule()},
	{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", version: "Kubernetes v" + Minor + ".", module: kubernetesModule()},
	{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler", version: "Kubernetes v" + Minor + ".", module: kubernetesModule()},
	{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", version: "etcd Version: 3.7."},
	{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", version: "kwok version v0.8."},
	{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", version: "Kubernetes v" + defaultMinor + ".", part: RealNodes},
	{name: "coredns", pkg: ".", module: "coredns", part: RealNodes},
	// Kueue's visibility server would write its certificate into /visibility. Without a directory, it
	// has the certificate in memory.
	{name: kueueName, pkg: "sigs.k8s.io/kueue/cmd/kueue", module: "kueue", variable: "sigs.k8s.io/kueue/pkg/visibility.certDir=", part: Kueue},
	{name: KarpenterName, pkg: "sigs.k8s.io/karpenter/kwok", module: "karpenter", part: Karpenter},
	{name: "coscheduling", pkg: "sigs.k8s.io/scheduler-plugins/cmd/scheduler", module: "../peers/coscheduling", part: Coscheduling},
	{name: "volcano-scheduler", pkg: "volcano.sh/volcano/cmd/scheduler", module: "../peers/volcano", part: Volcano},
}

// toolchain lets the go command fetch a newer Go as a module, if the module of a component asks for one.
const toolchain = "GOTOOLCHAIN=auto"

// Binaries are the paths of the control plane's programs, by name.
type Binaries map[string]string

// BuildProgress reports the progress of builds.
type BuildProgress interface {
	// Step reports that the build of `name` begins, number `step` of `steps`.
	Step(step, steps int, name string)
	// Package reports a package that is compiled.
	Package(name string)
	// Done reports that the build of `name` has ended.
	Done(name string)
}

// Mode says what nodes a cluster has.
type Mode string

// The modes.
const (
	Simulated Mode = "simulated" // kwok simulates the nodes
	Real      Mode = "real"      // the nodes are kubelets
	Kind      Mode = "kind"      // kind makes the cluster, with its own control plane
)

// FindBinaries returns the programs of the control plane, and of the given parts. It takes
// programs of the cache first. Then it takes programs in the directory of KUBEBUILDER_ASSETS or on
// the PATH that have the right version. It also returns the names of programs that are missing.
func FindBinaries(ctx context.Context, moduleDir string, parts ...Part) (found Binaries, missing []string, err error) {
	found = Binaries{}
	for _, c := range components {
		if c.part != "" && !slices.Contains(parts, c.part) {
			continue
		}
		cache, err := c.cacheDir(moduleDir)
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

// EnsureBinaries is like FindBinaries, and builds missing programs. It needs the go command. The
// first build takes some minutes.
func EnsureBinaries(ctx context.Context, moduleDir string, progress BuildProgress, parts ...Part) (Binaries, error) {
	found, missing, err := FindBinaries(ctx, moduleDir, parts...)
	if err != nil {
		return nil, err
	}
	for i, name := range missing {
		c := componentOf(name)
		ldflags, err := versionFlags(ctx, c.kubernetesDir(moduleDir))
		if err != nil {
			return nil, err
		}
		cache, err := c.cacheDir(moduleDir)
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

// moduleDir returns the directory of the component's module, given that of the control plane.
func (c component) moduleDir(controlPlane string) string {
	return filepath.Join(controlPlane, c.module)
}

// kubernetesDir returns the directory of the module whose version of Kubernetes the component tells as its own.
func (c component) kubernetesDir(controlPlane string) string {
	if c.module == kubernetesModule() {
		return c.moduleDir(controlPlane)
	}
	return controlPlane
}

// find returns the path of a matching binary, or "".
func (c component) find(ctx context.Context, cache string) string {
	if path := filepath.Join(cache, c.name); isFile(path) {
		return path
	}
	if c.version == "" { // other builds cannot be checked
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

// build compiles the component into the cache. The binary appears in one step, so that two builds
// at once do no harm.
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
	if c.variable != "" {
		ldflags += " -X " + c.variable
	}
	// These are the flags of `make build`, so that packages that the programs of this repository have, too, are compiled
	// once: a third of the API server. For that, both modules have the same versions of what these packages import.
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", ldflags, "-o", out, c.pkg)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", toolchain)
	// On an interrupt, the go command ends the compilers that it has started.
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

// readPackages reports each line of `go build -v` that names a package, and returns the other lines.
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

// versionFlags returns linker flags that set the version of Kubernetes' programs. Without them the
// version is v0.0.0-master, which other programs refuse.
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

// cacheDir returns the directory of the component's binary of one version. A change of a version
// changes go.sum, and so the directory.
func (c component) cacheDir(controlPlane string) (string, error) {
	moduleDir := c.moduleDir(controlPlane)
	base, err := CacheDir()
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(moduleDir, "*.go"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write([]byte(c.variable))
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

// CacheDir returns the user's cache directory for this project.
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

// ModuleDir returns the directory of the nested module hack/controlplane in a checkout.
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
