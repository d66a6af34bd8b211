// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package wheel makes the wheel of the Python client. It is an archive of the sources, which pip installs without
// building anything: https://packaging.python.org/specifications/binary-distribution-format
package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const name = "fluxelastic"

// Write writes the wheel of a version into a directory. The same sources and version give the same bytes.
func Write(root, out, version string) error {
	version, err := pythonVersion(version)
	if err != nil {
		return err
	}
	source := filepath.Join(root, "sdk", "python")
	files, err := read(os.DirFS(source), version)
	if err != nil {
		return fmt.Errorf("reading the Python client: %w", err)
	}
	project, err := os.ReadFile(filepath.Join(source, "pyproject.toml"))
	if err != nil {
		return err
	}
	about, err := metadata(string(project), version)
	if err != nil {
		return err
	}
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	files = append(files,
		file{info + "METADATA", []byte(about)},
		file{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: flux-elastic\nRoot-Is-Purelib: true\nTag: py3-none-any\n")})
	archive, err := pack(files, record(files, info+"RECORD"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)), archive, 0o644) //nolint:gosec // for everybody
}

type file struct {
	name string
	data []byte
}

var (
	release = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-(rc|alpha|beta)\.?(\d+))?$`)
	local   = regexp.MustCompile(`[^a-z0-9]+`)
	version = regexp.MustCompile(`(?m)^__version__ = .*$`)
)

// pythonVersion returns a version as Python has it: v0.1.0-rc.1 is 0.1.0rc1. What is no release gets a local version.
func pythonVersion(text string) (string, error) {
	if parts := release.FindStringSubmatch(text); parts != nil {
		return parts[1] + parts[2] + parts[3], nil
	}
	rest := strings.Trim(local.ReplaceAllString(strings.ToLower(text), "."), ".")
	if rest == "" {
		return "", fmt.Errorf("%q is no version", text)
	}
	return "0.0.0+" + rest, nil
}

// read returns the files of the package, which says its version.
func read(source fs.FS, to string) (files []file, err error) {
	err = fs.WalkDir(source, name, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(at) != ".py" && path.Base(at) != "py.typed" {
			return err
		}
		data, err := fs.ReadFile(source, at)
		if at == name+"/__init__.py" {
			data = version.ReplaceAll(data, fmt.Appendf(nil, "__version__ = %q", to))
		}
		files = append(files, file{at, data})
		return err
	})
	return files, err
}

// metadata returns what pip has to know, from the project file.
func metadata(project, version string) (string, error) {
	text := "Metadata-Version: 2.1\nVersion: " + version + "\nLicense: Apache-2.0\n"
	for _, field := range [][2]string{{"Name", "name"}, {"Summary", "description"}, {"Requires-Python", "requires-python"}, {"Requires-Dist", "dependencies"}} {
		match := regexp.MustCompile(`(?m)^` + field[1] + ` = \[?"([^"]*)"\]?$`).FindStringSubmatch(project)
		if match == nil {
			return "", fmt.Errorf("pyproject.toml has no line with %s and one value", field[1])
		}
		text += field[0] + ": " + match[1] + "\n"
	}
	return text, nil
}

// record lists all files with their digests, and itself.
func record(files []file, itself string) file {
	var out bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&out, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&out, "%s,,\n", itself)
	return file{itself, out.Bytes()}
}

// pack returns an archive of files, and of the last file.
func pack(files []file, last file) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range append(slices.Clone(files), last) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(0o644)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
