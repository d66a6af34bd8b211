// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
)

// plugin is the program that kubectl runs as kubectl minicluster.
const plugin = "kubectl-minicluster"

// WritePlugin writes archives of kubectl-minicluster for some platforms to a directory, and an SBOM for
// each.
func (s *Source) WritePlugin(ctx context.Context, platforms []Platform, dir string) error {
	work, err := os.MkdirTemp("", "flux-elastic-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, platform := range platforms {
		program := filepath.Join(work, platform.file(plugin, ""))
		if err := s.compile(ctx, "./cmd/"+plugin, platform, program); err != nil {
			return err
		}
		files := []tarFile{
			{name: "LICENSE", path: filepath.Join(s.Root, "LICENSE"), mode: 0o644},
			{name: plugin, path: program, mode: 0o755},
		}
		err := create(filepath.Join(dir, platform.file(plugin, ".tar.gz")), func(w io.Writer) error {
			compressed := gzip.NewWriter(w)
			if err := writeTar(compressed, files, s.Time); err != nil {
				return err
			}
			return compressed.Close()
		})
		if err != nil {
			return err
		}
		sum, err := sumOf(program)
		if err != nil {
			return err
		}
		contents := artifact{name: plugin, purpose: "APPLICATION", platform: platform, sum: sum, program: program}
		if err := s.writeSBOM(contents, dir); err != nil {
			return err
		}
	}
	return nil
}

// sumOf returns the SHA-256 of a file in hexadecimal.
func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
