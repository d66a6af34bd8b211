// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// Values that only a cluster gives to an object.
const (
	placeholderUID         = "00000000-0000-0000-0000-000000000000"
	placeholderCertificate = "# a new CURVE certificate\n"
	placeholderSuffix      = "1-xxxxx" // the attempt, and random letters
)

// renderer makes the objects of MiniClusters.
type renderer struct {
	schema    *schema
	namespace string // of MiniClusters that name no namespace
}

func newRenderer(namespace string) (*renderer, error) {
	schema, err := newSchema()
	return &renderer{schema, namespace}, err
}

// render writes the objects of all valid MiniClusters of a file, and returns the errors of the
// other documents.
func (r *renderer) render(file string, text []byte, out io.Writer) []error {
	return eachMiniCluster(file, text, yaml.YAMLToJSONStrict, func(object map[string]any) error { return r.renderMiniCluster(object, out) })
}

// eachMiniCluster calls do for the MiniClusters of a file, and returns the errors of its documents.
// toJSON says how strictly YAML is read.
func eachMiniCluster(file string, text []byte, toJSON func([]byte) ([]byte, error), do func(map[string]any) error) (errs []error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errs
		}
		if err == nil {
			document, err = toJSON(document)
		}
		var content any
		if err == nil {
			err = utiljson.Unmarshal(document, &content)
		}
		if err == nil && content != nil { // a document may have only comments
			err = miniClustersOf(content, do)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, document %d: %w", file, n, err))
		}
	}
}

// miniClustersOf calls do for an object, or for those of a list, if they are MiniClusters.
func miniClustersOf(content any, do func(map[string]any) error) error {
	object, ok := content.(map[string]any)
	if !ok || object["kind"] == nil {
		return errors.New("it is not a Kubernetes object: kind is missing")
	}
	switch object["kind"] {
	case "List", v1alpha2.MiniClusterKind + "List":
		items, _ := object["items"].([]any)
		var errs []error
		for _, item := range items {
			errs = append(errs, miniClustersOf(item, do))
		}
		return errors.Join(errs...)
	case v1alpha2.MiniClusterKind:
		return do(object)
	}
	return nil
}

func (r *renderer) renderMiniCluster(object map[string]any, out io.Writer) error {
	mc, err := r.miniCluster(object)
	if err != nil {
		return err
	}
	if err := r.write(mc, out); err != nil {
		return fmt.Errorf("MiniCluster %q: %w", mc.Name, err)
	}
	return nil
}

// miniCluster returns a MiniCluster as the controller would see it.
func (r *renderer) miniCluster(object map[string]any) (*v1alpha2.MiniCluster, error) {
	if version := v1alpha2.GroupVersion.String(); object["apiVersion"] != version {
		return nil, fmt.Errorf("the apiVersion of a MiniCluster is %s, and not %v", version, object["apiVersion"])
	}
	if err := r.schema.admit(object, r.namespace); err != nil {
		return nil, err
	}
	mc := &v1alpha2.MiniCluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, mc); err != nil {
		return nil, err
	}
	mc.UID, mc.Generation = cmp.Or(mc.UID, placeholderUID), 1
	mc.Status = v1alpha2.MiniClusterStatus{}
	mc.Default()
	return mc, nil
}

// check returns what the API server or the manager would refuse of a MiniCluster that has a name, or the beginning of one.
func check(mc *v1alpha2.MiniCluster) error {
	r, err := newRenderer(mc.Namespace)
	if err != nil {
		return err
	}
	named := mc.DeepCopy()
	if named.Name == "" {
		named.Name = named.GenerateName + "xxxxx"
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(named)
	if err != nil {
		return err
	}
	delete(object, "status")
	if named, err = r.miniCluster(object); err != nil {
		return err
	}
	_, err = jobset.AllObjects(named, placeholderSuffix, placeholderCertificate)
	return err
}

// write writes the objects of a MiniCluster.
func (r *renderer) write(mc *v1alpha2.MiniCluster, out io.Writer) error {
	objects, err := jobset.AllObjects(mc, placeholderSuffix, placeholderCertificate)
	if err != nil {
		return err
	}
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		delete(content, "status")
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
