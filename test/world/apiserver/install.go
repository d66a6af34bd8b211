// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
)

// The folders of config that worlds need: the definitions of our APIs, and the policies.
const (
	Definitions = "config/crd"
	Admission   = "config/admission"
	Limits      = "config/limits"
)

// root is the folder of the project: this file is four folders below it.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// InstallConfig creates the objects in folders of the project, as an administrator.
func (s *Server) InstallConfig(folders ...string) error {
	for _, folder := range folders {
		if err := s.installFolder(filepath.Join(root(), folder)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) installFolder(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no manifests", folder)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		manifests, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := s.Install(manifests); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// moduleFolders are where the modules are whose manifests were installed.
var moduleFolders sync.Map

// InstallModule creates the objects in a folder of a Go module that go.mod names, such as the definitions of Kueue.
func (s *Server) InstallModule(module, folder string) error {
	dir, known := moduleFolders.Load(module)
	if !known {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
		list.Dir = root()
		out, err := list.Output()
		if err != nil {
			return fmt.Errorf("looking for the module %s: %w", module, err)
		}
		dir = strings.TrimSpace(string(out))
		moduleFolders.Store(module, dir)
	}
	return s.installFolder(filepath.Join(dir.(string), folder))
}

// Install creates the objects of manifests, as an administrator. Objects without a namespace get the default one.
func (s *Server) Install(manifests []byte) error {
	documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var raw document
		switch err := documents.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(raw) == 0 || string(raw) == "null":
			continue
		}
		if err := s.install(raw); err != nil {
			return err
		}
	}
}

// document is one object as it was read.
type document []byte

// UnmarshalJSON implements json.Unmarshaler.
func (j *document) UnmarshalJSON(data []byte) error {
	*j = bytes.Clone(data)
	return nil
}

func (s *Server) install(raw []byte) error {
	var meta metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.tableOf(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if t == nil {
		return fmt.Errorf("the server has no %s of %s", meta.Kind, meta.APIVersion)
	}
	object, err := decode(t.Resource, raw, typeJSON)
	if err != nil {
		return err
	}
	w := &write{server: s, user: Admin, verb: "create", table: t, key: key{Namespace: meta.Namespace, Name: meta.Name}, manager: "kubectl"}
	if t.Namespaced && w.key.Namespace == "" {
		w.key.Namespace = metav1.NamespaceDefault
	}
	_, err = w.create(object)
	return err
}
