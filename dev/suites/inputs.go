// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// inputs is what a suite depends on: hashes or versions, each by the name of what it is of.
type inputs map[string]string

// inputsOf finds what a suite depends on in a checkout.
func inputsOf(ctx context.Context, root string, s *suite) (inputs, error) {
	in := inputs{}
	if err := in.addPackages(ctx, root, s); err != nil {
		return nil, err
	}
	for _, pattern := range s.files {
		if err := in.addFiles(ctx, root, pattern); err != nil {
			return nil, err
		}
	}
	for _, name := range s.variables {
		in["$"+name] = os.Getenv(name)
	}
	for _, args := range s.commands {
		in["`"+strings.Join(args, " ")+"`"] = said(ctx, root, args)
	}
	recipe, err := output(ctx, root, "make", "--dry-run", "--no-print-directory", s.target)
	if err != nil {
		return nil, fmt.Errorf("reading the commands of %s: %w", s.target, err)
	}
	in["make "+s.target] = hash(recipe)
	version, err := output(ctx, root, "go", "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT")
	if err != nil {
		return nil, err
	}
	in["go"], in["Kubernetes"] = hash(version), localcluster.Minor
	return in, nil
}

// module is the module of a package. One that is replaced by a directory is part of the checkout.
type module struct {
	Path, Version string
	Replace       *module
}

func (m *module) isHere() bool { return m.Version == "" || m.Replace != nil && m.Replace.Version == "" }

// listed is a package as go list describes it.
type listed struct {
	Dir                                                   string
	Standard                                              bool
	Module                                                *module
	GoFiles, CgoFiles, CFiles, HFiles, SFiles, EmbedFiles []string
}

// addPackages adds the sources of the tests and programs of a suite, and the versions of the modules that they use.
func (in inputs) addPackages(ctx context.Context, root string, s *suite) error {
	sources := map[string]map[string]bool{} // files by directory
	add := func(dir string, args ...string) error {
		packages, err := list(ctx, dir, args...)
		if err != nil {
			return err
		}
		for i := range packages {
			in.addPackage(root, &packages[i], s.idle, sources)
		}
		return nil
	}
	if len(s.packages) > 0 {
		if err := add(filepath.Join(root, s.module), append([]string{"-test", "-tags=" + s.tags}, s.packages...)...); err != nil {
			return err
		}
	}
	if len(s.programs) > 0 {
		if err := add(root, s.programs...); err != nil {
			return err
		}
	}
	for dir, files := range sources {
		sum, err := hashFiles(slices.Sorted(maps.Keys(files)))
		if err != nil {
			return err
		}
		in[relative(root, dir)] = sum
	}
	return nil
}

// addPackage adds the module of a package; or its sources, if the package is one of the checkout.
func (in inputs) addPackage(root string, p *listed, idle []string, sources map[string]map[string]bool) {
	switch {
	case p.Standard || p.Module == nil: // `go` has the version; or the main function that go test writes
		return
	case !p.Module.isHere():
		in[p.Module.Path] = p.Module.Version
		return
	}
	dir := relative(root, p.Dir)
	if slices.ContainsFunc(idle, func(name string) bool { return dir == name || strings.HasPrefix(dir, name+"/") }) {
		return
	}
	if sources[p.Dir] == nil {
		sources[p.Dir] = map[string]bool{}
	}
	for _, file := range join(p.GoFiles, p.CgoFiles, p.CFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
		if !filepath.IsAbs(file) { // else it is made by go test
			sources[p.Dir][filepath.Join(p.Dir, file)] = true
		}
	}
}

// list returns packages and all that they import.
func list(ctx context.Context, dir string, args ...string) ([]listed, error) {
	out, err := output(ctx, dir, "go", append([]string{"list", "-deps", "-json=Dir,Standard,Module,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles"}, args...)...)
	if err != nil {
		return nil, err
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// addFiles adds the files of a pattern of git: those that are committed, and those that could be.
func (in inputs) addFiles(ctx context.Context, root, pattern string) error {
	out, err := output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern)
	if err != nil {
		return err
	}
	if len(out) == 0 {
		return fmt.Errorf("%q matches no file", pattern)
	}
	var paths []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		paths = append(paths, filepath.Join(root, name))
	}
	slices.Sort(paths)
	sum, err := hashFiles(slices.Compact(paths))
	if err != nil {
		return err
	}
	in[pattern] = sum
	return nil
}

// hashFiles returns a hash of the names and contents of files. A file that git lists may be deleted.
func hashFiles(paths []string) (string, error) {
	sum := sha256.New()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(path), len(data))
		sum.Write(data)
	}
	return short(sum.Sum(nil)), nil
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return short(sum[:])
}

func short(sum []byte) string { return hex.EncodeToString(sum[:12]) }

func relative(root, path string) string {
	if name, err := filepath.Rel(root, path); err == nil {
		return name
	}
	return path
}

// said is what a command of the machine says, or that it cannot say it.
func said(ctx context.Context, dir string, args []string) string {
	out, err := output(ctx, dir, args[0], args[1:]...)
	if err != nil && len(out) == 0 {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// output runs a command as if it did not run below make.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS")
	})
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
