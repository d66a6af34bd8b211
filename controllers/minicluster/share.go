// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// makeService makes a Service, or becomes one more owner of the Service that other MiniClusters
// have made under the name. The Service gets the ports that it lacks.
func (r *Reconciler) makeService(ctx context.Context, mc *v1alpha2.MiniCluster, service *corev1.Service) error {
	refusal := r.Client.Create(ctx, service, client.FieldOwner(v1alpha2.FieldOwner))
	if refusal == nil {
		return nil
	}
	found, err := r.existingService(ctx, service)
	switch {
	case err != nil:
		return err
	case found == nil && apierrors.IsAlreadyExists(refusal):
		return errStillThere // it was being deleted
	case found == nil:
		return fmt.Errorf("creating Service %q: %w", service.Name, refusal)
	}
	if isOwner(found, mc) && !slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return !hasPort(found, port) }) {
		return nil
	}
	return r.patchService(ctx, found, map[string]any{
		"metadata": map[string]any{"uid": found.UID, "ownerReferences": service.OwnerReferences},
		"spec":     map[string]any{"ports": service.Spec.Ports},
	})
}

// existingService reads the Service that has the name of one to be made from the API server; nil
// if there is none. It returns an error if MiniClusters cannot share that Service.
func (r *Reconciler) existingService(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	found := &corev1.Service{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(service), found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Service %q: %w", service.Name, err)
	}
	ofMiniCluster := func(owner metav1.OwnerReference) bool {
		return owner.Kind == v1alpha2.MiniClusterKind && owner.APIVersion == v1alpha2.GroupVersion.String()
	}
	switch {
	case !slices.ContainsFunc(found.OwnerReferences, ofMiniCluster):
		clash := &nameClashError{kind: "Service", name: found.Name}
		if owner := metav1.GetControllerOf(found); owner != nil {
			clash.owner = owner.Kind + " " + owner.Name
		}
		return nil, clash
	case found.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%s %q: %w", "Service", found.Name, errStillThere)
	case isHeadless(found) != isHeadless(service):
		return nil, &nameClashError{kind: "Service", name: found.Name, why: "is of another kind: one of the two is headless"}
	}
	return found, nil
}

// isShared reports whether an object to be made exists, and several MiniClusters use it: a Service, or the scripts. A quota may
// allow no more.
func (r *Reconciler) isShared(ctx context.Context, object client.Object) bool {
	switch object := object.(type) {
	case *corev1.Service:
		found, err := r.existingService(ctx, object)
		return err == nil && found != nil
	case *corev1.ConfigMap:
		return jobset.IsIntact(object) && r.findScripts(ctx, object) == nil
	}
	return false
}

// leaveServices gives up the ownership of Services that other MiniClusters own too. A MiniCluster
// that has ended may stay for ever, and the list of owners would grow with each. The last owner
// keeps the Service, which goes with that MiniCluster.
func (r *Reconciler) leaveServices(ctx context.Context, mc *v1alpha2.MiniCluster) error {
	for _, service := range jobset.SharedServices(mc) {
		found := &corev1.Service{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(service), found)
		if err == nil && isOwner(found, mc) && len(found.OwnerReferences) > 1 {
			err = r.patchService(ctx, found, map[string]any{"metadata": map[string]any{
				"resourceVersion": found.ResourceVersion, // of two last owners one stays
				"ownerReferences": []any{map[string]any{"$patch": "delete", "uid": mc.UID}},
			}})
		}
		if refused(err) || isUnanswered(err) { // the end is told nevertheless
			ctrl.LoggerFrom(ctx).Info("A shared Service keeps an owner that has ended", "Service", service.Name, "error", err.Error())
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("leaving Service %q: %w", service.Name, err)
		}
	}
	return nil
}

func (r *Reconciler) patchService(ctx context.Context, service *corev1.Service, content map[string]any) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, service, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(v1alpha2.FieldOwner)); err != nil {
		return fmt.Errorf("sharing Service %q: %w", service.Name, err)
	}
	return nil
}

func isOwner(object metav1.Object, mc *v1alpha2.MiniCluster) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == mc.UID })
}

func isHeadless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

func hasPort(service *corev1.Service, port corev1.ServicePort) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(other corev1.ServicePort) bool { return other.Port == port.Port })
}
