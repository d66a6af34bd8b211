// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// localQueue is the LocalQueue of each namespace.
const localQueue = "hpc"

// hasKueue reports whether there is a Kueue in the world.
func (w *World) hasKueue() bool { return w.Seed%5 == 2 }

// installKueue makes Kueue, with a quota of all CPUs.
func (w *World) installKueue() []client.Object {
	must(w.server.InstallModule("sigs.k8s.io/kueue", "config/components/crd/bases"))
	w.models = append(w.models, models.NewKueue(&models.Cluster{
		Client: w.server.Client(apiserver.Admin), Random: rand.New(rand.NewPCG(w.Seed, 5)), Changed: w.server.Changed,
	}))
	const all, check = "all", "placement"
	objects := []client.Object{
		&kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: all}},
		&kueueapi.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: check}, Spec: kueueapi.AdmissionCheckSpec{ControllerName: v1alpha2.PlacementCheck}},
		&kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: all}, Spec: kueueapi.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			Preemption:        &kueueapi.ClusterQueuePreemption{WithinClusterQueue: kueueapi.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueueapi.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors: []kueueapi.FlavorQuotas{{Name: all, Resources: []kueueapi.ResourceQuota{
					{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(int64(w.nodes*nodeCPUs), resource.DecimalSI)},
				}}},
			}},
			AdmissionChecksStrategy: &kueueapi.AdmissionChecksStrategy{AdmissionChecks: []kueueapi.AdmissionCheckStrategyRule{{Name: check}}},
		}},
	}
	for _, namespace := range namespaces {
		objects = append(objects, &kueueapi.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: localQueue}, Spec: kueueapi.LocalQueueSpec{ClusterQueue: all},
		})
	}
	return objects
}

// joinKueue gives a life its quota from Kueue, where there is one.
func joinKueue(w *World, _ *rand.Rand, l *life) {
	if w.hasKueue() {
		l.wrapper.Label(v1alpha2.KueueQueueLabel, localQueue)
	}
}
