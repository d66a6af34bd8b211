// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The images.
const (
	// Pause holds the namespaces of pods.
	Pause = "docker.io/flux-elastic/pause:latest"
	// Manager is the manager of flux-elastic, as a release has it and config deploys it.
	Manager = "docker.io/library/flux-elastic:latest"
	// App is a small Debian, for an application without Flux.
	App = "docker.io/flux-elastic/app:latest"
	// Test is App with the test double of Flux. It can be the image of a MiniCluster without a
	// view (flux.container.disable), and the view image of any other MiniCluster.
	Test = "docker.io/flux-elastic/test:latest"
	// MPI is a Debian with MPICH and the program halo. It has the Flux of FLUX_ROOT (default
	// /opt/flux), or the test double if there is no Flux. It is large.
	MPI = "docker.io/flux-elastic/mpi:latest"
)

// Commands are the programs that Build needs besides Go, with their Debian packages.
var Commands = map[string]string{"mmdebstrap": "mmdebstrap"}

// maker makes images.
type maker struct {
	context.Context
	checkout string
	cache    string // the directory of files that later builds use again
	work     string // the directory of temporary files
}

// Build makes the images, MPI only if mpi is true, and writes them into archives in a directory. It
// keeps the layers of Debian in the cache directory.
func Build(ctx context.Context, checkout, cache, dir string, mpi bool) (archives []string, err error) {
	work, err := os.MkdirTemp("", "flux-elastic-images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	m := &maker{Context: ctx, checkout: checkout, cache: filepath.Join(cache, "images"), work: work}
	if err := os.MkdirAll(m.cache, 0o755); err != nil {
		return nil, err
	}
	manager, err := m.manager(dir)
	if err != nil {
		return nil, fmt.Errorf("making the image %s: %w", Manager, err)
	}
	images, err := m.others(mpi)
	if err != nil {
		return nil, err
	}
	archive := filepath.Join(dir, "images.tar")
	return []string{archive, manager}, WriteArchive(archive, images)
}

// manager makes the archive of the image Manager, by the program that makes releases. Its dependencies
// are in a module of their own.
func (m *maker) manager(dir string) (archive string, err error) {
	repository, tag, _ := strings.Cut(Manager, ":")
	cmd := exec.CommandContext(m, "go", "run", ".", "image", "--image="+repository, "--version="+tag, "--platforms=linux/"+runtime.GOARCH, "--out="+dir)
	cmd.Dir = filepath.Join(m.checkout, "hack", "release")
	cmd.Env = append(os.Environ(), "GOFLAGS=") // without GOFLAGS=-race, which needs a C compiler
	return filepath.Join(dir, "flux-elastic-image.tar"), run(cmd)
}

// others makes all images but Manager.
func (m *maker) others(mpi bool) ([]Image, error) {
	pause, err := m.pause()
	if err != nil {
		return nil, fmt.Errorf("making the image %s: %w", Pause, err)
	}
	debian, err := m.debian()
	if err != nil {
		return nil, fmt.Errorf("making a root of Debian: %w", err)
	}
	double, err := m.double()
	if err != nil {
		return nil, fmt.Errorf("making the image %s: %w", Test, err)
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	shell := []string{"/bin/bash"}
	images := []Image{
		{Name: Pause, Layers: []string{pause}, Entrypoint: []string{"/pause"}},
		{Name: App, Layers: []string{debian}, Entrypoint: shell, Env: env},
		{Name: Test, Layers: []string{debian, double}, Entrypoint: shell, Env: env},
	}
	if mpi {
		image, err := m.mpi(double)
		if err != nil {
			return nil, fmt.Errorf("making the image %s: %w", MPI, err)
		}
		images = append(images, *image)
	}
	return images, nil
}

// pause makes the only layer of the image Pause.
func (m *maker) pause() (layer string, err error) {
	path, err := m.build("pause", "./hack/images/pause")
	if err != nil {
		return "", err
	}
	return m.layer("pause", []Entry{{Path: "pause", Source: path}})
}

// double makes a layer with the test double of Flux. The double is on the path, and in a view like
// that of Spack, which has links into /opt/software.
func (m *maker) double() (layer string, err error) {
	program, err := m.build("flux", "./test/fakeflux")
	if err != nil {
		return "", err
	}
	const software, view = "opt/software/linux/fakeflux", "opt/views/._view/fakeflux"
	return m.layer("double", []Entry{
		{Path: "usr/bin/flux", Source: program},
		{Path: "opt"}, {Path: "opt/software"}, {Path: "opt/software/linux"}, {Path: software}, {Path: software + "/bin"},
		{Path: software + "/bin/flux", Source: program},
		{Path: "opt/views"}, {Path: "opt/views/._view"}, {Path: view}, {Path: view + "/bin"}, {Path: view + "/lib"},
		{Path: view + "/bin/flux", Link: "/" + software + "/bin/flux"},
		{Path: "opt/views/view", Link: "/" + view},
		{Path: "opt/view", Link: "/opt/views/view"},
	})
}

// build compiles a program of the checkout.
func (m *maker) build(name, pkg string) (path string, err error) {
	path = filepath.Join(m.work, name)
	cmd := exec.CommandContext(m, "go", "build", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir = m.checkout
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false") // without GOFLAGS=-race, which would link the C library
	return path, run(cmd)
}

func (m *maker) layer(name string, entries []Entry) (path string, err error) {
	path = filepath.Join(m.work, name+".tar")
	return path, WriteLayer(path, entries)
}

// unwanted are files of Debian that containers do not need.
var unwanted = []string{"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"}

// debian makes a layer with Debian's essential packages and other packages. It has the release of this
// machine, so that programs built on this machine run in the image.
func (m *maker) debian(packages ...string) (layer string, err error) {
	slices.Sort(packages)
	args := []string{"--variant=essential"}
	if len(packages) > 0 {
		args = append(args, "--include="+strings.Join(packages, ","))
	}
	for _, path := range unwanted {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	// Perl is needed only to set up the packages.
	args = append(args, `--customize-hook=rm -r "$1"/usr/share/perl "$1"/usr/lib/*/perl`, debianRelease("/etc/os-release"))
	return m.cached("debian", ".tar", []byte(strings.Join(args, " ")), func(path string) error {
		return m.mmdebstrap(append(args, path)...)
	})
}

func (m *maker) mmdebstrap(args ...string) error {
	cmd := exec.CommandContext(m, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0")
	return run(cmd)
}

// cached returns a file of the cache. If the cache has no file for the recipe, it creates the file.
func (m *maker) cached(name, suffix string, recipe []byte, create func(path string) error) (path string, err error) {
	sum := sha256.Sum256(append([]byte(runtime.GOARCH+" "), recipe...))
	path = filepath.Join(m.cache, name+"-"+hex.EncodeToString(sum[:6])+suffix)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	made := filepath.Join(m.work, name+suffix)
	if err := create(made); err != nil {
		return "", err
	}
	// A rename is not enough: the two directories may be on different disks.
	return path, writeWhole(made, path)
}

// debianRelease returns the name of this machine's Debian release, or bookworm if this is no Debian.
func debianRelease(path string) string {
	values := map[string]string{}
	if file, err := os.Open(path); err == nil {
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), "=")
			values[key] = strings.Trim(value, `"`)
		}
	}
	if name := values["VERSION_CODENAME"]; values["ID"] == "debian" && name != "" {
		return name
	}
	return "bookworm"
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(out)))
	}
	return nil
}
