// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Name returns the name of the JobSet.
func Name(mc *v1alpha2.MiniCluster) string { return mc.Name }

// Objects returns the objects of one attempt, in the order in which they have to be created, without
// the files that its pods mount. The JobSet is the last one, since its pods use the others.
func Objects(mc *v1alpha2.MiniCluster, attempt int32) ([]client.Object, error) {
	set, err := JobSet(mc, attempt)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	networking, err := Services(mc)
	if err != nil {
		return nil, err
	}
	for _, service := range networking {
		objects = append(objects, service)
	}
	return append(objects, set), nil
}

// Services returns the Service of the brokers, and one for each container beside Flux that has
// ports. MiniClusters that name the same Service share it, and all own it: it goes with the last.
// The Service of the brokers has no selector: Slices returns what it publishes.
func Services(mc *v1alpha2.MiniCluster) ([]*corev1.Service, error) {
	brokers := newService(mc, mc.Spec.Network.HeadlessName)
	brokers.Spec.ClusterIP = corev1.ClusterIPNone
	out := []*corev1.Service{brokers}
	for i := range mc.Spec.Containers {
		container := &mc.Spec.Containers[i]
		if !hasService(container) {
			continue
		}
		if container.Name == brokers.Name {
			return nil, fmt.Errorf("container %q: its Service would have the name of the brokers' Service; choose another network.headlessName", container.Name)
		}
		service := newService(mc, container.Name)
		service.Spec.Selector = map[string]string{v1alpha2.SidecarLabelPrefix + container.Name: "true"}
		for _, port := range ports(container) {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
				Name: "port-" + strconv.Itoa(int(port)), Port: port,
				Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(port),
			})
		}
		out = append(out, service)
	}
	return out, nil
}

// hasService reports whether a container has a Service: it runs beside Flux, and has ports.
func hasService(container *v1alpha2.MiniClusterContainer) bool {
	return !container.RunFlux && len(container.Ports) > 0
}

// newService returns a Service of which the MiniCluster is one of the owners.
func newService(mc *v1alpha2.MiniCluster, name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: mc.Namespace,
			Labels: map[string]string{v1alpha2.MiniClusterLabel: mc.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind, Name: mc.Name, UID: mc.UID,
			}},
		},
	}
}

// SharedServices returns the Services of a MiniCluster that other MiniClusters are likely to share;
// none if its spec is wrong.
func SharedServices(mc *v1alpha2.MiniCluster) []*corev1.Service {
	all, err := Services(mc)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(service *corev1.Service) bool { return service.Name == mc.Name })
}

// objectMeta returns the metadata of an object, which is deleted with its owner, the MiniCluster.
func objectMeta(mc *v1alpha2.MiniCluster, name string, attempt int32) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: mc.Namespace,
		Labels:          map[string]string{v1alpha2.MiniClusterLabel: mc.Name},
		Annotations:     map[string]string{v1alpha2.AttemptAnnotation: strconv.Itoa(int(attempt))},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))},
	}
}

// Attempt returns the attempt for which an object was made, or 0 if its annotation is missing.
func Attempt(object metav1.Object) int32 {
	return int32(number(object, v1alpha2.AttemptAnnotation, 32))
}

// Generation returns the generation of the spec from which a JobSet was made, or 0 if its
// annotation is missing.
func Generation(set metav1.Object) int64 { return number(set, v1alpha2.GenerationAnnotation, 64) }

// number returns the value of an annotation, or 0 if it is no number.
func number(object metav1.Object, annotation string, bits int) int64 {
	n, err := strconv.ParseInt(object.GetAnnotations()[annotation], 10, bits)
	if err != nil {
		return 0
	}
	return n
}
