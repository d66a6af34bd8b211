// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

// Package e2ereal runs MiniClusters on real nodes, and does to these what happens to
// nodes. It needs root, and what else localcluster.CheckReal tells: see docs/testing.md.
package e2ereal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/localcluster/image"
)

// patience is how long anything may take. A MiniCluster behind nineteen others in the queue has taken eight minutes.
const patience = 20 * time.Minute

// env is what all tests share.
var env struct {
	root     string // of the checkout
	dir      string // of what is made here
	binaries localcluster.Binaries
	images   []string // archives
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-real:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := localcluster.CheckReal(image.Commands); err != nil {
		return 1, err
	}
	if env.root, err = localcluster.Root(); err != nil {
		return 1, err
	}
	ctx := context.Background()
	var missing []string
	env.binaries, missing, err = localcluster.FindBinaries(ctx, localcluster.ModuleDir(env.root), localcluster.RealNodes)
	if err != nil {
		return 1, err
	}
	if len(missing) > 0 {
		return 1, fmt.Errorf("%v have to be built first: run `make e2e-real`, or `bin/localcluster build --mode=real`", missing)
	}
	if env.dir, err = os.MkdirTemp("", "flux-elastic-e2e-real-"); err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 && err == nil {
			err = os.RemoveAll(env.dir)
		} else {
			fmt.Fprintln(os.Stderr, "e2e-real: logs are in", env.dir)
		}
	}()
	build := exec.Command("go", "build", "-o", filepath.Join(env.dir, "bin")+"/", "./cmd/...")
	build.Dir = env.root
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building: %w\n%s", err, out)
	}
	cache, err := localcluster.CacheDir()
	if err != nil {
		return 1, err
	}
	if env.images, err = image.Build(ctx, env.root, cache, env.dir, true); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// cluster is one with real nodes.
type cluster struct {
	*testing.T
	*localcluster.Cluster
	dir    string
	client client.Client          // where there is a manager
	pods   typedcorev1.PodsGetter // and there
}

// newCluster is one that is not up yet. It ends with the test.
func newCluster(t *testing.T, name string) *cluster {
	t.Helper()
	c := &cluster{T: t, dir: filepath.Join(env.dir, t.Name()+name)}
	t.Cleanup(func() {
		if err := localcluster.Down(context.Background(), c.dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// up starts a cluster, which ends with the test.
func up(t *testing.T, nodes int, families ...corev1.IPFamily) *cluster {
	t.Helper()
	c := newCluster(t, "")
	c.up(nodes, families...)
	if t.Failed() {
		t.FailNow()
	}
	return c
}

// up starts the cluster, in whatever goroutine.
func (c *cluster) up(nodes int, families ...corev1.IPFamily) {
	c.Helper()
	config := localcluster.Config{
		Dir:  c.dir,
		Real: localcluster.RealConfig{Count: nodes, Images: env.images, Families: families}, LogDenied: true,
	}
	var err error
	if c.Cluster, err = localcluster.Up(c.Context(), config, env.binaries, func(line string) { c.Log(line) }); err != nil {
		c.Error(err)
	}
}

// in is the cluster for a part of the test.
func (c *cluster) in(t *testing.T) *cluster {
	t.Helper()
	in := *c
	in.T = t
	return &in
}

// kubectl runs the command and returns what it prints.
func (c *cluster) kubectl(args ...string) (string, error) {
	return c.kubectlIn(c.Context(), args...)
}

func (c *cluster) kubectlIn(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, env.binaries["kubectl"], append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// must is kubectl where nothing may go wrong.
func (c *cluster) must(args ...string) string {
	c.Helper()
	out, err := c.kubectl(args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// apply applies a manifest.
func (c *cluster) apply(text string) {
	c.Helper()
	path := filepath.Join(c.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	c.must("apply", "--filename="+path)
}

// eventually waits until something is so; until then it says what is not.
func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	if err := poll(t.Context(), is); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func poll(ctx context.Context, is func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = is()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}
