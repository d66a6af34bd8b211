// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests makes the files of a release that kubectl applies, by kustomize as it is in kubectl.
package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// installs are the directories of config with all that a cluster needs, by the files that are made of them.
var installs = map[string]string{
	"install.yaml":          "default",
	"install-embedded.yaml": "embedded",
}

// Write makes the files of a release in a directory, with an image of the manager. The root is that of
// the checkout.
func Write(root, dir, image, version string) error {
	for name, config := range installs {
		objects, err := Build(root, fmt.Sprintf("resources: [../config/%s]\nimages: [{name: flux-elastic, newName: %q, newTag: %q}]\n", config, image, version))
		if err != nil {
			return err
		}
		text, err := objects.AsYaml()
		if err != nil {
			return err
		}
		head := fmt.Sprintf("# flux-elastic %s: config/%s\n# kubectl apply --server-side -f %s\n", version, config, name)
		if err := os.WriteFile(filepath.Join(dir, name), append([]byte(head), text...), 0o644); err != nil { //nolint:gosec // for everybody
			return err
		}
	}
	return nil
}

// Build returns the objects of a kustomization in a directory beside config, in the order in which
// kubectl applies them.
func Build(root, kustomization string) (resmap.ResMap, error) {
	files, err := load(filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", []byte(kustomization)); err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(files, "/overlay")
	if err != nil {
		return nil, fmt.Errorf("building %q: %w", kustomization, err)
	}
	return objects, nil
}

// load returns a file system in memory with a directory as /config.
func load(dir string) (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	return files, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		return errors.Join(err, files.WriteFile(path.Join("/config", filepath.ToSlash(relative)), text))
	})
}
