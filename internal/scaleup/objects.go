// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Group is the API group of ProvisioningRequests and CapacityBuffers, of which the project uses few fields. Their Go
// packages import frameworks for tests, or are a whole autoscaler, so the fields are typed here.
const Group = "autoscaling.x-k8s.io"

// Resources are the resources of the group by provider, and the versions that this package can use, the best first. The
// fields of all versions are the same, as far as they are used.
var Resources = map[v1alpha2.ScaleUpProvider]struct {
	Name     string
	Versions []string
}{
	v1alpha2.ProvideByRequest: {"provisioningrequests", []string{"v1", "v1beta1"}},
	v1alpha2.ProvideByBuffer:  {"capacitybuffers", []string{"v1beta1", "v1alpha1"}},
}

// Conditions of ProvisioningRequests and CapacityBuffers.
const (
	// conditionAccepted is True while the autoscaler tries to provide the nodes of a ProvisioningRequest.
	conditionAccepted = "Accepted"
	// conditionProvisioned is True once the autoscaler has provided the nodes.
	conditionProvisioned = "Provisioned"
	// conditionFailed is True if the autoscaler cannot provide the nodes.
	conditionFailed = "Failed"
	// conditionExpired is True once the autoscaler holds the nodes for the pods no longer.
	conditionExpired = "BookingExpired"
	// conditionRevoked is True once the autoscaler has taken the nodes back.
	conditionRevoked = "CapacityRevoked"

	// conditionReady is True if the autoscaler understands a CapacityBuffer, and tries to provide its nodes.
	conditionReady = "ReadyForProvisioning"
	// conditionProvisioning is True while all pods of a CapacityBuffer fit on nodes that exist.
	conditionProvisioning = "Provisioning"
)

// Request is a ProvisioningRequest or a CapacityBuffer.
type Request struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              RequestSpec   `json:"spec"`
	Status            RequestStatus `json:"status,omitzero"`
}

// RequestSpec has the fields of both kinds.
type RequestSpec struct {
	// Of a ProvisioningRequest. They cannot be changed.
	PodSets    []PodSet          `json:"podSets,omitempty"`
	Class      string            `json:"provisioningClassName,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`

	// Of a CapacityBuffer.
	PodTemplateRef *Reference `json:"podTemplateRef,omitempty"`
	Replicas       *int32     `json:"replicas,omitempty"`
}

// PodSet is a number of pods of a ProvisioningRequest.
type PodSet struct {
	PodTemplateRef Reference `json:"podTemplateRef"`
	Count          int32     `json:"count"`
}

// Reference names an object of the same namespace.
type Reference struct {
	Name string `json:"name"`
}

// RequestStatus is what the autoscaler says.
type RequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Replicas is what a CapacityBuffer provides.
	Replicas *int32 `json:"replicas,omitempty"`
}

// Read reads an object of the API server.
func Read(object *unstructured.Unstructured) (*Request, error) {
	r := &Request{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, r); err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return r, nil
}

// Unstructured is the object for the API server, without its status.
func (r *Request) Unstructured() (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("building %s %q: %w", r.Kind, r.Name, err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// Kind is the kind of the objects of a provider, in a version.
func Kind(provider v1alpha2.ScaleUpProvider, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: Group, Version: version, Kind: string(provider)}
}

// verdict is what the autoscaler says, and its words.
func (r *Request) verdict() (elastic.Verdict, string) {
	for _, lost := range []struct {
		condition string
		verdict   elastic.Verdict
	}{
		{conditionFailed, elastic.NodesFailed}, {conditionRevoked, elastic.NodesRevoked}, {conditionExpired, elastic.NodesExpired},
		{conditionProvisioned, elastic.NodesProvisioned}, {conditionAccepted, elastic.NodesAccepted},
		{conditionProvisioning, elastic.NodesProvisioned}, {conditionReady, elastic.NodesAccepted},
	} {
		if c := meta.FindStatusCondition(r.Status.Conditions, lost.condition); c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= r.observable() {
			return lost.verdict, c.Message
		}
	}
	return elastic.NodesRequested, ""
}

// observable is the generation that a condition has to be about: the number of replicas of a CapacityBuffer changes.
func (r *Request) observable() int64 {
	if r.Kind == string(v1alpha2.ProvideByBuffer) {
		return r.Generation
	}
	return 0
}

// Objects are what exists for a MiniCluster; nil for what does not.
type Objects struct {
	Template *corev1.PodTemplate
	// Requests are of any provider.
	Requests []*Request
}

// current is the object by which the autoscaler is asked for what a record says; nil if there is none.
func (o *Objects) current(record *Record) *Request {
	for _, r := range o.Requests {
		if r.Labels[v1alpha2.ScaleUpLabel] == record.ID() && r.DeletionTimestamp == nil {
			return r
		}
	}
	return nil
}
