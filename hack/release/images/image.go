// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive is the file with the image of the manager, in a tar file of OCI's image layout.
const Archive = "flux-elastic-image.tar"

// user is neither root nor anybody else.
const user = "65532:65532"

// WriteImage writes the image of the manager for some platforms to a directory, and an SBOM for each.
// The repository is the name of the image; its tag is the version. It returns the image's full name and
// digest.
func (s *Source) WriteImage(ctx context.Context, repository string, platforms []Platform, dir string) (made string, err error) {
	tag, err := name.NewTag(repository + ":" + s.Version)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "flux-elastic-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		program := filepath.Join(work, platform.file("manager", ""))
		if err := s.compile(ctx, "./cmd/manager", platform, program); err != nil {
			return "", err
		}
		image, err := s.image(program, platform)
		if err != nil {
			return "", err
		}
		sum, err := image.Digest()
		if err != nil {
			return "", err
		}
		contents := artifact{name: "flux-elastic-image", purpose: "CONTAINER", platform: platform, sum: sum.Hex, program: program}
		if err := s.writeSBOM(contents, dir); err != nil {
			return "", err
		}
		on := &v1.Platform{OS: platform.OS, Architecture: platform.Arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: on}})
	}
	index = mutate.Annotations(index, s.labels()).(v1.ImageIndex)
	sum, err := index.Digest()
	if err != nil {
		return "", err
	}
	// The library has an old name of this registry.
	full := strings.Replace(tag.Name(), name.DefaultRegistry, "docker.io", 1)
	return full + "@" + sum.String(), s.writeLayout(index, full, filepath.Join(work, "layout"), filepath.Join(dir, Archive))
}

// writeLayout writes an image with its name, as containerd and Docker read it.
func (s *Source) writeLayout(index v1.ImageIndex, full, work, path string) error {
	written, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{"io.containerd.image.name": full, "org.opencontainers.image.ref.name": s.Version}
	if err := written.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	files, err := filesOf(work)
	if err != nil {
		return err
	}
	return create(path, func(w io.Writer) error { return writeTar(w, files, s.Time) })
}

// image returns an image that has only a program.
func (s *Source) image(program string, platform Platform) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Arch, Author: authors, Created: v1.Time{Time: s.Time},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/manager"}, User: user, Labels: s.labels()},
	})
	if err != nil {
		return nil, err
	}
	var contents bytes.Buffer
	if err := writeTar(&contents, []tarFile{{name: "manager", path: program, mode: 0o755}}, s.Time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(contents.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: s.Time}, CreatedBy: "hack/release"}})
}

// labels are the annotations that OCI defines.
func (s *Source) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "flux-elastic",
		prefix + "description": "Elastic MiniClusters (Flux instances) on Kubernetes",
		prefix + "source":      "https://" + module,
		prefix + "version":     s.Version,
		prefix + "revision":    s.Revision,
		prefix + "created":     s.Time.Format(time.RFC3339),
		prefix + "licenses":    "Apache-2.0",
		prefix + "vendor":      authors,
	}
}
