// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"io"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// Krew is the name of the file with which krew installs the plugin: `kubectl krew install --manifest=minicluster.yaml`.
const Krew = "minicluster.yaml"

// WriteKrew writes the manifest for krew to a directory that has the plugin's archives. url is where users get the files
// of the release.
func (s *Source) WriteKrew(platforms []Platform, url, dir string) error {
	manifest := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"},
		ObjectMeta: metav1.ObjectMeta{Name: "minicluster"},
		Spec: index.PluginSpec{
			Version: s.Version, Homepage: "https://github.com/flux-elastic/flux-elastic",
			ShortDescription: "Submit, watch and explain MiniClusters",
			Description:      "Submits MiniClusters of flux-elastic, says why one waits, shows queues and nodes,\nand runs commands in Flux instances.\n",
		},
	}
	for _, platform := range platforms {
		archive := platform.file(plugin, ".tar.gz")
		sum, err := sumOf(filepath.Join(dir, archive))
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, index.Platform{
			URI: url + "/" + archive, Sha256: sum, Bin: plugin, Files: []index.FileOperation{{From: "*", To: "."}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": platform.OS, "arch": platform.Arch}},
		})
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return create(filepath.Join(dir, Krew), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
