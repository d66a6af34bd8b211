// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is an object of Kubernetes that a page or an example shows.
type Object struct {
	unstructured.Unstructured
	// Where says where it is written.
	Where string
}

// Objects are all objects in YAML blocks of pages, and in the files of examples. A block without an
// apiVersion is a fragment, and one without metadata and spec configures a program, such as kustomize.
// Both only have to be YAML.
func Objects(root fs.FS) (objects []Object, err error) {
	pages, err := Pages(root)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		for _, block := range page.Blocks {
			if !slices.Contains([]string{"yaml", "yml"}, block.Language) {
				continue
			}
			found, err := decode(fmt.Sprintf("%s:%d", page.Path, block.Line), block.Text)
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	err = walk(root, func(name string) error {
		if !strings.HasPrefix(name, "examples/") || path.Ext(name) != ".yaml" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return fmt.Errorf("reading an example: %w", err)
		}
		found, err := decode(name, string(text))
		objects = append(objects, found...)
		return err
	})
	return objects, err
}

// decode reads the documents of a YAML text.
func decode(where, text string) (objects []Object, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		var content any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		object, _ := content.(map[string]any)
		if object["apiVersion"] != nil && (object["metadata"] != nil || object["spec"] != nil) {
			objects = append(objects, Object{unstructured.Unstructured{Object: object}, where})
		}
	}
}
