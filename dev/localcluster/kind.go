// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// UpKind makes a cluster with kind and a number of workers. It writes the kubeconfig into the
// directory. It needs the commands kind and docker.
func UpKind(ctx context.Context, dir string, workers int) (kubeconfig string, err error) {
	if err := checkKind(); err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if exists(kindFile(dir)) {
		return "", fmt.Errorf("a kind cluster is already running in %s", dir)
	}
	if running, err := Open(dir); err == nil {
		return "", fmt.Errorf("a cluster runs in %s already, on port %d", dir, running.Port)
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "config", "kind.yaml")
	text := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n" + strings.Repeat("- role: worker\n", workers)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return "", err
	}
	name := networkOf(dir, 0).Name
	if err := os.WriteFile(kindFile(dir), []byte(name), 0o644); err != nil { // before the cluster exists, so that Down finds it
		return "", err
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := command(ctx, "kind", "create", "cluster", "--name="+name, "--config="+config, "--kubeconfig="+kubeconfig, "--wait=3m"); err != nil {
		return "", errors.Join(err, downKind(context.WithoutCancel(ctx), dir))
	}
	return kubeconfig, nil
}

// checkKind returns an error that lists all missing commands.
func checkKind() error {
	var missing []string
	for name, where := range map[string]string{"kind": "https://kind.sigs.k8s.io", "docker": "https://docs.docker.com/engine/install"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+" ("+where+")")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("MODE=kind needs %s", strings.Join(missing, ", "))
	}
	return nil
}

func kindFile(dir string) string { return filepath.Join(dir, "kind") }

// downKind deletes the cluster that UpKind made for a directory, if there is one.
func downKind(ctx context.Context, dir string) error {
	name, err := os.ReadFile(kindFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := command(ctx, "kind", "delete", "cluster", "--name="+string(name)); err != nil {
		return err
	}
	return os.Remove(kindFile(dir))
}

// RESTConfig returns the administrator's configuration of the cluster in a directory, for all modes.
// It has no rate limit.
func RESTConfig(dir string) (*rest.Config, error) {
	if !exists(kindFile(dir)) {
		c, err := Open(dir)
		if err != nil {
			return nil, err
		}
		return c.RESTConfig()
	}
	return readKubeconfig(filepath.Join(dir, "kubeconfig"))
}

func readKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
