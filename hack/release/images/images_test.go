// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// The platforms of the release: this machine's, and another one.
var (
	here  = Platform{"linux", runtime.GOARCH}
	there = Platform{"linux", map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]}
)

// checkout makes a repository with programs that print their version.
func checkout(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	version, err := os.ReadFile("../../../internal/version/version.go")
	if err != nil {
		t.Fatal(err)
	}
	const program = "package main\n\nimport \"" + module + "/internal/version\"\n\nfunc main() { println(version.String()) }\n"
	for path, text := range map[string]string{
		"go.mod":                          "module " + module + "\n\ngo 1.26.0\n",
		"LICENSE":                         "The licence\n",
		"internal/version/version.go":     string(version),
		"cmd/manager/main.go":             program,
		"cmd/kubectl-minicluster/main.go": program,
	} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message=A release"}} {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-02-03T04:05:06Z")
		if _, err := run(cmd); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// release writes all files of a release of a new checkout.
func release(t *testing.T) (source *Source, dir, digest string) {
	t.Helper()
	source, err := FromGit(t.Context(), checkout(t), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	made, err := source.WriteImage(t.Context(), "flux-elastic", []Platform{here, there}, dir)
	if err != nil {
		t.Fatal(err)
	}
	full, digest, _ := strings.Cut(made, "@")
	if full != "docker.io/library/flux-elastic:v1.2.3" {
		t.Errorf("the image is %s", made)
	}
	if err := errors.Join(source.WritePlugin(t.Context(), []Platform{here}, dir), source.WriteKrew([]Platform{here}, "https://example.com/v1.2.3", dir), WriteSums(dir)); err != nil {
		t.Fatal(err)
	}
	return source, dir, digest
}

func TestRelease(t *testing.T) {
	source, dir, digest := release(t)
	if got := source.Time.String(); got != "2026-02-03 04:05:06 +0000 UTC" {
		t.Errorf("the time of the commit is %s", got)
	}
	t.Run("Again", func(t *testing.T) {
		// In other directories, and with other settings of the developer.
		t.Setenv("GOFLAGS", "-tags=other")
		t.Setenv("GOAMD64", "v3")
		_, other, again := release(t)
		if again != digest || read(t, filepath.Join(other, Sums)) != read(t, filepath.Join(dir, Sums)) {
			t.Errorf("%s and %s differ", digest, again)
		}
	})
	t.Run("Sums", func(t *testing.T) { testSums(t, dir) })
	t.Run("Image", func(t *testing.T) { testImage(t, source, dir, digest) })
	t.Run("Plugin", func(t *testing.T) { testPlugin(t, dir) })
	t.Run("Krew", func(t *testing.T) { testKrew(t, dir) })
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func testSums(t *testing.T, dir string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(read(t, filepath.Join(dir, Sums))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		if got, err := sumOf(filepath.Join(dir, name)); err != nil || got != sum {
			t.Errorf("%s has %s, want %s: %v", name, got, sum, err)
		}
	}
	want := []string{
		Archive, here.file("flux-elastic-image", ".spdx.json"), there.file("flux-elastic-image", ".spdx.json"),
		here.file("kubectl-minicluster", ".spdx.json"), here.file("kubectl-minicluster", ".tar.gz"), Krew,
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}

func testImage(t *testing.T, source *Source, dir, digest string) {
	t.Helper()
	unpacked := t.TempDir()
	for name, data := range members(t, strings.NewReader(read(t, filepath.Join(dir, Archive)))) {
		path := filepath.Join(unpacked, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatal(manifest, err)
	}
	if d := manifest.Manifests[0]; d.Digest.String() != digest || d.Annotations["io.containerd.image.name"] != "docker.io/library/flux-elastic:v1.2.3" ||
		d.Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("the archive has %+v", d)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if manifest, err = index.IndexManifest(); err != nil || len(manifest.Manifests) != 2 || manifest.Annotations["org.opencontainers.image.revision"] != source.Revision {
		t.Fatal(manifest, err)
	}
	for i, platform := range []Platform{here, there} {
		d := manifest.Manifests[i]
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		testPlatform(t, source, image, platform)
		if !d.Platform.Equals(v1.Platform{OS: platform.OS, Architecture: platform.Arch}) {
			t.Errorf("%s is for %s", platform, d.Platform)
		}
		testSBOM(t, filepath.Join(dir, platform.file("flux-elastic-image", ".spdx.json")), d.Digest.Hex)
	}
}

func testPlatform(t *testing.T, source *Source, image v1.Image, platform Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.OS != platform.OS || config.Architecture != platform.Arch || !config.Created.Equal(source.Time) ||
		c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/manager"}) ||
		c.Labels["org.opencontainers.image.version"] != "v1.2.3" || c.Labels["org.opencontainers.image.revision"] != source.Revision ||
		c.Labels["org.opencontainers.image.created"] != "2026-02-03T04:05:06Z" {
		t.Errorf("%s has the configuration %+v", platform, config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	contents, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	files := members(t, contents)
	if len(files) != 1 || files["manager"] == nil {
		t.Fatalf("%s has %d files", platform, len(files))
	}
	if platform == here {
		testProgram(t, files["manager"])
	}
}

// testProgram runs a program.
func testProgram(t *testing.T, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "v1.2.3\n" {
		t.Errorf("the program says %q: %v", out, err)
	}
}

func testKrew(t *testing.T, dir string) {
	t.Helper()
	var got index.Plugin
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(dir, Krew))), &got); err != nil {
		t.Fatal(err)
	}
	archive := here.file(plugin, ".tar.gz")
	sum, err := sumOf(filepath.Join(dir, archive))
	if err != nil {
		t.Fatal(err)
	}
	want := []index.Platform{{
		URI: "https://example.com/v1.2.3/" + archive, Sha256: sum, Bin: plugin, Files: []index.FileOperation{{From: "*", To: "."}},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": here.OS, "arch": here.Arch}},
	}}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" || got.Spec.Version != "v1.2.3" || got.Name != "minicluster" {
		t.Errorf("%+v: %s", got, diff)
	}
}

func testPlugin(t *testing.T, dir string) {
	t.Helper()
	data, err := gzip.NewReader(strings.NewReader(read(t, filepath.Join(dir, here.file("kubectl-minicluster", ".tar.gz")))))
	if err != nil {
		t.Fatal(err)
	}
	files := members(t, data)
	if len(files) != 2 || string(files["LICENSE"]) != "The licence\n" {
		t.Errorf("%d files, and the licence is %q", len(files), files["LICENSE"])
	}
	testProgram(t, files["kubectl-minicluster"])
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, files["kubectl-minicluster"], 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := sumOf(path)
	if err != nil {
		t.Fatal(err)
	}
	testSBOM(t, filepath.Join(dir, here.file("kubectl-minicluster", ".spdx.json")), sum)
}

// members returns the contents of a tar file. Its files belong to root, and programs can be run.
func members(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	contents := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return contents
		}
		if err != nil {
			t.Fatal(err)
		}
		program := header.Name == "manager" || header.Name == "kubectl-minicluster"
		if want := map[bool]int64{true: 0o755, false: 0o644}[program]; header.Mode != want || header.Uid != 0 || header.Gid != 0 || header.ModTime.Year() != 2026 {
			t.Errorf("%+v", header)
		}
		if contents[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// testSBOM reads an SBOM of an artifact.
func testSBOM(t *testing.T, path, sum string) {
	t.Helper()
	document, err := spdxjson.Read(strings.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	if got := document.Packages[0].PackageChecksums; len(got) != 1 || got[0].Value != sum {
		t.Errorf("%s describes %+v, want %s", path, got, sum)
	}
	if got := purls(document); !slices.Equal(got, []string{"pkg:golang/" + module + "@v1.2.3", "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")}) {
		t.Errorf("%s lists %q", path, got)
	}
}

func purls(document *spdx.Document) (locators []string) {
	for _, p := range document.Packages {
		for _, reference := range p.PackageExternalReferences {
			locators = append(locators, reference.Locator)
		}
	}
	return locators
}

func TestSBOM(t *testing.T) {
	source := &Source{Version: "v1.2.3", Revision: "abc"}
	document := source.sbom(artifact{name: "x", platform: here, sum: "0123"}, &debug.BuildInfo{
		GoVersion: "go1.26.8 X:nodwarf5", Main: debug.Module{Path: module},
		Deps: []*debug.Module{
			{Path: "a.example/b_c", Version: "v1.0.0+incompatible", Sum: "h1:sum"},
			{Path: "a.example/old", Version: "v1.0.0", Replace: &debug.Module{Path: "a.example/new", Version: "v2.0.0"}},
		},
	})
	want := []string{
		"pkg:golang/" + module + "@v1.2.3", "pkg:golang/stdlib@1.26.8",
		"pkg:golang/a.example/b_c@v1.0.0%2Bincompatible", "pkg:golang/a.example/new@v2.0.0",
	}
	if got := purls(document); !slices.Equal(got, want) {
		t.Errorf("it lists %q, want %q", got, want)
	}
	var text bytes.Buffer
	if err := spdxjson.Write(document, &text); err != nil {
		t.Fatal(err)
	}
	if _, err := spdxjson.Read(&text); err != nil {
		t.Error(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	for _, p := range document.Packages {
		if other.MatchString(string(p.PackageSPDXIdentifier)) {
			t.Errorf("identifier %q", p.PackageSPDXIdentifier)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, text := range []string{"", "linux", "linux/", "/amd64", "linux/amd64,"} {
		if _, err := ParsePlatforms(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	if got, err := ParsePlatforms("linux/amd64,darwin/arm64"); err != nil || !slices.Equal(got, []Platform{{"linux", "amd64"}, {"darwin", "arm64"}}) {
		t.Error(got, err)
	}
	if _, err := FromGit(t.Context(), t.TempDir(), "v1"); err == nil {
		t.Error("a directory that is no checkout")
	}
	source, dir := &Source{Root: t.TempDir(), Version: "v1"}, t.TempDir()
	for name, do := range map[string]func(context.Context) error{
		"a name that no image can have": func(ctx context.Context) error {
			_, err := source.WriteImage(ctx, "Flux Elastic", []Platform{here}, dir)
			return err
		},
		"no program": func(ctx context.Context) error {
			_, err := source.WriteImage(ctx, "flux-elastic", []Platform{here}, dir)
			return err
		},
		"no plugin": func(ctx context.Context) error { return source.WritePlugin(ctx, []Platform{here}, dir) },
	} {
		if err := do(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("failures leave %v, %v", left, err)
	}
}
