// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// live reads from the API server: the cache may be behind, or does not have the kind.
type live struct{ client.Reader }

// errStillThere says that an object of an earlier MiniCluster of the same name is still being
// deleted.
var errStillThere = errors.New("an object of an earlier MiniCluster of the name is still there")

// nameClashError says that an object of another owner has the name.
type nameClashError struct{ kind, name, owner, why string }

// fluxOperator is the owner of an object that the Flux Operator made for the MiniCluster.
const fluxOperator = "Flux Operator"

func (c *nameClashError) Error() string {
	if c.owner == fluxOperator {
		return fmt.Sprintf("%s %q is of a run by the Flux Operator; delete the MiniCluster, and create it again", c.kind, c.name)
	}
	why := cmp.Or(c.why, "is not of this MiniCluster")
	if c.owner != "" {
		why = "belongs to " + c.owner
	}
	return fmt.Sprintf("%s %q exists and %s; it is left alone", c.kind, c.name, why)
}

// existing reads the object that has the name of one to be made from the API server, not from the
// cache; nil if there is none. It returns an error if the object has another owner.
func (l live) existing(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk := object.GetObjectKind().GroupVersionKind()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	if err := l.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %q: %w", gvk.Kind, object.GetName(), err)
	}
	owner := metav1.GetControllerOf(found)
	switch {
	case metav1.IsControlledBy(found, mc) && jobset.Attempt(found) == 0:
		// The command may run, or may have run. It must not run twice.
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: fluxOperator}
	case metav1.IsControlledBy(found, mc):
		return found, nil
	case owner == nil:
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName()}
	case owner.Kind == v1alpha2.MiniClusterKind && owner.Name == mc.Name:
		return nil, fmt.Errorf("%s %q: %w", gvk.Kind, object.GetName(), errStillThere)
	}
	return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: owner.Kind + " " + owner.Name}
}

// existingService reads the Service that has the name of one to be made from the API server; nil
// if there is none. It returns an error if MiniClusters cannot share that Service.
func (l live) existingService(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	found := &corev1.Service{}
	if err := l.Get(ctx, client.ObjectKeyFromObject(service), found); err != nil {
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
func (l live) isShared(ctx context.Context, object client.Object) bool {
	switch object := object.(type) {
	case *corev1.Service:
		found, err := l.existingService(ctx, object)
		return err == nil && found != nil
	case *corev1.ConfigMap:
		return jobset.IsIntact(object) && l.findScripts(ctx, object) == nil
	}
	return false
}

// findScripts returns the API server's error unless a namespace has the ConfigMap of some scripts, and a clash unless its name
// says what it has.
func (l live) findScripts(ctx context.Context, scripts *corev1.ConfigMap) error {
	found := &corev1.ConfigMap{}
	if err := l.Get(ctx, client.ObjectKeyFromObject(scripts), found); err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", scripts.Name, err)
	}
	if !jobset.IsIntact(found) {
		return &nameClashError{kind: "ConfigMap", name: found.Name, why: "has not the scripts of brokers that its name promises"}
	}
	return nil
}

// hasFiles reports whether the ConfigMap of a JobSet may exist.
func (l live) hasFiles(ctx context.Context, set *jobsetapi.JobSet) bool {
	return !apierrors.IsNotFound(l.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: jobset.FilesName(set)}, &corev1.ConfigMap{}))
}

// clash says which of the names of objects belongs to another owner; nil if none does.
func (l live) clash(ctx context.Context, mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, objects []client.Object) (clash *nameClashError, err error) {
	if errors.As(l.findScripts(ctx, jobset.Scripts(set)), &clash) {
		return clash, nil
	}
	for _, object := range append(objects, jobset.OperatorFiles(mc)) {
		var err error
		if service, ok := object.(*corev1.Service); ok {
			_, err = l.existingService(ctx, service)
		} else {
			_, err = l.existing(ctx, mc, object)
		}
		switch {
		case errors.As(err, &clash) && clash.kind == "ConfigMap" && clash.owner != fluxOperator:
			clash = nil // nothing here has that name
		case clash != nil:
			return clash, nil
		case err != nil && !errors.Is(err, errStillThere):
			return nil, err
		}
	}
	return nil, nil
}
