// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart makes the archive of the Helm chart. Helm's own archives have the time of the day, and so
// other bytes each time.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// name is that of the chart, and of its directory in charts.
const name = "flux-elastic"

// Write makes the archive of the chart, as Helm names it, in a directory. The image and the version are
// the chart's defaults. The root is that of the checkout.
func Write(root, dir, image, version string) error {
	archive, err := pack(filepath.Join(root, "charts", name), image, version)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s.tgz", name, semantic(version))), archive, 0o644) //nolint:gosec // for everybody
}

// semantic returns a version of the chart, which has to be semantic. A commit without a tag comes before
// all releases.
func semantic(version string) string {
	if number := strings.TrimPrefix(version, "v"); regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(number) {
		return number
	}
	return "0.0.0-git-" + version
}

// pack returns the archive of the chart in a directory, with the files in the order of their names.
func pack(dir, image, version string) ([]byte, error) {
	defaults := map[string][][2]string{
		"Chart.yaml":  {{"\nversion: 0.0.0\n", "\nversion: " + semantic(version) + "\n"}, {"\nappVersion: latest\n", "\nappVersion: " + strconv.Quote(version) + "\n"}},
		"values.yaml": {{"\n  repository: flux-elastic\n", "\n  repository: " + strconv.Quote(image) + "\n"}},
	}
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		switch {
		case err != nil:
			return err
		case relative == "ci": // as .helmignore says
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, change := range defaults[relative] {
			if bytes.Count(text, []byte(change[0])) != 1 {
				return fmt.Errorf("%s has no line %q, or several", file, change[0])
			}
			text = bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, filepath.ToSlash(relative)), Size: int64(len(text)), Mode: 0o644, Format: tar.FormatUSTAR}
		if err := files.WriteHeader(header); err != nil {
			return err
		}
		_, err = files.Write(text)
		return err
	})
	err = errors.Join(err, files.Close(), compressed.Close())
	return archive.Bytes(), err
}
