// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// visibilityService is the name of the Service of Kueue's visibility server.
const visibilityService = "visibility-server"

// serveVisibility lets the API server pass requests for visibility.kueue.x-k8s.io on to Kueue. The
// address of a Service or an EndpointSlice cannot be a loopback address. The name of an ExternalName
// Service can stand for one, and the API server then uses the port of the APIService.
func (k *kueue) serveVisibility(ctx context.Context) error {
	config, err := k.RESTConfig()
	if err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: visibilityService}}
	service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
	_, err = core.CoreV1().Services(kueueNamespace).Create(ctx, service, metav1.CreateOptions{})
	if ignoreAlreadyExists(err) != nil {
		return err
	}
	others, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		object, err := k.apiService(version)
		if err != nil {
			return err
		}
		gvr := object.GroupVersionKind().GroupVersion().WithResource("apiservices")
		_, err = others.Resource(gvr).Create(ctx, object, metav1.CreateOptions{})
		if ignoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// apiService returns the APIService that Kueue ships for a version, with the port of this cluster.
func (k *kueue) apiService(version string) (*unstructured.Unstructured, error) {
	path := filepath.Join(k.sources, "config", "components", "visibility", "apiservice_"+version+".yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &object.Object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	service := map[string]any{"namespace": kueueNamespace, "name": visibilityService, "port": int64(k.Port + portKueueVisibility)}
	return object, unstructured.SetNestedMap(object.Object, service, "spec", "service")
}
