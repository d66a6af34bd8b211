// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writeTar writes files by their names in the archive. Their owner is root, and their time is given.
func writeTar(w io.Writer, files []tarFile, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, file := range files {
		if err := file.write(archive, at); err != nil {
			return err
		}
	}
	return archive.Close()
}

// tarFile is a file of an archive.
type tarFile struct {
	name string
	path string // of the contents
	mode int64
}

func (f tarFile) write(archive *tar.Writer, at time.Time) (err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: info.Size(), Mode: f.mode, ModTime: at, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// filesOf returns the files of a directory, in the order of their names.
func filesOf(dir string) (files []tarFile, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, tarFile{name: filepath.ToSlash(name), path: path, mode: 0o644})
		return err
	})
	return files, err
}

// create writes a file. The file appears complete or not at all.
func create(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
