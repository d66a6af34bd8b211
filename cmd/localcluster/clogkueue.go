// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// kueueQueue is the name of all objects of Kueue that the experiment makes.
const kueueQueue = "clog"

// fastKueue lets Kueue send as many requests as the control plane's other clients.
const fastKueue = `clientConnection: {qps: 1000, burst: 2000}`

// makeKueueQueue makes a queue of Kueue with the CPUs of all nodes. Its AdmissionCheck holds quota
// only for gangs that have nodes.
func makeKueueQueue(ctx context.Context, c client.Client, cpus resource.Quantity, nodes int) error {
	named := metav1.ObjectMeta{Name: kueueQueue}
	quota := kueueapi.ResourceQuota{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(cpus.Value()*int64(nodes), resource.DecimalSI)}
	for _, object := range []client.Object{
		&kueueapi.ResourceFlavor{ObjectMeta: named},
		&kueueapi.AdmissionCheck{ObjectMeta: named, Spec: kueueapi.AdmissionCheckSpec{ControllerName: v1alpha2.PlacementCheck}},
		&kueueapi.ClusterQueue{ObjectMeta: named, Spec: kueueapi.ClusterQueueSpec{
			NamespaceSelector:       &metav1.LabelSelector{},
			AdmissionChecksStrategy: &kueueapi.AdmissionChecksStrategy{AdmissionChecks: []kueueapi.AdmissionCheckStrategyRule{{Name: kueueQueue}}},
			ResourceGroups: []kueueapi.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors:          []kueueapi.FlavorQuotas{{Name: kueueQueue, Resources: []kueueapi.ResourceQuota{quota}}},
			}},
		}},
		&kueueapi.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: kueueQueue}, Spec: kueueapi.LocalQueueSpec{ClusterQueue: kueueQueue},
		},
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("making the queue of Kueue: %w", err)
		}
	}
	return nil
}

// withKueue starts Kueue beside the cluster, if the gangs get their quota from it.
func (o *clogOptions) withKueue() {
	if o.kueue {
		o.config.Kueue = &localcluster.KueueConfig{Configuration: fastKueue}
	}
}
