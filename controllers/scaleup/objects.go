// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/scaleup"
)

// kinds are those of the objects by which autoscalers are asked, and of the PodTemplate.
func (s *ScaleUp) kinds() []schema.GroupVersionKind {
	now, _ := s.state()
	kinds := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("PodTemplate")}
	for provider, version := range now.versions {
		kinds = append(kinds, scaleup.Kind(provider, version))
	}
	return kinds
}

// objects are those of a MiniCluster in the cache. Those of an earlier MiniCluster of its name do not count.
func (s *ScaleUp) objects(ctx context.Context, name types.NamespacedName, uid types.UID) (*scaleup.Objects, error) {
	out := &scaleup.Objects{}
	now, reader := s.state()
	if reader == nil {
		return out, nil
	}
	name.Name = scaleup.Name(name.Name)
	template := &corev1.PodTemplate{}
	if there, err := get(ctx, reader, name, uid, template); err != nil {
		return nil, err
	} else if there {
		out.Template = template
	}
	for provider, version := range now.versions {
		object := objectOf(scaleup.Kind(provider, version))
		there, err := get(ctx, reader, name, uid, object)
		if err != nil {
			return nil, err
		}
		if there {
			request, err := scaleup.Read(object)
			if err != nil {
				return nil, err
			}
			out.Requests = append(out.Requests, request)
		}
	}
	return out, nil
}

// get reads an object, and reports whether there is one of a MiniCluster.
func get(ctx context.Context, reader client.Reader, name types.NamespacedName, uid types.UID, object client.Object) (bool, error) {
	if err := reader.Get(ctx, name, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading %T %q: %w", object, name.Name, err)
	}
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid, nil
}
