// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resource is a kind of objects that the server has.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool

	listKind, singular string
	shortNames         []string
	subresources       []string
	traits             traits
	// definition is that of a custom resource; nil for a built-in one. Objects of custom resources are unstructured.
	definition *definition
}

func (r *Resource) kind() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

func (r *Resource) has(subresource string) bool {
	return subresource == "" || slices.Contains(r.subresources, subresource)
}

// traits are in what the API server's strategies for kinds differ: k8s.io/kubernetes/pkg/registry, file strategy.go of
// each kind.
type traits struct {
	// createOnUpdate lets an update make an object that is not there.
	createOnUpdate bool
	// needsVersion refuses updates without a resource version.
	needsVersion bool
	// keepsStatus lets a creation set the status.
	keepsStatus bool
	// counts is that the object has a generation.
	counts bool
	// orphans is that a deletion without a propagation policy leaves the dependents.
	orphans bool
	// managed is that the server notes who wrote an object.
	managed bool
}

// builtin are the built-in kinds that the manager, its users and the models use.
var builtin = []Resource{
	core("pods", "Pod", traits{counts: true}, "status", "eviction", "binding", "ephemeralcontainers", "resize", "log").called("po"),
	core("services", "Service", traits{createOnUpdate: true}, "status").called("svc"),
	core("secrets", "Secret", traits{}),
	core("configmaps", "ConfigMap", traits{}).called("cm"),
	core("events", "Event", traits{createOnUpdate: true}).called("ev"),
	core("serviceaccounts", "ServiceAccount", traits{}, "token").called("sa"),
	core("resourcequotas", "ResourceQuota", traits{}, "status").called("quota"),
	core("limitranges", "LimitRange", traits{createOnUpdate: true}).called("limits"),
	core("persistentvolumeclaims", "PersistentVolumeClaim", traits{}, "status").called("pvc"),
	core("podtemplates", "PodTemplate", traits{counts: true}),
	core("replicationcontrollers", "ReplicationController", traits{counts: true}, "status"),
	core("endpoints", "Endpoints", traits{createOnUpdate: true}),
	core("nodes", "Node", traits{keepsStatus: true}, "status").cluster().called("no"),
	core("namespaces", "Namespace", traits{}, "status", "finalize").cluster().called("ns"),
	core("persistentvolumes", "PersistentVolume", traits{}, "status").cluster().called("pv"),
	of("batch", "jobs", "Job", traits{counts: true, orphans: true}, "status"),
	of("apps", "deployments", "Deployment", traits{counts: true}, "status", "scale").called("deploy"),
	of("apps", "daemonsets", "DaemonSet", traits{counts: true}, "status").called("ds"),
	of("apps", "replicasets", "ReplicaSet", traits{counts: true}, "status").called("rs"),
	of("apps", "statefulsets", "StatefulSet", traits{counts: true}, "status").called("sts"),
	of("events.k8s.io", "events", "Event", traits{createOnUpdate: true}).called("ev"),
	of("coordination.k8s.io", "leases", "Lease", traits{createOnUpdate: true, needsVersion: true}),
	of("discovery.k8s.io", "endpointslices", "EndpointSlice", traits{counts: true}),
	of("policy", "poddisruptionbudgets", "PodDisruptionBudget", traits{needsVersion: true, counts: true}, "status").called("pdb"),
	of("storage.k8s.io", "storageclasses", "StorageClass", traits{}).cluster().called("sc"),
	of("scheduling.k8s.io", "priorityclasses", "PriorityClass", traits{}).cluster().called("pc"),
	of("node.k8s.io", "runtimeclasses", "RuntimeClass", traits{}).cluster(),
	of("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", traits{needsVersion: true, counts: true, managed: true}, "status").cluster().called("crd", "crds"),
	of("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", traits{needsVersion: true, counts: true}, "status").cluster(),
	of("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", traits{needsVersion: true, counts: true}).cluster(),
	of("admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", traits{needsVersion: true, counts: true}).cluster(),
	of("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", traits{needsVersion: true, counts: true}).cluster(),
	of("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", traits{needsVersion: true, counts: true}).cluster(),
	of("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", traits{needsVersion: true, counts: true}).cluster(),
}

func core(name, kind string, t traits, subresources ...string) Resource {
	return of(corev1.GroupName, name, kind, t, subresources...)
}

func of(group, name, kind string, t traits, subresources ...string) Resource {
	return Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: name},
		Kind:                 kind, Namespaced: true, listKind: kind + "List", subresources: subresources, traits: t,
	}
}

func (r Resource) cluster() Resource {
	r.Namespaced = false
	return r
}

func (r Resource) called(shortNames ...string) Resource {
	r.shortNames = shortNames
	return r
}

// newObject returns an empty object of the resource.
func newObject(r *Resource) client.Object {
	if r.definition == nil {
		object, err := builtinScheme().New(r.kind())
		if err != nil {
			panic(err) // a built-in kind that the server's own scheme does not have
		}
		object.GetObjectKind().SetGroupVersionKind(r.kind())
		return object.(client.Object)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.kind())
	return object
}
