// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package wheel

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// The wheel has all sources, says its version, and is the same each time.
func TestWheel(t *testing.T) {
	t.Parallel()
	var made [][]byte
	for range 2 {
		out := t.TempDir()
		if err := Write(root, out, "v1.2.3-rc.4"); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(out, "fluxelastic-1.2.3rc4-py3-none-any.whl"))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, data)
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same sources gave two wheels")
	}
	files := unpack(t, made[0])
	sources, err := filepath.Glob(filepath.Join(root, "sdk/python/fluxelastic/*.py"))
	if err != nil || len(sources) < 5 {
		t.Fatalf("%d sources: %v", len(sources), err)
	}
	record := files["fluxelastic-1.2.3rc4.dist-info/RECORD"]
	for name, want := range map[string]string{
		"fluxelastic/__init__.py":                 `__version__ = "1.2.3rc4"`,
		"fluxelastic/compat/client.py":            "class FluxMiniCluster",
		"fluxelastic/compat/resource/pods.py":     "def create_minicluster",
		"fluxelastic-1.2.3rc4.dist-info/METADATA": "\nVersion: 1.2.3rc4\n",
		"fluxelastic-1.2.3rc4.dist-info/WHEEL":    "Tag: py3-none-any",
		"fluxelastic-1.2.3rc4.dist-info/RECORD":   "fluxelastic/models.py,sha256=",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
	if got, want := strings.Count(record, "\n"), len(files); got != want {
		t.Errorf("the record has %d files, the wheel %d", got, want)
	}
	for _, source := range sources {
		if files["fluxelastic/"+filepath.Base(source)] == "" {
			t.Errorf("%s is missing", source)
		}
	}
	if !strings.Contains(files["fluxelastic-1.2.3rc4.dist-info/METADATA"], "\nRequires-Python: >=3.9\nRequires-Dist: kubernetes>=22,<37\n") {
		t.Error("the metadata does not say what it needs")
	}
}

func unpack(t *testing.T, data []byte) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.1.0": "0.1.0", "0.1.0": "0.1.0", "v1.2.3-rc.1": "1.2.3rc1", "v1.2.3-beta2": "1.2.3beta2",
		"v0.1.0-3-gabcdef-dirty": "0.0.0+v0.1.0.3.gabcdef.dirty", "a9aecaa": "0.0.0+a9aecaa",
	} {
		if got, err := pythonVersion(version); err != nil || got != want {
			t.Errorf("%s: %s, want %s, %v", version, got, want, err)
		}
	}
	if _, err := pythonVersion("-"); err == nil {
		t.Error("a version without a letter was accepted")
	}
}
