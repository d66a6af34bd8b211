// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// members returns the members of a tar file, by name.
func members(t *testing.T, path string) (names []string, headers map[string]*tar.Header, contents map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	headers, contents = map[string]*tar.Header{}, map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		headers[header.Name] = header
		if contents[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	base, top := filepath.Join(dir, "base.tar"), filepath.Join(dir, "top.tar")
	if err := WriteLayer(base, []Entry{{Path: "bin"}, {Path: "bin/sh", Source: program}}); err != nil {
		t.Fatal(err)
	}
	if err := WriteLayer(top, []Entry{{Path: "bin/link", Link: "/bin/sh"}}); err != nil {
		t.Fatal(err)
	}
	images := []Image{
		{Name: "docker.io/a/base:latest", Layers: []string{base}, Entrypoint: []string{"/bin/sh"}},
		{Name: "docker.io/a/top:latest", Layers: []string{base, top}, Env: []string{"A=b"}},
	}
	archive := filepath.Join(dir, "archive.tar")
	if err := WriteArchive(archive, images); err != nil {
		t.Fatal(err)
	}
	names, _, contents := members(t, archive)
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	if layers := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, ".tar") }); len(layers) != 2 ||
		len(slices.Compact(sorted)) != len(names) {
		t.Errorf("a layer that both have is there more than once: %v", names)
	}
	var list []manifest
	if err := json.Unmarshal(contents["manifest.json"], &list); err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for i, m := range list {
		var config struct {
			Config struct{ Entrypoint, Env []string }
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		if err := json.Unmarshal(contents[m.Config], &config); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.RepoTags, []string{images[i].Name}) || len(m.Layers) != len(images[i].Layers) || len(config.RootFS.DiffIDs) != len(m.Layers) ||
			!slices.Equal(config.Config.Entrypoint, images[i].Entrypoint) || !slices.Equal(config.Config.Env, images[i].Env) {
			t.Errorf("image %d is %+v, %+v", i, m, config)
		}
		for j, layer := range m.Layers {
			if sum, _ := digest(images[i].Layers[j]); layer != sum+".tar" || config.RootFS.DiffIDs[j] != "sha256:"+sum {
				t.Errorf("layer %d of image %d is %s, %s", j, i, layer, config.RootFS.DiffIDs[j])
			}
		}
	}
	_, headers, _ := members(t, base)
	if h := headers["bin/sh"]; h == nil || h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(epoch) {
		t.Errorf("bin/sh is %+v", h)
	}
	// A second time gives the same archive.
	before, err := digest(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(archive, images); err != nil {
		t.Fatal(err)
	}
	if after, err := digest(archive); err != nil || after != before {
		t.Errorf("the archive differs: %v", err)
	}
	// A failure leaves the existing archive as it is.
	if err := WriteArchive(archive, []Image{{Name: "x", Layers: []string{filepath.Join(dir, "none")}}}); err == nil {
		t.Error("a layer that is not there")
	}
	if after, err := digest(archive); err != nil || after != before {
		t.Errorf("the archive differs: %v", err)
	}
}

func TestDebianRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "os-release")
	for text, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=trixie\n":    "trixie",
		"ID=\"ubuntu\"\nVERSION_CODENAME=noble\n": "bookworm",
		"": "bookworm",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := debianRelease(path); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}
