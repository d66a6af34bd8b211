// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package image makes the container images of the local cluster's real nodes, without a registry and
// without a container engine. The archives have the format of `docker save`, and `ctr images import`
// reads them. The same contents give the same archive.
package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Image is an image of an archive.
type Image struct {
	// Name has a registry and a tag: docker.io/flux-elastic/test:latest.
	Name string
	// Layers are tar files, the lowest first.
	Layers []string
	// Entrypoint is the command that runs by default.
	Entrypoint []string
	// Env are environment variables of all processes.
	Env []string
}

// Entry is a file, a directory or a link of a layer.
type Entry struct {
	// Path is the path in the image, without a leading slash.
	Path string
	// Source is the file with the contents.
	Source string
	// Link is the target of a symbolic link.
	Link string
}

// WriteLayer writes a layer. A directory must come before its entries. An entry with neither a source
// nor a link is a directory.
func WriteLayer(path string, entries []Entry) error {
	return writeTar(path, func(w *tar.Writer) error {
		for _, entry := range entries {
			if err := entry.write(w); err != nil {
				return fmt.Errorf("%s: %w", entry.Path, err)
			}
		}
		return nil
	})
}

func (e Entry) write(w *tar.Writer) error {
	switch {
	case e.Link != "":
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.Path, Linkname: e.Link, Mode: 0o777, ModTime: epoch})
	case e.Source == "":
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.Path + "/", Mode: 0o755, ModTime: epoch})
	}
	info, err := os.Stat(e.Source)
	if err != nil {
		return err
	}
	return copyFile(w, e.Path, e.Source, int64(info.Mode().Perm()))
}

// manifest is an image in the archive's list of images.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// WriteArchive writes images into one archive. A layer that several images have is written once.
func WriteArchive(path string, images []Image) error {
	return writeTar(path, func(w *tar.Writer) error {
		var list []manifest
		written := map[string]bool{}
		for _, image := range images {
			m := manifest{RepoTags: []string{image.Name}}
			var ids []string
			for _, layer := range image.Layers {
				sum, err := digest(layer)
				if err != nil {
					return err
				}
				ids = append(ids, "sha256:"+sum)
				m.Layers = append(m.Layers, sum+".tar")
				if written[sum] {
					continue
				}
				written[sum] = true
				if err := copyFile(w, sum+".tar", layer, 0o644); err != nil {
					return err
				}
			}
			config, err := image.config(ids)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(config)
			m.Config = hex.EncodeToString(sum[:]) + ".json"
			if err := writeFile(w, m.Config, config); err != nil {
				return err
			}
			list = append(list, m)
		}
		data, err := json.Marshal(list)
		if err != nil {
			return err
		}
		return writeFile(w, "manifest.json", data)
	})
}

// config returns the configuration of the image in JSON.
func (i *Image) config(layers []string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": epoch,
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Env": i.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": layers},
	})
}

// epoch is the time of all files, so that archives are reproducible.
var epoch = time.Unix(0, 0).UTC()

// writeTar writes a tar file. The file appears complete or not at all.
func writeTar(path string, write func(*tar.Writer) error) (err error) {
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = write(w)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(path + ".new")
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

func writeFile(w *tar.Writer, name string, data []byte) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: epoch})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func copyFile(w *tar.Writer, name, source string, mode int64) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: mode, ModTime: epoch}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}

func digest(path string) (string, error) {
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

// writeWhole copies a file. The copy appears complete or not at all.
func writeWhole(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.CreateTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(target.Name())
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	if err := errors.Join(target.Chmod(info.Mode().Perm()), target.Close()); err != nil {
		return err
	}
	return os.Rename(target.Name(), to)
}
