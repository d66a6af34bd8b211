// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mpi makes the image MPI. double is the layer with the test double of Flux.
func (m *maker) mpi(double string) (*Image, error) {
	halo, err := m.halo()
	if err != nil {
		return nil, err
	}
	program, err := m.layer("halo", []Entry{{Path: "usr/local/bin/halo", Source: halo}})
	if err != nil {
		return nil, err
	}
	image := &Image{Name: MPI, Entrypoint: []string{"/bin/bash"}}
	path, flux, packages := "", double, []string{"mpich"}
	if root := cmp.Or(os.Getenv("FLUX_ROOT"), "/opt/flux"); isExecutable(filepath.Join(root, "bin", "flux")) {
		needed, err := m.fluxNeeds(root)
		if err != nil {
			return nil, fmt.Errorf("finding the packages that %s needs: %w", root, err)
		}
		packages = append(packages, needed...)
		if flux, err = m.flux(root); err != nil {
			return nil, err
		}
		path = root + "/bin:"
	}
	debian, err := m.debian(packages...)
	if err != nil {
		return nil, err
	}
	image.Layers = []string{debian, flux, program}
	image.Env = []string{"PATH=" + path + "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return image, nil
}

// halo compiles the MPI program, in a Debian that has a compiler.
func (m *maker) halo() (path string, err error) {
	source := filepath.Join(m.checkout, "hack", "images", "mpi", "halo.c")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	release := debianRelease("/etc/os-release")
	return m.cached("halo", "", append(text, release...), func(path string) error {
		return m.mmdebstrap("--variant=essential", "--include=gcc,libc6-dev,libmpich-dev",
			"--customize-hook=copy-in "+source+" /tmp",
			`--customize-hook=chroot "$1" mpicc -O2 -Wall -Werror -o /tmp/`+filepath.Base(path)+` /tmp/halo.c -lm`,
			"--customize-hook=copy-out /tmp/"+filepath.Base(path)+" "+filepath.Dir(path),
			release, "/dev/null")
	})
}

// development matches files of an installed Flux that only developers need.
var development = regexp.MustCompile(`(^include/|^share/(man|doc|bash-completion)/|/pkgconfig/|__pycache__|\.a$|\.la$)`)

// flux makes a layer with an installed Flux at the same path.
func (m *maker) flux(root string) (layer string, err error) {
	var entries []Entry
	for dir := filepath.Dir(root); dir != "/"; dir = filepath.Dir(dir) {
		entries = append(entries, Entry{Path: dir[1:]})
	}
	slices.Reverse(entries)
	err = filepath.WalkDir(root, func(path string, file fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		entry := Entry{Path: path[1:]}
		switch relative, _ := filepath.Rel(root, path); {
		case development.MatchString(relative):
			return nil
		case file.Type() == fs.ModeSymlink:
			entry.Link, err = os.Readlink(path)
		case file.Type().IsRegular():
			entry.Source = path
		case !file.IsDir():
			return nil
		}
		entries = append(entries, entry)
		return err
	})
	if err != nil {
		return "", err
	}
	return m.layer("flux", entries)
}

// fluxNeeds returns the Debian packages that an installed Flux needs: those of the libraries that it
// is linked to, and those of Python for its commands.
func (m *maker) fluxNeeds(root string) (packages []string, err error) {
	libraries := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, file fs.DirEntry, err error) error {
		if err != nil || !file.Type().IsRegular() || !isExecutable(path) && !strings.Contains(path, ".so") {
			return err
		}
		out, err := exec.CommandContext(m, "ldd", path).Output()
		if err != nil {
			return nil //nolint:nilerr // a script
		}
		for _, match := range linked.FindAllSubmatch(out, -1) {
			if library, err := filepath.EvalSymlinks(string(match[1])); err == nil && !strings.HasPrefix(library, root+"/") {
				libraries[library] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	packages = []string{"python3", "python3-cffi", "python3-yaml", "python3-ply"}
	for library := range libraries {
		// If /usr is merged, a package may list the file by its path without /usr.
		out, err := exec.CommandContext(m, "dpkg-query", "--search", library, strings.TrimPrefix(library, "/usr")).Output()
		name, _, ok := strings.Cut(string(out), ":")
		if !ok {
			return nil, fmt.Errorf("no package has %s: %w", library, err)
		}
		packages = append(packages, name)
	}
	slices.Sort(packages)
	return slices.Compact(packages), nil
}

// linked matches a line of ldd, and captures the path of the library.
var linked = regexp.MustCompile(`=> (/\S+)`)

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
