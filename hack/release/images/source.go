// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package images makes the files of a release that hold programs: the image of the manager, the
// archives of kubectl-minicluster, and a list of what is in each (SBOM). It needs no container engine.
// The same commit, version and Go release give the same bytes, in whatever directory.
package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// module is the path of the Go module, and the address of its source.
const module = "github.com/flux-elastic/flux-elastic"

// authors are in the image and in the SBOMs.
const authors = "The flux-elastic Authors"

// Source is what a release is made from.
type Source struct {
	// Root is the directory of the checkout.
	Root string
	// Version is what programs and images say of themselves.
	Version string
	// Revision is the commit.
	Revision string
	// Time is that of the commit. All files have it.
	Time time.Time
}

// FromGit returns the source that is checked out in a directory.
func FromGit(ctx context.Context, root, version string) (*Source, error) {
	out, err := run(exec.CommandContext(ctx, "git", "-C", root, "show", "--no-patch", "--format=%H %ct", "HEAD"))
	if err != nil {
		return nil, err
	}
	revision, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of commit %s: %w", revision, err)
	}
	return &Source{Root: root, Version: version, Revision: revision, Time: time.Unix(unix, 0).UTC()}, nil
}

// Platform is what a program runs on.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// file returns a file name for what is made for the platform.
func (p Platform) file(name, suffix string) string { return name + "-" + p.OS + "-" + p.Arch + suffix }

// ParsePlatforms reads a list such as linux/amd64,linux/arm64.
func ParsePlatforms(text string) ([]Platform, error) {
	var platforms []Platform
	for word := range strings.SplitSeq(text, ",") {
		system, arch, ok := strings.Cut(word, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("platform %q is not of the form linux/amd64", word)
		}
		platforms = append(platforms, Platform{system, arch})
	}
	return platforms, nil
}

// compile builds a static program of the checkout. The environment has no effect on its bytes.
func (s *Source) compile(ctx context.Context, pkg string, platform Platform, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X="+module+"/internal/version.version="+s.Version, "-o", path, pkg)
	cmd.Dir = s.Root
	cmd.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Arch, "CGO_ENABLED=0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	_, err := run(cmd)
	return err
}

// run returns the output of a command, and its errors in the error.
func run(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
